// Links to a step of a view: what stands behind # in the page's address.

/** How much of a run's digest a link carries. */
const DIGEST_CHARS = 12;

/**
 * @typedef {Object} Link
 * @property {string} view the view's name, or its number on the page
 * @property {string} event a frame's name, "" for the state before the first
 * @property {number} pin a slot; -1: none
 * @property {string} run the beginning of the run's digest
 */

/** @param {Link} link @returns {string} "#view=…" */
export function linkHash({ view, event, pin, run }) {
  const parts = { view, event, pin: pin >= 0 ? String(pin) : "", run: run.slice(0, DIGEST_CHARS) };
  const readable = (text) => encodeURIComponent(text).replaceAll("%3A", ":");
  return `#${Object.entries(parts).filter(([, value]) => value).map(([name, value]) => `${name}=${readable(value)}`).join("&")}`;
}

/** @param {string} hash @returns {Link|null} null: it leads elsewhere */
export function readHash(hash) {
  const parts = new URLSearchParams(hash.slice(1));
  const view = parts.get("view");
  if (!view) return null;
  const pin = parts.get("pin") ?? "";
  return { view, event: parts.get("event") ?? "", pin: /^\d+$/.test(pin) ? Number(pin) : -1, run: parts.get("run") ?? "" };
}

/** Whether a link was made for this run. @param {Link} link @param {string} digest */
export function sameRun(link, digest) {
  return !link.run || !digest || digest.startsWith(link.run);
}
