// out_loc: where each token of this step is written, in the order in which the model sees the tokens.

import { el, setText } from "./dom.js";
import { EDGE, createGrid } from "./grid.js";
import { flowGeometry } from "./layout.js";
import { lookKey, slotTile, slotWords } from "./slots.js";
import { say, count } from "./words.js";

/** @param {any} app */
export function outLocPanel(app) {
  /** @type {import("./slots.js").View} */
  let view = null;
  let width = 0;
  let shown = -1;
  const note = el("span", { class: "kvv-note" });

  /** The id of the token that entry i writes; the dummy's is 0. */
  const tokenOf = (i) => {
    const t = view.batch.tokens[i];
    return t.uid < 0 ? null : (view.state.reqs.get(t.uid)?.ids[t.pos] ?? null);
  };
  const grid = createGrid({
    label: say("panel.out_loc"),
    tile(i, t) {
      const { uid, pos } = view.batch.tokens[i];
      slotTile(t, view, view.batch.slots[i], app.colours());
      const token = tokenOf(i);
      t.badge = "";
      t.top = token === null ? say("slot.dummy") : view.tokens.short(token);
      t.text = uid < 0 ? "" : `r${uid} · ${pos}`;
      t.sub = `↓ ${view.batch.slots[i]}`;
    },
    key(i) {
      const { uid, pos } = view.batch.tokens[i];
      const slot = view.batch.slots[i];
      return [uid, pos, slot, tokenOf(i), lookKey(view, slot)].join();
    },
    describe(i) {
      const slot = view?.batch?.slots[i];
      if (slot === undefined) return "";
      const { uid, pos } = view.batch.tokens[i];
      const who = uid < 0 ? say("cell.out.dummy") : say("cell.owner", { uid, pos });
      return `${say("cell.out", { i, slot })}, ${who}, ${slotWords(view, slot)}`;
    },
    differs: (i) => !!app.other?.out(i),
    onPoint: (i) => app.point(i < 0 ? "" : grid.describe(i), i < 0 ? -1 : view.batch.slots[i]),
    onPick: (i) => app.pin(view.batch.slots[i]),
  });

  function arrange() {
    if (!view || !width) return;
    const n = view.batch?.slots.length ?? 0;
    grid.layout(flowGeometry(n, width - 2 * EDGE, 72, 54), { w: width, h: 118 });
    shown = n;
  }

  return {
    name: "out_loc",
    body: grid.root,
    head: [note],
    layout(w) {
      width = w;
      arrange();
    },
    update(next) {
      const first = view?.run !== next.run;
      view = next;
      const n = view.batch?.slots.length ?? 0;
      if (n !== shown || first) arrange();
      setText(note, n ? count("out.count", n) : say("out.none"));
      grid.paint(app.colours());
    },
    link(slot, pin) {
      const at = (s) => view.batch?.slots.indexOf(s) ?? -1;
      grid.mark([{ i: at(pin), cls: "pin" }, { i: at(slot), cls: "hover" }]);
    },
    stop: grid.stop,
  };
}
