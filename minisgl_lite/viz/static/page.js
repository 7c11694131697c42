// What ties a view to the page around it: words of the text move it, it tells the page where it is, links lead to a step.

import { button, copyText, el, setAttr, setText } from "./dom.js";
import { eventName, findEvent } from "./events.js";
import { linkHash, readHash, sameRun } from "./links.js";
import { say } from "./words.js";

const STATE = 'script[type="application/vnd.jupyter.widget-state+json"]';
const HOLDERS = ".static-widget, .widget-subarea";

/**
 * @param {HTMLElement} root complete: its menu gets a button
 * @param {{trace: () => any, index: () => number, pinned: () => number, shape: () => string,
 *   go: (index: number, panels: string[], pin: number|undefined) => void, meet?: (digest: string) => void}} view
 *   `meet`: show the variant with this digest, if there is one
 */
export function joinPage(root, view) {
  const announce = (words) => setText(root.querySelector("[aria-live]"), words);
  const built = !!root.closest(".static-widget") || !!document.querySelector(STATE);
  let led = false;
  let frames = [];
  let known = new Map();

  /** Asked at every step for each phrase of the page. @param {string} event */
  function find(event) {
    if (view.trace().frames !== frames) [frames, known] = [view.trace().frames, new Map()];
    if (!known.has(event)) known.set(event, findEvent(frames, event));
    return known.get(event);
  }

  /** {event, panels, pin}: what is left out stays as it is; pin -1 is none. */
  root.addEventListener("kvv-go", (told) => {
    const { event, panels = [], pin } = /** @type {CustomEvent} */ (told).detail;
    const found = event === undefined ? view.index() : find(event);
    // Where one panel shows at a time, it is the first.
    if (found >= 0) view.go(found, view.shape() === "narrow" ? panels.slice(0, 1) : panels, pin);
  });

  /** The view's name in links: its own, else which of the page's views it is, from 1. */
  function key() {
    const holder = root.closest(HOLDERS);
    return root.dataset.name ?? String([...document.querySelectorAll(HOLDERS)].indexOf(holder) + 1);
  }

  async function copy() {
    const event = eventName(view.trace().frames, view.index());
    const hash = linkHash({ view: key(), event, pin: view.pinned(), run: view.trace().digest ?? "" });
    const text = built ? location.href.split("#")[0] + hash : `start="${event}"`;
    if (await copyText(copier, text)) return announce(say("control.copied"));
    if (built) history.replaceState(null, "", hash);
    announce(say(built ? "link.address" : "control.uncopied"));
  }

  /** Go where the address leads, if it leads here. */
  function follow() {
    if (!root.isConnected) return removeEventListener("hashchange", follow);
    const link = readHash(location.hash);
    if (link?.view !== key()) return;
    root.querySelector(":scope > .kvv-changed-run")?.remove();
    if (!sameRun(link, view.trace().digest)) view.meet?.(link.run);
    const found = link.event ? find(link.event) : -1;
    if (!sameRun(link, view.trace().digest)) tell(say(found < 0 ? "link.gone" : "link.changed"));
    if (found >= 0) view.go(found, [], link.pin);
    root.scrollIntoView({ block: "start" });
  }

  /** @param {string} words */
  function tell(words) {
    const note = el("p", { class: "kvv-changed-run" }, [words, " ", button("", () => note.remove(), { label: say("link.close"), sign: "close", cls: "kvv-small" })]);
    root.prepend(note);
    announce(words);
  }
  if (built) addEventListener("hashchange", follow);
  const copier = button(say(built ? "control.link" : "control.start"), copy, { cls: "kvv-small" });
  root.querySelector(".kvv-menubox button:last-of-type")?.after(copier);

  // Where the page knows the API reference, the function that a view names is a link to it.
  const api = JSON.parse(document.getElementById("kvv-api")?.textContent ?? "{}");
  const sources = built ? [...root.querySelectorAll(".kvv-source")].map((node) => ({ node, link: el("a", { class: "kvv-sourcelink" }) })) : [];
  for (const { node, link } of sources) {
    node.replaceWith(link);
    link.append(node);
  }
  function linkSources() {
    for (const { node, link } of sources) {
      const address = api[node.textContent];
      if (address) setAttr(link, "href", address);
      else link.removeAttribute("href");
    }
  }

  return {
    /** The view was drawn. `at(event)`: whether it stands at that event. */
    moved() {
      const detail = { index: view.index(), pin: view.pinned(), at: (event) => find(event) === view.index() };
      root.dispatchEvent(new CustomEvent("kvv-moved", { bubbles: true, detail }));
      linkSources();
      if (built && !led) follow();
      led = true;
    },
  };
}
