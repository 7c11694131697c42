/* Makes the page's `{step}` phrases buttons: a click moves their view to an event, and a phrase is
   marked while its view is there. A view tells where it is by "kvv-moved", whenever it is drawn. */
(() => {
  "use strict";
  const places = new Map(); // view's root -> what it said last
  const waiting = new Map(); // view's id -> the phrase that was clicked before the view was there
  let phrases = [];

  /** @param {HTMLElement} phrase @returns {HTMLElement|undefined} the root of its view, once drawn */
  function rootOf(phrase) {
    const roots = [...places.keys()].filter((root) => root.isConnected);
    return roots.find((root) => root.dataset.id === phrase.dataset.viewId);
  }

  function go(phrase, root) {
    const { event, panels, pin } = phrase.dataset;
    const detail = { event, panels: panels ? panels.split(",") : [], pin: pin === undefined ? -1 : Number(pin) };
    root.dispatchEvent(new CustomEvent("kvv-go", { detail }));
    bringIntoSight(root);
  }

  /** Scroll only if less than half of what could be seen of the view is seen. */
  function bringIntoSight(root) {
    const { top, bottom, height } = root.getBoundingClientRect();
    const seen = Math.min(bottom, innerHeight) - Math.max(top, 0);
    if (seen >= Math.min(height, innerHeight) / 2) return;
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const block = height < innerHeight - 80 ? "nearest" : "start";
    root.scrollIntoView({ block, behavior: calm ? "auto" : "smooth" });
  }

  function mark(phrase) {
    const { event, pin } = phrase.dataset;
    const place = places.get(rootOf(phrase));
    const holds = place && place.at(event) && (pin === undefined || place.pin === Number(pin));
    if (holds) phrase.setAttribute("aria-current", "step");
    else phrase.removeAttribute("aria-current");
  }

  function makeButton(span) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = span.className;
    button.title = span.dataset.hint;
    Object.assign(button.dataset, span.dataset);
    button.append(...span.childNodes);
    button.addEventListener("click", () => {
      const root = rootOf(button);
      if (root) go(button, root);
      else waiting.set(button.dataset.viewId, button);
    });
    span.replaceWith(button);
    return button;
  }

  document.addEventListener("kvv-moved", (event) => {
    const root = event.target;
    places.set(root, event.detail);
    const asked = waiting.get(root.dataset.id);
    waiting.delete(root.dataset.id);
    if (asked) go(asked, root);
    phrases.filter((phrase) => phrase.dataset.viewId === root.dataset.id).forEach(mark);
  });

  function start() {
    phrases = [...document.querySelectorAll("span.kvv-phrase[data-view-id]")].map(makeButton);
    phrases.forEach(mark);
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
