// Small helpers for the DOM. Text is always set as text, never as markup.

import { say } from "./words.js";

/**
 * Make an element.
 * @param {string} tag
 * @param {Object<string, any>} [props] `class`, `text`, `on` (listeners), everything else an attribute; false: left out
 * @param {(Node|string|null|false)[]} [children]
 * @returns {any}
 */
export function el(tag, props = {}, children = []) {
  return fill(document.createElement(tag), props, children);
}

/** The same for SVG. @returns {any} */
export function svg(tag, props = {}, children = []) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === false || value === null || value === undefined) continue;
    if (name === "text") node.textContent = value;
    else if (name === "class") node.setAttribute("class", value);
    else if (name === "on") for (const [event, fn] of Object.entries(value)) node.addEventListener(event, fn);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null && child !== false) node.append(child);
  return node;
}

/** Set text only when it differs: unchanged text costs nothing and is not spoken again. What is spoken is a new node. */
export function setText(node, text) {
  const only = node.firstChild;
  if (only?.nodeType === 3 && !only.nextSibling && !node.hasAttribute("aria-live")) {
    if (only.data !== text) only.data = text;
  } else if (node.textContent !== text) node.textContent = text;
}

/** Set an attribute only when it differs. */
export function setAttr(node, name, value) {
  if (node.getAttribute(name) !== String(value)) node.setAttribute(name, String(value));
}

/** Hide or show only when it is not so already: said again, it costs the browser a look at every style. */
export function setHidden(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}

/**
 * Rows that stay with what they show: when some come and go, the others only move. One without anything to show is hidden
 * and used again, because making elements is what costs.
 * @template {{id: number, root: Element}} Row
 * @param {Element} parent
 * @param {() => Row} make a row with id -1, not yet in the parent
 * @param {Element|null} [end] what stands behind the rows
 * @returns {(ids: number[]) => Row[]} gives each id its row, in order
 */
export function keyedRows(parent, make, end = null) {
  /** @type {Row[]} */
  let rows = [];
  return (ids) => {
    const own = new Map(rows.map((row) => [row.id, row]));
    const wanted = new Set(ids);
    const idle = new Set(rows.filter((row) => !wanted.has(row.id)));
    // A new id takes the idle row at its place, so that nothing moves; those left over stand aside for the ones that stay.
    const placed = ids.map((id, i) => own.get(id) ?? (idle.delete(rows[i]) ? rows[i] : null));
    for (const row of idle) if (row.id >= 0) parent.insertBefore(row.root, end);
    const spare = [...idle];
    const used = placed.map((row) => row ?? spare.pop() ?? make());
    for (const row of spare) {
      row.id = -1;
      row.root.toggleAttribute("hidden", true);
    }
    let at = parent.firstChild;
    used.forEach((row, i) => {
      row.id = ids[i];
      row.root.toggleAttribute("hidden", false);
      if (row.root === at) at = at.nextSibling;
      else parent.insertBefore(row.root, at);
    });
    rows = [...used, ...spare];
    return used;
  };
}

/** After so long without a step, what is out of sight is brought up to date. */
const REST_MS = 120;

/**
 * Rows of a box that scrolls: those in sight are updated at once, the others at rest, or when they come into sight.
 * @param {HTMLElement} box
 * @param {() => void} [caughtUp] all rows are up to date now
 */
export function sightFirst(box, caughtUp = () => {}) {
  let top = 0; // as last heard of: asking the box would make the browser lay out at once
  let resting = 0;
  /** @type {(() => void)[]} */
  let late = [];
  function catchUp() {
    clearTimeout(resting);
    if (!late.length) return;
    const all = late;
    late = [];
    for (const update of all) update();
    caughtUp();
  }
  box.addEventListener("scroll", () => {
    top = box.scrollTop;
    catchUp();
  });
  return {
    /** @param {number} n rows @param {number} high height of one @param {number} room of the box @param {(i: number) => void} update */
    update(n, high, room, update) {
      const [first, last] = [Math.floor(top / high), Math.ceil((top + room) / high)];
      late = [];
      for (let i = 0; i < n; i++) {
        if (i >= first && i < last) update(i);
        else late.push(() => update(i));
      }
      clearTimeout(resting);
      if (late.length) resting = setTimeout(catchUp, REST_MS);
    },
    catchUp,
    stop: () => clearTimeout(resting),
  };
}

let ids = 0;
/** An id that no other element of the page has. */
export function freshId(name) {
  return `kvv-${name}-${++ids}-${Math.random().toString(36).slice(2, 7)}`;
}

const ICONS = {
  first: "M4 3v10M13 3L6 8l7 5z", last: "M12 3v10M3 3l7 5-7 5z", back: "M11 2.5L4.5 8l6.5 5.5", next: "M5 2.5L11.5 8 5 13.5",
  play: "M4 2.5L13.5 8 4 13.5z", pause: "M5 3v10M11 3v10", close: "M4 4l8 8M12 4l-8 8",
};

const OPEN = new Set(["back", "next", "close"]);

/** A sign drawn in the text's colour: fonts lack some of these. @param {keyof typeof ICONS} name */
export function icon(name) {
  return svg("svg", { viewBox: "0 0 16 16", class: "kvv-icon", "aria-hidden": "true" }, [svg("path", { d: ICONS[name], fill: OPEN.has(name) ? "none" : false })]);
}

/**
 * Copy a text. Where the browser refuses, the text stands selected below the button that asked for it.
 * @param {HTMLElement} asked @param {string} text @returns {Promise<boolean>} whether it was copied
 */
export async function copyText(asked, text) {
  const box = asked.parentElement;
  box.querySelector(".kvv-kept")?.remove();
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    await new Promise(requestAnimationFrame); // the click that asked has closed the menu by then
    const kept = el("textarea", { readonly: true, rows: 4, "aria-label": asked.textContent });
    kept.value = text;
    asked.after(el("div", { class: "kvv-kept" }, [say("control.uncopied"), kept]));
    box.closest("details")?.setAttribute("open", "");
    kept.select();
    kept.focus();
    return false;
  }
}

/** A button with a visible text, or a sign with a label. */
export function button(text, onClick, { label = "", cls = "", sign = "" } = {}) {
  return el("button", {
    type: "button", class: `kvv-btn ${cls}`.trim(), "aria-label": label || false, title: label || false,
    on: { click: onClick },
  }, [sign ? icon(sign) : text]);
}
