// The pinned slot: what it is now, and its life in this run, with jumps.

import { el, setAttr, setHidden, setText, button } from "./dom.js";
import { fromRuns } from "./replay.js";
import { say } from "./words.js";

/**
 * What happened to a slot in a run, in order. Reads are told once for each request that reads it, with their number.
 * @param {any} trace
 * @param {number} slot
 * @returns {{index: number, turn: number, key: string, values: Object<string, any>}[]}
 */
export function slotLife(trace, slot) {
  const start = slot - (slot % trace.meta.page_size);
  const life = [];
  /** Batches that are about to write it, and those about to read it. @type {Map<number, any>} */
  const aims = new Map();
  const readers = new Map();
  /** Where it stands in each table row, and whose the rows are. @type {Map<number, number>} */
  const cells = new Map();
  const owners = new Map();
  /** The node that holds it, and how often that is locked. */
  let node = null;
  let refs = 0;
  let holders = [];
  /** Reads since it was taken, by request. @type {Map<number, any>} */
  let reads = new Map();

  trace.frames.forEach((frame, index) => {
    const add = (key, values = {}) => life.push({ index, turn: frame.turn, key, values });
    const first = frame.phase === "receive"; // what a recorder found there when it began
    for (const { uid, ranges } of frame.release ?? []) {
      if (ranges.some(([kind, , , runs]) => kind === "registered" && fromRuns(runs).includes(slot))) add("life.registered", { uid });
    }
    const before = refs;
    for (const op of frame.tree ?? []) follow(op, add, first);
    // A lock that is given up in the same frame, for a request that does not fit after all, is none to tell of.
    if (!before !== !refs) add(refs ? "life.locked" : "life.unlocked");
    for (const [row, position, runs] of frame.table ?? []) write(row, position, fromRuns(runs));
    for (const uid in frame.reqs) {
      const { row } = frame.reqs[uid];
      if (row !== undefined && row !== null) owners.set(row, Number(uid));
      else if (row === null) for (const [held, owner] of owners) if (owner === Number(uid)) cells.delete(held), owners.delete(held);
    }
    for (const a of frame.admit ?? []) if (a.matched > (cells.get(a.row) ?? Infinity)) add("life.hit", { uid: a.uid });
    for (const [uid, , , starts] of frame.alloc ?? []) {
      if (!starts.includes(start)) continue;
      reads = new Map();
      add(first ? "life.found.own" : "life.taken", { uid });
    }
    const now = [...cells.keys()].map((row) => owners.get(row)).filter((uid) => uid !== undefined).sort((a, b) => a - b);
    if (now.length > 1 && now.some((uid) => !holders.includes(uid))) add("life.shared", { who: now.map((uid) => `r${uid}`).join(", ") });
    holders = now;
    if (frame.batch_info) prepare(frame);
    if (frame.stored) {
      if (aims.has(frame.batch)) add("life.written", aims.get(frame.batch));
      for (const uid of readers.get(frame.batch) ?? []) read(uid, index, frame.turn);
    }
    if (frame.free?.put?.includes(start) && !first) {
      reads = new Map();
      add(frame.phase === "evict" ? "life.evicted" : "life.freed");
    }
  });
  return life;

  /** What a change of the tree means for it. */
  function follow([op, id, ...rest], add, first) {
    if (op === "add" && fromRuns(rest[2]).includes(slot)) {
      [node, refs] = [{ id, key: fromRuns(rest[2]) }, 0];
      if (first) add("life.found.tree");
    } else if (op === "split" && node && node.id === rest[0]) {
      const [upper, lower] = [node.key.slice(0, rest[1]), node.key.slice(rest[1])];
      node = upper.includes(slot) ? { id, key: upper } : { id: rest[0], key: lower };
    } else if (op === "del" && node?.id === id) [node, refs] = [null, 0];
    else if (op === "ref" && node?.id === id) [refs] = rest;
  }

  function write(row, position, slots) {
    const old = cells.get(row);
    if (old >= position && old < position + slots.length) cells.delete(row);
    const at = slots.indexOf(slot);
    if (at >= 0) cells.set(row, position + at);
  }

  function prepare({ batch, batch_info: info }) {
    const at = fromRuns(info.out_loc).indexOf(slot);
    let sum = 0;
    const uids = [];
    info.uids.forEach((uid, i) => {
      if (at >= sum && at < sum + info.ext[i]) aims.set(batch, { uid, pos: info.cached[i] + at - sum });
      sum += info.ext[i];
      for (const [row, position] of cells) if (uid >= 0 && owners.get(row) === uid && position < info.cached[i] + info.ext[i]) uids.push(uid);
    });
    readers.set(batch, uids);
  }

  function read(uid, index, turn) {
    const known = reads.get(uid);
    if (known) Object.assign(known, { key: "life.read.many", values: { uid, n: known.values.n + 1, last: turn } });
    else {
      reads.set(uid, { index, turn, key: "life.read.one", values: { uid, n: 1, last: turn } });
      life.push(reads.get(uid));
    }
  }
}

/** @param {any} app */
export function selectedPanel(app) {
  const words = el("p", { class: "kvv-sum", text: say("selected.none") });
  const list = el("ol", { class: "kvv-life" });
  const unpin = button(say("selected.unpin"), () => app.pin(-1), { cls: "kvv-small" });
  const body = el("div", { class: "kvv-selected", tabindex: "0", role: "group", "aria-label": say("panel.selected") }, [words, list]);
  let key = "";
  let items = [];
  let shown = -1;

  function draw(view, slot) {
    items = slotLife(view.trace, slot);
    list.replaceChildren(...items.map((item) => el("li", {}, [
      button(`${say("life.step", { turn: item.turn })}: ${say(item.key, item.values)}`, () => app.go(item.index), { cls: "kvv-link" }),
    ])));
    if (!items.length) list.append(el("li", { text: say("life.none") }));
  }

  /** Scroll the box, and nothing around it, to an entry. */
  function keepInSight(entry) {
    const [box, row] = [body.getBoundingClientRect(), entry.getBoundingClientRect()];
    if (row.bottom > box.bottom) body.scrollTop += row.bottom - box.bottom;
    else if (row.top < box.top) body.scrollTop -= box.top - row.top;
  }

  return {
    name: "selected",
    body,
    head: [unpin],
    /** Where pinning does not open it, as on a phone. */
    news: () => app.pinned() >= 0,
    layout() {},
    update(view) {
      const slot = app.pinned();
      setHidden(unpin, slot < 0);
      setText(words, slot < 0 ? say("selected.none") : app.slotWords(slot));
      const now = `${slot}:${view.trace.frames.length}`;
      if (now !== key) {
        [key, shown] = [now, -1];
        if (slot < 0) {
          items = [];
          list.replaceChildren();
        }
        else draw(view, slot);
      }
      const last = items.filter((item) => item.index <= view.index).length - 1;
      items.forEach((item, i) => setAttr(list.children[i], "class", i === last ? "kvv-now" : i < last ? "" : "kvv-later"));
      if (last !== shown && last >= 0) keepInSight(list.children[last]);
      shown = last;
    },
    link() {},
  };
}
