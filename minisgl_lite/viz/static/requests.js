// Requests: text, the three lengths, phase and row.

import { button, el, keyedRows, setAttr, setHidden, setText, sightFirst } from "./dom.js";
import { isOpen } from "./replay.js";
import { hueOf } from "./slots.js";
import { say, count, number } from "./words.js";

/** Rows that are shown at most; of more, the rest is counted. */
const ROWS_SHOWN = 12;
/** With more rows than this, text stands in two pieces, cached and extend, not token by token. */
const TOKENWISE = 8;
/** How high a row is in each form, and how many are in sight: see panels.css. */
const HIGH = { line: 25, double: 46, stack: 80 };
const IN_SIGHT = 4;

/** Tokens of text that are left out at the front: it goes in strides, so that a new token seldom moves the others. */
function leftOut(n, few) {
  const [most, stride] = few ? [48, 16] : [24, 8];
  return Math.max(0, Math.floor((n - most + stride - 1) / stride) * stride);
}

/** Pieces joined on either side of a border. @param {any[]} pieces @param {number} border */
function mergePieces(pieces, border) {
  const out = [];
  for (const part of [pieces.filter((p) => p.from < border), pieces.filter((p) => p.from >= border)]) {
    if (part.length) out.push({ from: part[0].from, to: part[part.length - 1].to, text: part.map((p) => p.text).join(""), special: false });
  }
  return out;
}

/** @param {any} app */
export function requestsPanel(app) {
  /** @type {import("./slots.js").View} */
  let view = null;
  const note = el("span", { class: "kvv-note" });
  const body = el("div", { class: "kvv-reqs", role: "list" });
  const key = el("span", { class: "kvv-reqkey" }, ["cached", "extend", "out"].map((name) => el("span", { class: `kvv-${name}`, text: say(`requests.key.${name}`) })));
  const empty = el("p", { class: "kvv-empty", text: say("requests.none") });
  const box = el("div", { class: "kvv-reqbox", tabindex: "0", role: "group", "aria-label": say("panel.requests") }, [empty, body]);
  const assign = keyedRows(body, makeRow);
  /** @type {ReturnType<typeof makeRow>[]} */
  let rows = [];
  const sight = sightFirst(box, () => link(...linked));
  let few = true;
  /** The slot under the pointer and the pinned one. @type {[number, number]} */
  let linked = [-1, -1];

  function makeRow() {
    const uid = el("b", { class: "kvv-uid" });
    const state = el("span", { class: "kvv-state" });
    const where = el("span", { class: "kvv-where" });
    const text = el("span", { class: "kvv-toks" });
    const bar = el("span", { class: "kvv-bar", "aria-hidden": "true" }, [
      el("i", { class: "kvv-bar-cached" }), el("i", { class: "kvv-bar-extend" }), el("i", { class: "kvv-bar-rest" }),
    ]);
    const lengths = el("span", { class: "kvv-lens" });
    const stop = app.live ? button("", () => app.abort(row.id), { label: " ", cls: "kvv-abort", sign: "close" }) : null;
    const root = el("div", { class: "kvv-req", role: "listitem" }, [
      uid, state, where, el("span", { class: "kvv-text" }, [text]), el("span", { class: "kvv-lengths" }, [bar, lengths]), stop,
    ]);
    text.addEventListener("pointermove", (e) => point(row.id, e.target));
    text.addEventListener("pointerleave", () => app.point("", -1));
    text.addEventListener("click", (e) => {
      const slot = slotOf(row.id, e.target);
      if (slot >= 0) app.pin(slot);
    });
    const row = { id: -1, root, uid, state, where, text, bar, lengths, stop, key: "" };
    return row;
  }

  /** The slot of a piece of text, by its first token. */
  function slotOf(uid, node) {
    const req = view.state.reqs.get(uid);
    const pos = Number(node.dataset?.from ?? -1);
    return req && req.row !== null && pos >= 0 && pos < req.alloc_end ? view.state.rows[req.row][pos] : -1;
  }
  function point(uid, node) {
    const slot = slotOf(uid, node);
    if (slot >= 0) app.point(app.slotWords(slot), slot);
    else app.point(node.title ?? "", -1);
  }

  function visible() {
    const all = [...view.state.reqs.values()];
    if (view.run.reqs <= 4) return all;
    const now = all.filter((req) => isOpen(req) || req.turn === view.state.turn);
    return now.sort((a, b) => Number(b.row !== null) - Number(a.row !== null) || a.uid - b.uid).slice(0, ROWS_SHOWN);
  }

  /** @param {ReturnType<typeof makeRow>} row @param {import("./replay.js").Req} req */
  function updateRow(row, req) {
    const hue = hueOf(view, req.uid);
    const waiting = req.state === "waiting" || req.state === "rejected";
    const gone = req.row === null && !waiting;
    const differs = app.other?.req(req.uid).length ? " kvv-differs" : "";
    setAttr(row.root, "class", `kvv-req kvv-hue${hue}${gone ? " kvv-gone" : ""}${differs}`);
    setText(row.uid, `r${req.uid}`);
    setText(row.state, say(`state.${req.state}`));
    setText(row.where, req.row === null ? say("requests.norow") : say("requests.row", { row: req.row }));
    const values = { input: number(req.input_len), cached: number(req.cached_len), device: number(req.device_len), max: number(req.max_device_len) };
    setText(row.lengths, say(waiting ? "requests.lengths.waiting" : "requests.lengths", values));
    const scale = 100 / Math.max(1, view.run.longest);
    const device = Math.min(req.device_len, req.max_device_len);
    const parts = waiting ? [0, 0, req.max_device_len] : [req.cached_len, device - req.cached_len, req.max_device_len - device];
    parts.forEach((part, i) => setAttr(row.bar.children[i], "style", `width:${Math.max(0, part * scale).toFixed(1)}%`));
    const key = [req.uid, req.ids.length, waiting || gone, req.cached_len, few].join();
    if (row.key !== key) {
      row.key = key;
      updateText(row.text, req, waiting || gone, !few);
    }
    if (!row.stop) return;
    setHidden(row.stop, !isOpen(req));
    for (const name of ["aria-label", "title"]) setAttr(row.stop, name, say("requests.abort", { uid: req.uid }));
  }

  /** @param {HTMLElement} box @param {import("./replay.js").Req} req @param {boolean} plain @param {boolean} merged */
  function updateText(box, req, plain, merged) {
    const from = leftOut(req.ids.length, !merged);
    let pieces = view.tokens.running(req.ids.slice(from), from);
    if (merged) pieces = mergePieces(pieces, req.cached_len);
    const wanted = from ? [{ from: -1, to: -1, text: say("requests.cut", { n: number(from) }), special: false }, ...pieces] : pieces;
    const nodes = [...box.children].slice(0, wanted.length);
    while (box.childElementCount > nodes.length) box.lastChild.remove();
    const fresh = [];
    wanted.forEach((piece, i) => {
      const node = nodes[i] ?? el("bdi");
      if (!nodes[i]) fresh.push(node);
      setText(node, piece.text);
      const part = plain || piece.from < 0 ? "" : piece.from < req.cached_len ? " kvv-cached" : " kvv-extend";
      const kind = piece.from < 0 ? "kvv-cut" : `kvv-tok${piece.from >= req.input_len ? " kvv-out" : ""}${piece.special ? " kvv-special" : ""}`;
      setAttr(node, "class", kind + part);
      if (piece.from >= 0) setAttr(node, "data-from", piece.from);
      else delete node.dataset.from;
    });
    if (fresh.length) box.append(...fresh);
  }

  function update(next) {
    view = next;
    const shown = visible();
    few = shown.length <= TOKENWISE;
    setAttr(box, "style", `--kvv-rows:${Math.min(IN_SIGHT, Math.max(app.live ? 3 : 1, view.run.reqs))}`);
    const held = rows.find((row) => row.root.contains(document.activeElement));
    const uid = held?.id;
    rows = assign(shown.map((req) => req.uid));
    const high = HIGH[box.dataset.form ?? "line"];
    sight.update(rows.length, high, IN_SIGHT * high, (i) => updateRow(rows[i], shown[i]));
    // A row that moves would lose the focus; one that is another's now must not have it.
    if (held) (held.id === uid && isOpen(view.state.reqs.get(uid)) ? held.stop : box).focus({ preventScroll: true });
    setHidden(empty, shown.length > 0);
    const hidden = view.state.reqs.size - shown.length;
    setText(note, hidden > 0 ? count("requests.more", hidden) : "");
  }

  /** @param {number} slot @param {number} pin */
  function link(slot, pin) {
    const before = Math.max(...linked);
    linked = [slot, pin];
    if (Math.max(slot, pin, before) < 0) return;
    // In hidden rows too: they may be shown again.
    for (const node of body.querySelectorAll(".kvv-hovered, .kvv-pinned")) node.classList.remove("kvv-hovered", "kvv-pinned");
    for (const row of rows) {
      const req = view.state.reqs.get(row.id);
      const cells = req && req.row !== null ? view.state.rows[req.row].subarray(0, req.alloc_end) : null;
      const [hover, pinned] = [cells && slot >= 0 ? cells.indexOf(slot) : -1, cells && pin >= 0 ? cells.indexOf(pin) : -1];
      let [hoverNode, pinNode] = [null, null];
      for (const node of row.text.children) {
        const from = Number(node.dataset.from ?? -1);
        if (from >= 0 && from <= hover) hoverNode = node;
        if (from >= 0 && from <= pinned) pinNode = node;
      }
      hoverNode?.classList.add("kvv-hovered");
      pinNode?.classList.add("kvv-pinned");
    }
  }

  return {
    name: "requests",
    body: box,
    head: [note, key],
    layout(width) {
      setAttr(box, "data-form", width >= 560 ? "line" : width >= 400 ? "double" : "stack");
    },
    update,
    link,
    stop: sight.stop,
  };
}
