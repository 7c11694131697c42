/* A page opened from the disk may not fetch other files, so the search there shows titles without
   the excerpts that it would take from the pages. */
if (location.protocol === "file:" && typeof DOCUMENTATION_OPTIONS !== "undefined") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}
