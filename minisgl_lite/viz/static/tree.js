// The radix tree: tokens, who holds each node, which node would be evicted next.

import { el, svg, setText, setAttr } from "./dom.js";
import { slotText } from "./sentences.js";
import { isolate } from "./tokens.js";
import { say, count, number } from "./words.js";

const NODE_ROW = 26;
const INDENT = 18;
const NODES_SHOWN = 60;

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

/** @param {any} app */
export function treePanel(app) {
  /** @type {import("./slots.js").View} */
  let view = null;
  let drawn = null;
  let active = 0;
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

  function draw() {
    const rows = treeRows(view.state.tree);
    const next = nextEvicted(view.state.tree);
    const shown = rows.slice(0, NODES_SHOWN);
    const at = new Map(shown.map((row, i) => [row.node.id, i]));
    picture.replaceChildren();
    setAttr(picture, "height", (shown.length + (rows.length > NODES_SHOWN ? 1 : 0)) * NODE_ROW + 4);
    shown.forEach(({ node, depth }, i) => {
      const [x, y] = [depth * INDENT + 4, i * NODE_ROW + 2];
      if (depth) {
        const up = at.get(node.parent) * NODE_ROW + NODE_ROW;
        picture.append(svg("path", { d: `M${x - INDENT + 8} ${up}V${y + NODE_ROW / 2}H${x}`, class: "kvv-twig", "aria-hidden": "true" }));
      }
      picture.append(drawNode(node, x, y, node === next, depth));
    });
    if (rows.length > NODES_SHOWN) {
      picture.append(svg("text", { x: 8, y: NODES_SHOWN * NODE_ROW + 18, text: say("tree.more", { n: number(rows.length - NODES_SHOWN) }) }));
    }
    active = Math.min(active, shown.length - 1);
    items()[active]?.setAttribute("tabindex", "0");
    setText(note, count("tree.nodes", rows.length - 1));
  }

  function drawNode(node, x, y, next, depth) {
    const locked = node.ref > 0;
    const tokens = node.key.map((id) => view.tokens.short(id)).join("");
    const chars = Array.from(tokens);
    const text = node.id === 0 ? say("tree.root") : chars.length > 34 ? `${chars.slice(0, 16).join("")}…${chars.slice(-16).join("")}` : tokens;
    const state = node.id === 0 ? "" : locked ? say("tree.ref", { n: node.ref }) : `t=${node.time}${next ? ` · ${say("tree.next")}` : ""}`;
    const label = `${node.id === 0 ? "" : `${slotText(node.value, 3)} · `}${state}`;
    const title = svg("title", { text: words(node, next ? node : null) });
    const w = Math.max(46, Array.from(text).length * 7.4 + 14);
    return svg(
      "g",
      { role: "treeitem", tabindex: "-1", "aria-level": depth + 1, "aria-label": title.textContent, class: `kvv-node${locked ? " kvv-locked" : " kvv-evictable"}`, "data-node": node.id },
      [
        title,
        svg("rect", { x, y, width: w, height: NODE_ROW - 4, rx: 3 }),
        svg("text", { x: x + 7, y: y + 15, class: "kvv-key", text: isolate(text) }),
        node.id === 0 ? null : svg("text", { x: x + w + 8, y: y + 15, class: "kvv-nodenote", text: label }),
      ],
    );
  }

  const items = () => picture.querySelectorAll("[role=treeitem]");
  function move(to) {
    const all = items();
    if (!all.length) return;
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

  return {
    name: "tree",
    body,
    head: [note],
    layout() {},
    update(next) {
      view = next;
      const naive = view.meta.cache_type === "naive";
      empty.hidden = !naive;
      picture.toggleAttribute("hidden", naive);
      if (naive) return;
      // Nodes are never changed in place, so equal items mean an equal tree.
      const nodes = [...view.state.tree.values()];
      if (drawn && drawn.length === nodes.length && nodes.every((node, i) => node === drawn[i])) return;
      drawn = nodes;
      const focused = picture.contains(document.activeElement);
      draw();
      if (focused) move(active);
    },
    link(slot, pin) {
      for (const item of items()) {
        const value = view.state.tree.get(Number(item.dataset.node))?.value ?? [];
        item.classList.toggle("kvv-hovered", slot >= 0 && value.includes(slot));
        item.classList.toggle("kvv-pinned", pin >= 0 && value.includes(pin));
      }
    },
  };
}
