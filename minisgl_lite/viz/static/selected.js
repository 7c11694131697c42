// The pinned slot: what it is now, and its life in this run, with jumps.

import { el, setText, setAttr, button } from "./dom.js";
import { fromRuns } from "./replay.js";
import { say } from "./words.js";

const has = (runs, slot) => runs.some(([first, n]) => slot >= first && slot < first + n);

/**
 * What happened to a slot in a run, in order.
 * @param {any} trace
 * @param {number} slot
 * @returns {{index: number, turn: number, key: string, values: Object<string, number>}[]}
 */
export function slotLife(trace, slot) {
  const start = slot - (slot % trace.meta.page_size);
  const life = [];
  const aims = new Map();
  trace.frames.forEach((frame, index) => {
    const add = (key, values = {}) => life.push({ index, turn: frame.turn, key, values });
    for (const a of frame.admit ?? []) {
      const cells = (frame.table ?? []).filter(([row]) => row === a.row);
      if (a.matched && cells.some(([, , runs]) => has(runs, slot))) add("life.hit", { uid: a.uid });
    }
    for (const [uid, , , starts] of frame.alloc ?? []) if (starts.includes(start)) add("life.taken", { uid });
    const info = frame.batch_info;
    if (info && has(info.out_loc, slot)) {
      const at = fromRuns(info.out_loc).indexOf(slot);
      let i = 0;
      for (let sum = 0; i < info.ext.length && sum + info.ext[i] <= at; i++) sum += info.ext[i];
      const before = info.ext.slice(0, i).reduce((a, b) => a + b, 0);
      aims.set(frame.batch, { uid: info.uids[i], pos: info.cached[i] + at - before });
    }
    if (frame.stored && aims.has(frame.batch)) add("life.written", aims.get(frame.batch));
    for (const r of frame.release ?? []) {
      if (r.ranges.some(([kind, , , runs]) => kind === "registered" && has(runs, slot))) add("life.registered", { uid: r.uid });
    }
    if (frame.free?.put?.includes(start)) add(frame.phase === "evict" ? "life.evicted" : "life.freed");
  });
  return life;
}

/** @param {any} app */
export function selectedPanel(app) {
  const words = el("p", { class: "kvv-sum", text: say("selected.none") });
  const list = el("ol", { class: "kvv-life" });
  const unpin = button(say("selected.unpin"), () => app.pin(-1), { cls: "kvv-small" });
  let key = "";
  let items = [];

  function draw(view, slot) {
    items = slotLife(view.trace, slot).slice(-200);
    list.replaceChildren(...items.map((item) => el("li", {}, [
      button(`${say("life.step", { turn: item.turn })}: ${say(item.key, item.values)}`, () => app.go(item.index), { cls: "kvv-link" }),
    ])));
    if (!items.length) list.append(el("li", { text: say("life.none") }));
  }

  return {
    name: "selected",
    body: el("div", { class: "kvv-selected" }, [words, list]),
    head: [unpin],
    layout() {},
    update(view) {
      const slot = app.pinned();
      unpin.hidden = slot < 0;
      setText(words, slot < 0 ? say("selected.none") : app.slotWords(slot));
      const now = `${slot}:${view.trace.frames.length}`;
      if (now !== key) {
        key = now;
        if (slot < 0) {
          items = [];
          list.replaceChildren();
        }
        else draw(view, slot);
      }
      const last = items.filter((item) => item.index <= view.index).length - 1;
      items.forEach((item, i) => setAttr(list.children[i], "class", i === last ? "kvv-now" : i < last ? "" : "kvv-later"));
    },
    link() {},
  };
}
