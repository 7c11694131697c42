// What ties a view to the page around it: words of the text move it, and it tells the page where it is.

import { findEvent } from "./events.js";

/**
 * @param {HTMLElement} root
 * @param {{trace: () => any, index: () => number, pinned: () => number, shape: () => string,
 *   go: (index: number, panels: string[], pin: number|undefined) => void}} view
 */
export function joinPage(root, view) {
  const find = (event) => findEvent(view.trace().frames, event);

  /** {event, panels, pin}: what is left out stays as it is; pin -1 is none. */
  root.addEventListener("kvv-go", (told) => {
    const { event, panels = [], pin } = /** @type {CustomEvent} */ (told).detail;
    const found = event === undefined ? view.index() : find(event);
    // Where one panel shows at a time, it is the first.
    if (found >= 0) view.go(found, view.shape() === "narrow" ? panels.slice(0, 1) : panels, pin);
  });

  return {
    /** The view was drawn. `at(event)`: whether it stands at that event. */
    moved() {
      const detail = { index: view.index(), pin: view.pinned(), at: (event) => find(event) === view.index() };
      root.dispatchEvent(new CustomEvent("kvv-moved", { bubbles: true, detail }));
    },
  };
}
