/* A page opened from the disk may not fetch other files, so the search there shows titles without
   the excerpts that it would take from the pages. */
if (location.protocol === "file:" && typeof DOCUMENTATION_OPTIONS !== "undefined") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}

/* On paper nothing can be opened, so all of it is: choices of one question, too, which by their
   common name would close each other. */
(() => {
  let opened = [];
  addEventListener("beforeprint", () => {
    const closed = document.querySelectorAll(".bd-article details:not([open])");
    opened = [...closed].filter((details) => !details.closest(".kvv"));
    const named = [...document.querySelectorAll(".bd-article details[name]")];
    for (const details of named) {
      details.dataset.group = details.getAttribute("name");
      details.removeAttribute("name");
    }
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
    opened = [];
    for (const details of document.querySelectorAll("details[data-group]")) {
      details.setAttribute("name", details.dataset.group);
      delete details.dataset.group;
    }
  });
})();
