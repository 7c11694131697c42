// The radix tree: tokens, who holds each node, which node would be evicted next.

import { el, svg, keyedRows, setAttr, setHidden, setText, sightFirst } from "./dom.js";
import { slotText } from "./sentences.js";
import { isolate } from "./tokens.js";
import { say, count, number } from "./words.js";

const NODE_ROW = 26;
const INDENT = 18;
const NODES_SHOWN = 60;
const ROOM = 160; // the box's height in panels.css

/** Nodes in the order in which they are drawn, with their depth. @param {Map<number, any>} tree */
export function treeRows(tree) {
  const rows = [];
  const walk = (id, depth) => {
    const node = tree.get(id);
    rows.push({ node, depth });
    for (const child of [...node.children].sort((a, b) => a - b)) walk(child, depth + 1);
  };
  walk(0, 0);
  return rows;
}

/** The unlocked leaf that an eviction would take first; null when there is none. @param {Map<number, any>} tree */
export function nextEvicted(tree) {
  let found = null;
  for (const node of tree.values()) {
    if (node.id === 0 || node.ref > 0 || node.children.length) continue;
    if (!found || node.time < found.time || (node.time === found.time && node.id < found.id)) found = node;
  }
  return found;
}

/**
 * What a frame did to the nodes: the last word on each.
 * @param {any} frame
 * @param {Map<number, any>} tree after the frame
 * @returns {{changes: Map<number, string>, evicted: number}} node → key of the word
 */
export function treeChanges(frame, tree) {
  const changes = new Map();
  let evicted = 0;
  for (const [op, id, other] of frame?.tree ?? []) {
    if (op === "del") evicted++;
    else if (op === "add") changes.set(id, "tree.new");
    else if (op === "split") changes.set(id, "tree.split").set(other, "tree.split");
    else if (op === "ref" && !changes.has(id)) changes.set(id, tree.get(id)?.ref ? "tree.held" : "tree.freed");
  }
  return { changes, evicted };
}

/** @param {any} app */
export function treePanel(app) {
  /** @type {import("./slots.js").View} */
  let view = null;
  let drawn = null;
  let active = 0;
  /** The slot under the pointer and the pinned one. @type {[number, number]} */
  let linked = [-1, -1];
  let marked = false;
  let asked = false; // whether it was drawn without what Predict asks for
  const note = el("span", { class: "kvv-note" });
  const picture = svg("svg", { role: "tree", "aria-label": say("panel.tree"), class: "kvv-tree" });
  const empty = el("p", { class: "kvv-empty", text: say("tree.naive") });
  const body = el("div", { class: "kvv-treebox" }, [empty, picture]);

  /** @param {any} node @param {any} next */
  function words(node, next) {
    if (node.id === 0) return say("tree.root");
    const state = node.ref ? say("tree.ref", { n: node.ref }) : say("tree.lru", { time: node.time });
    const text = node.key.map((id) => view.tokens.whole(id)).join("");
    const more = node === next ? `, ${say("tree.next")}` : "";
    return say("tree.node", { id: node.id, text: isolate(text), slots: slotText(node.value), state }) + more;
  }

  const more = svg("text", { x: 8, hidden: true });
  picture.append(more);
  const assign = keyedRows(picture, makeRow, more);
  const sight = sightFirst(body, () => link(...linked));
  /** One for each node that is drawn, in order. @type {ReturnType<typeof makeRow>[]} */
  let rows = [];

  function makeRow() {
    const [twig, rect] = [svg("path", { class: "kvv-twig", "aria-hidden": "true" }), svg("rect", { height: NODE_ROW - 4, rx: 3 })];
    const [key, label] = [svg("text", { class: "kvv-key" }), svg("text", { class: "kvv-nodenote" })];
    const item = svg("g", { role: "treeitem", tabindex: "-1" }, [rect, key, label]);
    return { id: -1, root: svg("g", { role: "none" }, [twig, item]), twig, item, rect, key, label };
  }

  function draw() {
    const all = treeRows(view.state.tree);
    const next = app.predict?.asking() ? null : nextEvicted(view.state.tree); // it may be what is asked
    const { changes, evicted } = treeChanges(view.frame, view.state.tree);
    const shown = all.slice(0, NODES_SHOWN);
    const at = new Map(shown.map((row, i) => [row.node.id, i]));
    const id = rows[active]?.id;
    rows = assign(shown.map(({ node }) => node.id));
    active = at.get(id) ?? active; // the active node stays so
    shown.forEach(({ node, depth }, i) => placeNode(rows[i], depth, i, at.get(node.parent) ?? 0));
    sight.update(shown.length, NODE_ROW, ROOM, (i) => drawNode(rows[i], shown[i], shown[i].node === next, changes.get(shown[i].node.id)));
    const hidden = all.length - shown.length;
    more.toggleAttribute("hidden", hidden === 0);
    setAttr(more, "y", shown.length * NODE_ROW + 18);
    setText(more, hidden ? say("tree.more", { n: number(hidden) }) : "");
    setAttr(picture, "height", (shown.length + (hidden ? 1 : 0)) * NODE_ROW + 4);
    active = Math.min(active, shown.length - 1);
    items().forEach((item, i) => setAttr(item, "tabindex", i === active ? 0 : -1));
    setText(note, count("tree.nodes", all.length - 1) + (evicted ? ` · ${count("tree.evicted", evicted)}` : ""));
  }

  const [leftOf, TOP] = [(depth) => depth * INDENT + 4, 2];

  /** Where a row stands, and its line to the parent's. */
  function placeNode(row, depth, i, parentRow) {
    const x = leftOf(depth);
    setAttr(row.root, "transform", `translate(0 ${i * NODE_ROW})`);
    setAttr(row.twig, "d", depth ? `M${x - INDENT + 8} ${(parentRow + 1 - i) * NODE_ROW}V${TOP + NODE_ROW / 2}H${x}` : "");
  }

  function drawNode(row, { node, depth }, next, change) {
    const [x, y] = [leftOf(depth), TOP];
    const tokens = node.key.map((id) => view.tokens.short(id)).join("");
    const chars = Array.from(tokens);
    const text = node.id === 0 ? say("tree.root") : chars.length > 34 ? `${chars.slice(0, 16).join("")}…${chars.slice(-16).join("")}` : tokens;
    const differs = !!app.other?.node(node.id);
    const state = (differs ? "≠ · " : "") + (node.ref ? say("tree.ref", { n: node.ref }) : `t=${node.time}${next ? ` · ${say("tree.next")}` : ""}`);
    const w = Math.max(46, Array.from(text).length * 7.4 + 14);
    const label = words(node, next ? node : null) + (change ? `, ${say(change)}` : "") + (differs ? `, ${say("compare.cell")}` : "");
    setAttr(row.item, "aria-label", label);
    setAttr(row.item, "aria-level", depth + 1);
    setAttr(row.item, "class", `kvv-node ${node.ref ? "kvv-locked" : "kvv-evictable"}${change ? " kvv-changed" : ""}${differs ? " kvv-differs" : ""}`);
    setAttr(row.item, "data-node", node.id);
    for (const [name, value] of [["x", x], ["y", y], ["width", w]]) setAttr(row.rect, name, value);
    for (const [name, value] of [["x", x + 7], ["y", y + 15]]) setAttr(row.key, name, value);
    for (const [name, value] of [["x", x + w + 8], ["y", y + 15]]) setAttr(row.label, name, value);
    setText(row.key, isolate(text));
    setText(row.label, node.id === 0 ? "" : `${slotText(node.value, 3)} · ${state}${change ? ` · ${say(change)}` : ""}`);
  }

  const items = () => rows.map((row) => row.item);
  function move(to) {
    const all = items();
    if (!all.length) return;
    sight.catchUp(); // what takes the focus is read out
    all[active]?.setAttribute("tabindex", "-1");
    active = Math.max(0, Math.min(all.length - 1, to));
    all[active].setAttribute("tabindex", "0");
    all[active].focus();
  }
  const slotsOf = (target) => {
    const id = Number(target.closest?.("[data-node]")?.dataset.node ?? 0);
    return view.state.tree.get(id)?.value ?? [];
  };
  picture.addEventListener("keydown", (event) => {
    const steps = { ArrowDown: active + 1, ArrowUp: active - 1, Home: 0, End: Infinity };
    if (event.key in steps) move(steps[event.key]);
    else if (event.key === "Enter" && slotsOf(event.target).length) app.pin(slotsOf(event.target)[0]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  const point = (event) => {
    const slots = slotsOf(event.target);
    app.point(event.target.closest?.("[data-node]")?.getAttribute("aria-label") ?? "", slots[0] ?? -1);
  };
  picture.addEventListener("pointermove", point);
  picture.addEventListener("focusin", point);
  picture.addEventListener("pointerleave", () => app.point("", -1));
  picture.addEventListener("focusout", () => app.point("", -1));
  picture.addEventListener("click", (event) => {
    const slots = slotsOf(event.target);
    if (slots.length) app.pin(slots[0]);
  });

  /** @param {number} slot @param {number} pin */
  function link(slot, pin) {
    const before = Math.max(...linked);
    linked = [slot, pin];
    if (Math.max(slot, pin, before) < 0) return;
    for (const { id, item } of rows) {
      const value = view.state.tree.get(id)?.value ?? [];
      item.classList.toggle("kvv-hovered", slot >= 0 && value.includes(slot));
      item.classList.toggle("kvv-pinned", pin >= 0 && value.includes(pin));
    }
  }

  return {
    name: "tree",
    body,
    head: [note],
    layout() {},
    update(next) {
      view = next;
      const naive = view.meta.cache_type === "naive";
      setHidden(empty, !naive);
      picture.toggleAttribute("hidden", naive);
      if (naive) return;
      // Nodes are never changed in place, so equal items mean an equal tree; the frame's own changes are marked.
      const nodes = [...view.state.tree.values()];
      const asks = !!app.predict?.asking();
      const quiet = !view.frame?.tree && !marked && !app.other && asks === asked;
      asked = asks;
      if (quiet && drawn && drawn.length === nodes.length && nodes.every((node, i) => node === drawn[i])) return;
      drawn = nodes;
      marked = !!view.frame?.tree;
      const focused = picture.contains(document.activeElement);
      draw();
      if (focused) move(active);
    },
    link,
    stop: sight.stop,
  };
}
