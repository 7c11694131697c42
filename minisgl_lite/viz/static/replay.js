// Play a trace's frames: the state after any of them, and what follows from it for each slot.
// The same rules as minisgl_lite/trace/replay.py; a test holds one against the other.

/**
 * @typedef {Object} Req a request as the trace tells it; `alloc_end` is where its pages end
 * @property {number} uid
 * @property {string} state
 * @property {number|null} row
 * @property {number} cached_len
 * @property {number} device_len
 * @property {number} input_len
 * @property {number} max_device_len
 * @property {number} handle_len
 * @property {number|null} node
 * @property {number[]} ids
 * @property {number} shown
 * @property {string|null} reason
 * @property {number} alloc_end
 * @property {number} hue 0..5, or 6 for "others"
 * @property {number} turn the last turn in which it changed
 *
 * @typedef {Object} Node a node of the radix tree
 * @property {number} id
 * @property {number|null} parent
 * @property {number[]} key
 * @property {number[]} value
 * @property {number} ref
 * @property {number} time
 * @property {number[]} children
 *
 * @typedef {Object} BatchState
 * @property {number} id
 * @property {number} turn the turn that prepared it
 * @property {any} info the frame's batch_info
 * @property {number[]} slots out_loc, one slot per token in model order
 * @property {{uid: number, pos: number, row: number}[]} tokens of whom each entry of out_loc is; uid -1 is the dummy
 * @property {Map<number, Int32Array>} reads uid → slots read, by position
 * @property {number|null} stored the turn that wrote its K/V
 */

export const FORMAT = "minisgl-lite-trace";
export const VERSION = 2;

/** What a slot is. The order is the order of the legend. */
export const KIND = { lost: 0, free: 1, own: 2, locked: 3, shared: 4, evictable: 5, dummy: 6 };
export const KIND_NAMES = Object.keys(KIND);

/** Hues for requests; one more stands for all others. */
export const HUES = 6;

/** Unpack [first, count] runs. @param {number[][]} runs @returns {number[]} */
export function fromRuns(runs) {
  const slots = [];
  for (const [first, n] of runs) for (let i = 0; i < n; i++) slots.push(first + i);
  return slots;
}

/** Pack slots, in their order, into [first, count] runs. @param {ArrayLike<number>} slots @returns {number[][]} */
export function toRuns(slots) {
  const runs = [];
  for (let i = 0; i < slots.length; i++) {
    const last = runs[runs.length - 1];
    if (last && slots[i] === last[0] + last[1]) last[1]++;
    else runs.push([slots[i], 1]);
  }
  return runs;
}

/** The state before the first frame. @param {any} meta */
export function startState(meta) {
  const P = meta.page_size;
  return {
    P,
    N: meta.num_pages,
    index: -1,
    turn: /** @type {number|null} */ (null),
    took: 0, // pages taken in this turn
    frame: /** @type {any} */ (null),
    free: Array.from({ length: meta.num_pages }, (_, i) => i * P),
    rows: Array.from({ length: meta.rows }, () => new Int32Array(meta.width)),
    ours: new Uint8Array(meta.rows), // 1: no other state has this row, it may be written in place
    ends: new Array(meta.rows).fill(0), // per row: cells behind this were never written
    reqs: /** @type {Map<number, Req>} */ (new Map()),
    tree: /** @type {Map<number, Node>} */ (
      new Map([[0, { id: 0, parent: null, key: [], value: [], ref: 1, time: 0, children: [] }]])
    ),
    batches: /** @type {Map<number, BatchState>} */ (new Map()),
  };
}

/** @typedef {ReturnType<typeof startState>} State */

/** A copy that later frames don't change: what both hold is never changed in place. @param {State} s @returns {State} */
export function snapshot(s) {
  s.ours.fill(0);
  return { ...s, rows: s.rows.slice(), ours: new Uint8Array(s.ours.length), ends: s.ends.slice(), reqs: new Map(s.reqs), tree: new Map(s.tree), batches: new Map(s.batches) };
}

/** Change a state by one frame. @param {State} s @param {any} frame */
export function apply(s, frame) {
  s.index++;
  s.took = (frame.turn === s.turn ? s.took : 0) + (frame.free?.take ?? 0);
  s.turn = frame.turn;
  s.frame = frame;
  if (frame.free?.take) s.free = s.free.slice(frame.free.take);
  for (const op of frame.tree ?? []) applyTree(s.tree, op);
  for (const [row, position, runs] of frame.table ?? []) {
    if (!s.ours[row]) s.rows[row] = s.rows[row].slice();
    s.ours[row] = 1;
    const cells = s.rows[row];
    let at = position;
    for (const [first, n] of runs) for (let i = 0; i < n; i++) cells[at++] = first + i;
    s.ends[row] = Math.max(s.ends[row], at);
  }
  for (const uid in frame.reqs) applyReq(s, Number(uid), frame.reqs[uid]);
  for (const [uid, , last] of frame.alloc ?? []) s.reqs.set(uid, { ...s.reqs.get(uid), alloc_end: last * s.P });
  if (frame.free?.put?.length) s.free = s.free.concat(frame.free.put);
  if (frame.batch_info) s.batches.set(frame.batch, batchState(s, frame));
  if (frame.stored) s.batches.set(frame.batch, { ...s.batches.get(frame.batch), stored: frame.turn });
  for (const id of s.batches.keys()) {
    // A batch is kept until the turn after it: under overlap its results are read then.
    if (s.batches.get(id).turn < frame.turn - 1) s.batches.delete(id);
  }
}

/** @param {State} s @param {number} uid @param {any} changed */
function applyReq(s, uid, changed) {
  let old = s.reqs.get(uid);
  if (!old || changed.state === "waiting") {
    old = {
      uid, state: "waiting", row: null, cached_len: 0, device_len: 0, input_len: 0, max_device_len: 0, handle_len: 0,
      node: null, ids: [], shown: 0, reason: null, alloc_end: 0, hue: freeHue(s), turn: 0,
    };
  }
  // Written out: this is the replay's inner loop, and a spread is several times slower.
  const req = {
    uid, state: old.state, row: old.row, cached_len: old.cached_len, device_len: old.device_len, input_len: old.input_len,
    max_device_len: old.max_device_len, handle_len: old.handle_len, node: old.node, ids: old.ids, shown: old.shown,
    reason: old.reason, alloc_end: old.alloc_end, hue: old.hue, turn: s.turn,
  };
  for (const name in changed) req[name] = name === "ids" ? old.ids.concat(changed.ids) : changed[name];
  // A row that is given back takes the request's pages with it.
  req.alloc_end = req.row === null ? 0 : Math.max(req.alloc_end, req.handle_len);
  s.reqs.set(uid, req);
}

/** The first hue that no unfinished request has. @param {State} s */
function freeHue(s) {
  const used = new Set();
  for (const req of s.reqs.values()) if (req.row !== null || isOpen(req)) used.add(req.hue);
  for (let hue = 0; hue < HUES; hue++) if (!used.has(hue)) return hue;
  return HUES;
}

/** Whether a request still waits or runs. @param {{state: string}} req */
export function isOpen(req) {
  return req.state !== "done" && req.state !== "aborted" && req.state !== "rejected";
}

/** @param {State} s @param {any} frame @returns {BatchState} */
function batchState(s, frame) {
  const info = frame.batch_info;
  const tokens = [];
  const reads = new Map();
  info.uids.forEach((uid, i) => {
    const row = uid < 0 ? s.rows.length : s.reqs.get(uid).row;
    for (let k = 0; k < info.ext[i]; k++) tokens.push({ uid, pos: info.cached[i] + k, row });
    if (uid < 0 || row === null) return;
    s.ours[row] = 0; // kept here as it is now: it may be pointed elsewhere before the step is shown
    reads.set(uid, s.rows[row].subarray(0, info.cached[i] + info.ext[i]));
  });
  return { id: frame.batch, turn: frame.turn, info, slots: fromRuns(info.out_loc), tokens, reads, stored: null };
}

/** Change a tree by one operation of a frame. @param {Map<number, Node>} tree @param {any[]} op */
export function applyTree(tree, op) {
  const [name, id] = op;
  if (name === "add") {
    const [, , parent, key, runs, time] = op;
    tree.set(id, { id, parent, key, value: fromRuns(runs), ref: 0, time, children: [] });
    change(tree, parent, (n) => ({ children: n.children.concat(id) }));
  } else if (name === "split") {
    const [, upper, lower, length, time] = op;
    const old = tree.get(lower);
    const head = { key: old.key.slice(0, length), value: old.value.slice(0, length) };
    tree.set(upper, { id: upper, parent: old.parent, ...head, ref: old.ref, time, children: [lower] });
    change(tree, old.parent, (n) => ({ children: n.children.map((c) => (c === lower ? upper : c)) }));
    change(tree, lower, (n) => ({ parent: upper, key: n.key.slice(length), value: n.value.slice(length) }));
  } else if (name === "ref") {
    change(tree, id, () => ({ ref: op[2] }));
  } else if (name === "time") {
    change(tree, id, () => ({ time: op[2] }));
  } else if (name === "del") {
    const parent = tree.get(id).parent;
    tree.delete(id);
    change(tree, parent, (n) => ({ children: n.children.filter((c) => c !== id) }));
  }
}

/** @param {Map<number, Node>} tree @param {number} id @param {(n: Node) => Partial<Node>} fields */
function change(tree, id, fields) {
  const node = tree.get(id);
  tree.set(id, { ...node, ...fields(node) });
}

/** Requests that hold a table row, in order of arrival. @param {State} s @returns {Req[]} */
export function live(s) {
  return [...s.reqs.values()].filter((req) => req.row !== null);
}

/**
 * The batch that a frame is about: its own, else the one prepared in the same turn.
 * @param {State} s
 * @returns {BatchState|null}
 */
export function currentBatch(s) {
  if (!s.frame) return null;
  if (s.frame.batch !== null && s.batches.has(s.frame.batch)) return s.batches.get(s.frame.batch);
  let found = null;
  for (const batch of s.batches.values()) if (batch.turn === s.turn) found = batch;
  return found;
}

/** Room for what `slotStates` finds; reused from frame to frame. @param {number} size slots, the dummy page included */
export function slotRoom(size) {
  return {
    kind: new Uint8Array(size),
    uid: new Int32Array(size), // owner, or the first live holder; -1 none
    pos: new Int32Array(size), // position of the token that lies there; -1 none
    node: new Int32Array(size), // tree node, -1 none
    at: new Int32Array(size), // index in the node's key
    holders: new Int32Array(size), // live rows that point at it
    filled: new Uint8Array(size), // 1: K/V have been written for its present owner
    aimed: new Uint8Array(size), // 1: in out_loc, not written yet
    written: new Uint8Array(size), // 2: written in this frame, 1: earlier in this step
    read: new Uint8Array(size), // 1: attention reads it in this frame
    owners: new Uint8Array(size), // how many own it; more than one is a fault
  };
}

/** @typedef {ReturnType<typeof slotRoom>} Slots */

/**
 * What every slot is.
 * @param {State} s
 * @param {Slots} out changed in place
 * @returns {Slots}
 */
export function slotStates(s, out) {
  const total = s.N * s.P;
  for (const name in out) out[name].fill(name === "uid" || name === "pos" || name === "node" ? -1 : 0);
  const { kind, uid, pos, node, holders, filled, owners } = out;
  for (let i = total; i < kind.length; i++) kind[i] = KIND.dummy;
  for (const start of s.free) {
    for (let i = start; i < start + s.P; i++) {
      kind[i] = KIND.free;
      owners[i]++;
    }
  }
  for (const n of s.tree.values()) {
    const depth = n.value.length ? depthOf(s.tree, n) : 0;
    n.value.forEach((slot, i) => {
      kind[slot] = n.ref === 0 ? KIND.evictable : KIND.locked;
      node[slot] = n.id;
      out.at[slot] = i;
      pos[slot] = depth + i;
      filled[slot] = 1;
      owners[slot]++;
    });
  }
  for (const req of s.reqs.values()) {
    if (req.row === null) continue;
    const row = s.rows[req.row];
    for (let i = 0; i < req.alloc_end; i++) {
      const slot = row[i];
      if (i >= req.handle_len) {
        kind[slot] = KIND.own;
        uid[slot] = req.uid;
        pos[slot] = i;
        filled[slot] = i < req.cached_len ? 1 : 0;
        owners[slot]++;
      } else if (uid[slot] < 0) {
        uid[slot] = req.uid;
      }
      holders[slot]++;
    }
  }
  for (let i = 0; i < total; i++) if (kind[i] === KIND.locked && holders[i] > 1) kind[i] = KIND.shared;
  markStep(s, out);
  return out;
}

/** @param {State} s @param {Slots} out */
function markStep(s, out) {
  const batch = currentBatch(s);
  if (!batch) return;
  if (batch.stored === null) for (const slot of batch.slots) out.aimed[slot] = 1;
  else if (batch.stored === s.turn) for (const slot of batch.slots) out.written[slot] = s.frame.stored ? 2 : 1;
  if (s.frame.stored) for (const slots of batch.reads.values()) for (const slot of slots) out.read[slot] = 1;
}

/** Tokens above a node. @param {Map<number, Node>} tree @param {Node} node */
export function depthOf(tree, node) {
  let depth = 0;
  for (let up = node.parent; up !== null && up !== undefined; up = tree.get(up).parent) depth += tree.get(up).key.length;
  return depth;
}

/** Slots by owner. @param {Slots} slots @param {number} total without the dummy page */
export function balance(slots, total) {
  const sum = { free: 0, tree: 0, own: 0, lost: 0, double: 0, total };
  for (let i = 0; i < total; i++) {
    const kind = slots.kind[i];
    if (kind === KIND.free) sum.free++;
    else if (kind === KIND.own) sum.own++;
    else if (kind === KIND.lost) sum.lost++;
    else sum.tree++;
    if (slots.owners[i] > 1) sum.double++;
  }
  return { ...sum, holds: sum.lost === 0 && sum.double === 0 };
}

/** A trace that this view can read, or an error's key. @param {any} data @returns {string|null} */
export function problem(data) {
  if (!data || data.format !== FORMAT) return "error.format";
  if (data.version !== VERSION) return "error.version";
  if (!data.meta || !Array.isArray(data.frames) || !data.vocab) return "error.incomplete";
  return null;
}

/** A player: the state after any frame, from keyframes. Frames may be appended. */
export class Replay {
  /** @param {any} trace @param {number} [every] frames between keyframes */
  constructor(trace, every = Math.max(25, Math.ceil(trace.frames.length / 128))) {
    this.trace = trace;
    this.every = every;
    /** @type {{at: number, state: State}[]} */
    this.keys = [{ at: -1, state: startState(trace.meta) }];
    /** @type {State|null} the last state given out, to go on from */
    this.last = null;
  }

  /**
   * The state after frame `index`; -1 is before the first. It is read only and holds until the next call.
   * @param {number} index
   * @returns {State}
   */
  at(index) {
    if (!(index >= -1 && index < this.trace.frames.length)) throw new RangeError(`frame ${index}`);
    let from = this.last && this.last.index <= index ? this.last.index : -2;
    let state = this.last;
    for (const key of this.keys) {
      if (key.at > index || key.at <= from) continue;
      from = key.at;
      state = null;
    }
    if (!state) state = snapshot(this.keys.find((key) => key.at === from).state);
    for (let i = from + 1; i <= index; i++) this.step(state, i);
    this.last = state;
    return state;
  }

  /** @param {State} state @param {number} i */
  step(state, i) {
    apply(state, this.trace.frames[i]);
    if (i - this.keys[this.keys.length - 1].at >= this.every) this.keys.push({ at: i, state: snapshot(state) });
  }

  /**
   * Make more keyframes while nobody waits, so that the first jump far ahead is as short as any.
   * @param {number} ms how long
   * @returns {boolean} whether there is more to do
   */
  ahead(ms) {
    const until = performance.now() + ms;
    const key = this.keys[this.keys.length - 1];
    const state = snapshot(key.state);
    const end = this.trace.frames.length - this.every;
    let i = key.at;
    while (i < end && performance.now() < until) for (const stop = i + this.every; i < stop; ) this.step(state, ++i);
    return i < end;
  }
}
