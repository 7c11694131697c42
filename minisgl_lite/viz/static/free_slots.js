// free_slots as the queue it is: pages are taken at the head and come back at the tail.

import { el, setText } from "./dom.js";
import { EDGE, createGrid } from "./grid.js";
import { flowGeometry } from "./layout.js";
import { say, count } from "./words.js";

/** @param {any} app */
export function queuePanel(app) {
  /** @type {import("./slots.js").View} */
  let view = null;
  let width = 0;
  let shown = -1;
  const note = el("span", { class: "kvv-note" });
  const grid = createGrid({
    label: say("panel.free_slots"),
    tile(i, t) {
      const c = app.colours();
      Object.assign(t, { fill: c.px.ground, edge: c.px.line, ink: c.css.ink, text: String(view.state.free[i]) });
      if (i === 0) Object.assign(t, { edge: c.px.ink, thick: true });
      if (isNew(i)) t.dot = c.px.ink;
    },
    key: (i) => 2 * view.state.free[i] + (isNew(i) ? 1 : 0),
    describe(i) {
      if (!view || !(i in view.state.free)) return "";
      const start = view.state.free[i];
      const parts = [say("cell.queue", { i, start, page: start / view.state.P })];
      if (i === 0) parts.push(say("cell.queue.head"));
      if (i === view.state.free.length - 1) parts.push(say("cell.queue.tail"));
      if (isNew(i)) parts.push(say("cell.queue.put"));
      return parts.join(", ");
    },
    differs: (i) => !!app.other?.free(i),
    onPoint: (i) => app.point(i < 0 ? "" : grid.describe(i), i < 0 ? -1 : view.state.free[i]),
    onPick: (i) => app.pin(view.state.free[i]),
  });

  const isNew = (i) => i >= view.state.free.length - (view.frame?.free?.put?.length ?? 0);

  function arrange() {
    if (!view || !width) return;
    const n = view.state.free.length;
    const digits = String(view.state.N * view.state.P).length;
    const height = 74;
    // The size is chosen for a full list, so that it does not change from step to step.
    let [cw, ch] = [Math.max(26, 10 + 8 * digits), 22];
    const room = width - 2 * EDGE;
    if (flowGeometry(view.state.N, room, cw, ch).h > 3 * height) [cw, ch] = [9, 9];
    const all = flowGeometry(view.state.N, room, cw, ch);
    grid.layout(flowGeometry(n, room, cw, ch), { w: width, h: Math.min(height, all.h + 2 * EDGE) });
    shown = n;
  }

  return {
    name: "free_slots",
    body: grid.root,
    head: [note],
    layout(w) {
      width = w;
      arrange();
    },
    update(next) {
      view = next;
      if (view.state.free.length !== shown) arrange();
      const n = view.state.free.length;
      setText(note, n ? `${say("queue.head")} → ${say("queue.tail")} · ${count("queue.count", n)}` : say("queue.empty"));
      grid.paint(app.colours());
    },
    link(slot, pin) {
      const at = (s) => (s < 0 ? -1 : view.state.free.indexOf(s - (s % view.state.P)));
      grid.mark([{ i: at(pin), cls: "pin" }, { i: at(slot), cls: "hover" }]);
    },
    stop: grid.stop,
  };
}
