// The KV pool: every slot, by pages.

import { el, setText, button } from "./dom.js";
import { EDGE, createGrid } from "./grid.js";
import { poolGeometry, zoomed } from "./layout.js";
import { balance } from "./replay.js";
import { lookKey, slotTile, slotWords, tokenIn } from "./slots.js";
import { say, number } from "./words.js";

/** @param {any} app */
export function poolPanel(app) {
  /** @type {import("./slots.js").View} */
  let view = null;
  let cell = 0;
  let width = 0;
  const totals = el("span", { class: "kvv-note" });
  const goto = el("input", {
    type: "number", min: 0, class: "kvv-num",
    on: { change: () => jump(Number(goto.value)), keydown: (e) => e.stopPropagation() },
  });
  const tools = el("span", { class: "kvv-tools" }, [
    el("label", { class: "kvv-note" }, [`${say("pool.goto")} `, goto]),
    button("−", () => zoom(-1), { label: say("zoom.out", { panel: say("panel.pool") }) }),
    button("+", () => zoom(1), { label: say("zoom.in", { panel: say("panel.pool") }) }),
  ]);
  const grid = createGrid({
    label: say("panel.pool"),
    tile: (i, t) => slotTile(t, view, i, app.colours(), true),
    key: (i, small) => (small ? lookKey(view, i, true) : lookKey(view, i) + (tokenIn(view, i) + 1) * 2 ** 22),
    describe: (i) => (view ? slotWords(view, i) + (app.predict?.words(i) ?? "") : ""),
    differs: (i) => !!app.other?.slot(i),
    beside: (i) => app.other.slotWords(i),
    onPoint: (i) => app.point(i < 0 ? "" : grid.describe(i), i),
    onPick: (i) => app.predict?.pick(i) || app.pin(i),
  });

  function arrange() {
    if (!view || !width) return;
    const { P, N } = view.state;
    const n = (N + (view.run.dummy ? 1 : 0)) * P;
    const height = app.roomy() ? 310 : n > 256 ? 150 : 110;
    const geo = poolGeometry(n, P, width - 2 * EDGE, height, { cell, wide: app.roomy() ? 1.05 : 1.2 });
    // A grid that is lower than its room takes only what it needs.
    grid.layout(geo, { w: width, h: Math.min(height + 2 * EDGE, geo.h + 2 * EDGE) });
    tools.hidden = !cell && geo.ch >= 20;
    goto.max = String(N * P - 1);
  }
  function zoom(by) {
    cell = zoomed(grid.geometry.ch, by);
    arrange();
    grid.paint(app.colours());
  }
  function jump(slot) {
    if (!Number.isInteger(slot) || slot < 0 || slot >= view.state.N * view.state.P) return;
    grid.reveal(slot);
    grid.activate(slot, true);
    app.pin(slot);
  }

  return {
    name: "pool",
    body: grid.root,
    head: [totals, tools],
    layout(w) {
      width = w;
      arrange();
    },
    update(next) {
      const first = !view || view.run !== next.run;
      view = next;
      if (first) arrange();
      grid.paint(app.colours());
      const b = balance(view.slots, view.state.N * view.state.P);
      setText(totals, say("pool.totals", { free: number(b.free), tree: number(b.tree), own: number(b.own), total: number(b.total) }));
    },
    link: (slot, pin) => grid.mark([{ i: pin, cls: "pin" }, { i: slot, cls: "hover" }, ...(app.predict?.marks() ?? [])]),
    stop: grid.stop,
  };
}
