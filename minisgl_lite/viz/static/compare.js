// Two runs side by side: which frames belong together, where they first differ, and what differs in two states.
// `firstDifference` is the twin of minisgl_lite/trace/compare.py.

import { PHASES, uidsOf } from "./events.js";
import { balance } from "./replay.js";
import { tokenIn } from "./slots.js";

/** The order in which entries are compared: what a reader would name first stands first. */
const ENTRIES = [
  "phase", "turn", "sub", "lane", "batch", "rank", "fault", "more_faults", "reject", "refuse", "admit",
  "alloc", "free", "release", "batch_info", "tokens", "table", "reqs", "stored", "tree",
];

/** Whether two pieces of JSON are equal; the order of an object's entries is nothing. @param {any} a @param {any} b @returns {boolean} */
export function same(a, b) {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || !a || !b || Array.isArray(a) !== Array.isArray(b)) return false;
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && same(a[name], b[name]));
}

/** Shown tokens: "uid:number" → the token and its frame. @param {any[]} frames */
function shownTokens(frames) {
  const counts = new Map();
  const found = new Map();
  frames.forEach((frame, i) => {
    for (const [uid, token, shown] of frame.tokens ?? []) {
      if (!shown) continue;
      const n = counts.get(uid) ?? 0;
      found.set(`${uid}:${n}`, { token, frame: i });
      counts.set(uid, n + 1);
    }
  });
  return found;
}

/** A frame without the tree and the nodes that requests hold. @param {any} frame */
function withoutBooks({ tree: _, ...known }) {
  const reqs = {};
  for (const [uid, { node: _node, ...req }] of Object.entries(known.reqs ?? {})) if (Object.keys(req).length) reqs[uid] = req;
  return { ...known, reqs };
}

/**
 * @typedef {Object} Difference
 * @property {"token"|"turn"} kind
 * @property {number|null} left_frame the frame in each run; null: it has none
 * @property {number|null} right_frame
 * @property {any} left what stands there
 * @property {any} right
 * @property {number|null} uid
 * @property {number|null} index of the output token
 * @property {number|null} turn
 */

/**
 * Where two runs part: by request and output token, else by turn; null when they are equal.
 * @param {any[]} left frames
 * @param {any[]} right
 * @returns {Difference|null}
 */
export function firstDifference(left, right) {
  const told = [left.map(withoutBooks), right.map(withoutBooks)];
  return tokenDifference(left, right) ?? firstFrame(told[0], told[1]) ?? endOfOne(left, right) ?? firstFrame(left, right);
}

function tokenDifference(left, right) {
  const [mine, other] = [shownTokens(left), shownTokens(right)];
  for (const key of new Set([...mine.keys(), ...other.keys()])) {
    const [a, b] = [mine.get(key), other.get(key)];
    if (a?.token === b?.token) continue;
    const [uid, index] = key.split(":").map(Number);
    return { kind: "token", left_frame: a?.frame ?? null, right_frame: b?.frame ?? null, left: a?.token ?? null, right: b?.token ?? null, uid, index, turn: null };
  }
  return null;
}

function firstFrame(left, right) {
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    const [a, b] = [left[i], right[i]];
    if (same(a, b)) continue;
    const others = [...new Set([...Object.keys(a), ...Object.keys(b)])].filter((name) => !ENTRIES.includes(name)).sort();
    const name = [...ENTRIES, ...others].find((entry) => !same(a[entry] ?? null, b[entry] ?? null));
    const turn = Math.min(a.turn, b.turn);
    return { kind: "turn", left_frame: i, right_frame: i, left: { [name]: a[name] ?? null }, right: { [name]: b[name] ?? null }, uid: null, index: null, turn };
  }
  return null;
}

function endOfOne(left, right) {
  if (left.length === right.length) return null;
  const i = Math.min(left.length, right.length);
  const [a, b] = [left[i] ?? null, right[i] ?? null];
  return {
    kind: "turn", left_frame: a && i, right_frame: b && i, left: a && a.phase, right: b && b.phase, uid: null, index: null, turn: (a ?? b).turn,
  };
}

// ---- which frames belong together -----------------------------------------------------------------

/** Keys by step: the frame of a phase in a turn, counted from the run's first. @param {any[]} frames @returns {string[][]} */
export function stepKeys(frames) {
  const nth = counter();
  return frames.map((frame) => [nth(`${frame.turn - frames[0].turn}:${frame.phase}`)]);
}

/**
 * Keys by event: what happens to a request when it has so many tokens of its answer. Runs that batch, match or evict
 * differently still share them.
 * @param {any[]} frames
 * @returns {string[][]}
 */
export function eventKeys(frames) {
  const nth = counter();
  const shown = new Map();
  return frames.map((frame) => {
    const uids = new Set([...uidsOf(frame), frame.refuse?.uid ?? -1].filter((uid) => uid >= 0));
    const keys = [...uids].map((uid) => nth(`${frame.phase}:r${uid}:${shown.get(uid) ?? 0}`));
    for (const [uid, , isShown] of frame.tokens ?? []) if (isShown) shown.set(uid, (shown.get(uid) ?? 0) + 1);
    return keys.length ? keys : [nth(frame.phase)];
  });
}

function counter() {
  const counts = new Map();
  return (key) => {
    counts.set(key, (counts.get(key) ?? 0) + 1);
    return `${key}#${counts.get(key)}`;
  };
}

/**
 * The longest list of pairs that share a key and go forward in both runs.
 * @param {string[][]} left keys per frame
 * @param {string[][]} right
 * @returns {[number, number][]}
 */
export function matchKeys(left, right) {
  const where = new Map();
  right.forEach((keys, j) => keys.forEach((key) => where.set(key, j)));
  const pairs = left.flatMap((keys, i) => {
    const found = [...new Set(keys.map((key) => where.get(key)).filter((j) => j !== undefined))];
    return found.sort((a, b) => b - a).map((j) => ({ i, j, before: null }));
  });
  const tails = []; // the pair that ends the best list of each length
  for (const pair of pairs) {
    let [low, high] = [0, tails.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (tails[middle].j < pair.j) low = middle + 1;
      else high = middle;
    }
    pair.before = tails[low - 1] ?? null;
    tails[low] = pair;
  }
  const chain = [];
  for (let pair = tails[tails.length - 1]; pair; pair = pair.before) chain.push([pair.i, pair.j]);
  return chain.reverse();
}

/**
 * @typedef {Object} Stop one place of the common timeline
 * @property {number} a frame of the first run; -1: before its first
 * @property {number} b
 * @property {number} turn of the run that moved here; by event, of the first run
 */

/**
 * The common timeline. Frames that belong together are one stop; at any other only one run moves on.
 * @param {any[]} left frames
 * @param {any[]} right
 * @param {"step"|"event"} by
 * @returns {Stop[]}
 */
export function align(left, right, by) {
  const keys = by === "step" ? stepKeys : eventKeys;
  const order = (frames, i) => (frames[i].turn - frames[0].turn) * PHASES.length + PHASES.indexOf(frames[i].phase);
  const leftFirst = by === "step" ? (i, j) => order(left, i) <= order(right, j) : () => true;
  /** @type {Stop[]} */
  const stops = [];
  const stop = (a, b, turn) => stops.push({ a, b, turn: by === "step" ? turn : (left[Math.max(a, 0)]?.turn ?? turn) });
  let [i, j] = [0, 0];
  for (const [to, there] of [...matchKeys(keys(left), keys(right)), [left.length, right.length]]) {
    while (i < to || j < there) {
      if (i < to && (j >= there || leftFirst(i, j))) stop(i, j - 1, left[i++].turn);
      else stop(i - 1, j, right[j++].turn);
    }
    if (to < left.length) stop(i++, j++, left[to].turn);
  }
  return stops;
}

/**
 * Where the other run is when one is at `index`: at the same event, or else where its last common event was.
 * @param {any[]} frames
 * @param {number} index
 * @param {any[]} others
 * @returns {number}
 */
export function sameEvent(frames, index, others) {
  if (index < 0 || !frames.length || !others.length) return Math.min(index, others.length - 1);
  const where = new Map();
  eventKeys(others).forEach((keys, j) => keys.forEach((key) => where.set(key, j)));
  const keys = eventKeys(frames);
  for (let i = index; i >= 0; i--) {
    const key = keys[i].find((name) => where.has(name));
    if (key !== undefined) return where.get(key);
  }
  return 0;
}

/** Whether ids that both runs use mean the same. @param {any} one a trace @param {any} two */
export function sameWords(one, two) {
  return Object.keys(one.vocab).every((id) => two.vocab[id] === undefined || two.vocab[id] === one.vocab[id]);
}

// ---- what differs in two states -------------------------------------------------------------------

const REQ_FIELDS = ["state", "row", "cached_len", "device_len", "handle_len", "shown"];

/**
 * What differs in two states, seen from the first. Slots and rows are compared by number.
 * @param {import("./slots.js").View} one
 * @param {import("./slots.js").View} two
 */
export function differences(one, two) {
  const there = { paths: treePaths(two.state.tree), owners: rowOwners(two.state) };
  const here = { paths: treePaths(one.state.tree), owners: rowOwners(one.state) };
  const total = [one, two].map((view) => view.state.N * view.state.P);

  const slot = (i) => (i >= total[0]) !== (i >= total[1]) || (i < total[0] && slotDiffers(one, two, i));
  const cellOf = (view, owners, row, pos) => {
    const req = owners.get(row);
    return req && pos < req.alloc_end ? { uid: req.uid, slot: view.state.rows[row][pos], used: pos < req.device_len } : null;
  };
  const cell = (row, pos) => !same(cellOf(one, here.owners, row, pos), cellOf(two, there.owners, row, pos));
  const out = (view, i) => {
    const token = view.batch?.tokens[i];
    return token ? [token.uid, token.pos, view.batch.slots[i]] : null;
  };
  const req = (uid) => {
    const [a, b] = [one.state.reqs.get(uid), two.state.reqs.get(uid)];
    if (!a || !b) return a || b ? ["state"] : [];
    const fields = REQ_FIELDS.filter((name) => a[name] !== b[name]);
    return firstWord(one, two, uid) < 0 ? fields : [...fields, "text"];
  };
  const twin = (id) => two.state.tree.get(there.paths.get(here.paths.get(id)));
  const node = (id) => {
    const [mine, other] = [one.state.tree.get(id), twin(id)];
    return !other || other.ref !== mine.ref || !same(other.value, mine.value);
  };
  return {
    slot, cell, req, node,
    /** Whether a node that is in both was last used at another time. @param {number} id */
    time: (id) => twin(id) !== undefined && twin(id).time !== one.state.tree.get(id).time,
    free: (i) => one.state.free[i] !== two.state.free[i],
    out: (i) => !same(out(one, i), out(two, i)),
  };
}

function slotDiffers(one, two, i) {
  const [a, b] = [one.slots, two.slots];
  if (a.kind[i] !== b.kind[i] || a.uid[i] !== b.uid[i] || a.pos[i] !== b.pos[i] || a.filled[i] !== b.filled[i]) return true;
  return !sameToken(one, two, tokenIn(one, i), tokenIn(two, i));
}

/** Whether a token of each run is the same: its id, and what that means. */
function sameToken(one, two, id, other) {
  return id === other && one.trace.vocab[id] === two.trace.vocab[id];
}

/**
 * The first token of a request, as far as both runs know them, that is another in the other run; -1: none.
 * @param {import("./slots.js").View} one
 * @param {import("./slots.js").View} two
 * @param {number} uid
 */
export function firstWord(one, two, uid) {
  const [mine, other] = [one.state.reqs.get(uid).ids, two.state.reqs.get(uid).ids];
  return mine.findIndex((id, i) => i < other.length && !sameToken(one, two, id, other[i]));
}

function rowOwners(state) {
  return new Map([...state.reqs.values()].filter((req) => req.row !== null).map((req) => [req.row, req]));
}

/** Nodes by the tokens from the root to their end, both ways. @param {Map<number, any>} tree @returns {Map<any, any>} */
function treePaths(tree) {
  const paths = new Map();
  const path = (node) => (node.parent === null ? "" : `${path(tree.get(node.parent))},${node.key.join()}`);
  for (const node of tree.values()) {
    const text = path(node);
    paths.set(node.id, text).set(text, node.id);
  }
  return paths;
}

/**
 * The differences counted, for a sentence.
 * @param {import("./slots.js").View} one
 * @param {import("./slots.js").View} two
 */
export function summary(one, two) {
  const found = differences(one, two);
  /** The first words that differ in a request's text. */
  const words = (uid) => {
    const at = one.state.reqs.has(uid) && two.state.reqs.has(uid) ? firstWord(one, two, uid) : -1;
    return [one, two].map((view) => (at < 0 ? "" : view.tokens.whole(view.state.reqs.get(uid).ids[at])));
  };
  const uids = [...new Set([...one.state.reqs.keys(), ...two.state.reqs.keys()])].sort((a, b) => a - b);
  const reqs = uids.map((uid) => ({ uid, fields: found.req(uid), words: words(uid) })).filter(({ fields }) => fields.length);
  let [slots, cells] = [0, 0];
  const total = [one, two].map((view) => view.state.N * view.state.P);
  for (let i = 0; i < Math.min(...total); i++) if (found.slot(i)) slots++;
  const rows = new Set([...rowOwners(one.state).keys(), ...rowOwners(two.state).keys()]);
  for (const row of rows) for (let pos = 0; pos < Math.max(one.run.cols, two.run.cols); pos++) if (found.cell(row, pos)) cells++;
  const nodes = [...one.state.tree.keys()];
  const both = (fn) => /** @type {[number, number]} */ ([fn(one), fn(two)]);
  return {
    reqs, slots, cells,
    tree: nodes.filter(found.node).length,
    times: nodes.filter(found.time).length,
    free: both((view) => balance(view.slots, view.state.N * view.state.P).free),
    out: both((view) => view.batch?.slots.length ?? 0),
    nodes: both((view) => view.state.tree.size - 1),
    queue: Math.max(one.state.free.length, two.state.free.length) && !same(one.state.free, two.state.free),
    fault: both((view) => Number(!!view.frame?.fault)),
  };
}

/** Whether a summary tells of any difference. @param {ReturnType<typeof summary>} found */
export function differs({ reqs, slots, cells, tree, times, queue, ...pairs }) {
  return !!(reqs.length || slots || cells || tree || times || queue) || Object.values(pairs).some(([a, b]) => a !== b);
}

/**
 * The first stop of a common timeline at which the panels show something different, in whatever it is: a reader who goes
 * on from the start meets it first. Of output tokens alone tells `firstDifference`.
 * @param {any[]} traces
 * @param {Stop[]} stops
 * @param {(stop: Stop) => import("./slots.js").View[]} look both states at a stop
 * @returns {number} -1: nowhere
 */
export function firstShown(traces, stops, look) {
  const [left, right] = traces;
  const sizes = ["page_size", "num_pages", "rows", "width"];
  // Runs that began alike and did the same so far stand alike: no need to look.
  let alike = sizes.every((name) => left.meta[name] === right.meta[name]) && sameWords(left, right);
  return stops.findIndex((stop, i) => {
    const before = stops[i - 1] ?? { a: -1, b: -1 };
    alike &&= stop.a > before.a && stop.b > before.b && same(left.frames[stop.a], right.frames[stop.b]);
    if (alike) return false;
    const [one, two] = look(stop);
    return differs(summary(one, two));
  });
}
