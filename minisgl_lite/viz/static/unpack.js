// Make packed frames whole: the twin of minisgl_lite/trace/packing.py, where packing is explained.
// A packed frame is [code, ...numbers, differences?]; what it leaves out follows from the state before it.

import { PHASES } from "./events.js";
import { apply, applyTree, startState, toRuns } from "./replay.js";

const WALK = 0, LOCK = 1, UNLOCK = 2, ADD = 3, SPLIT = 4;

/** @typedef {import("./replay.js").State} State */
/** @typedef {import("./replay.js").Req} Req */

/** @param {any} value */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
/** @param {number} n @param {number} size */
const pages = (n, size) => Math.ceil(n / size);

/** What a frame should look like, given the state before it. */
class Foretelling {
  /** @param {any} meta */
  constructor(meta) {
    this.meta = meta;
    /** @type {State} */
    this.state = startState(meta);
    this.turn = 0;
    this.sub = 0;
    this.rank = 0;
    this.clock = 0;
    this.nextNode = 1;
    this.nextBatch = 0;
    /** @type {number[]} uids that decode next */
    this.running = [];
    /** @type {number[]} uids of the prefill batch that is being made */
    this.admitted = [];
    /** @type {Map<number, {uids: number[], chunks: Set<number>}>} */
    this.launched = new Map();
    /** @type {number|null} the batch whose results are read */
    this.sampled = null;
  }

  /** @param {number} uid @returns {Req} */
  req(uid) {
    const req = this.state.reqs.get(uid);
    if (!req) throw new Error(`no request ${uid}`);
    return req;
  }

  /** The whole frame. @param {any[]} packed without the differences at its end */
  frame([code, ...rest]) {
    const phase = PHASES[code % PHASES.length];
    const first = code >= PHASES.length;
    if (first) this.admitted = [];
    const frame = {
      turn: first ? this.turn + 1 : this.turn,
      sub: first ? 0 : this.sub,
      phase,
      lane: phase === "forward" ? "device" : "host",
      batch: this.batch(phase),
      rank: this.rank,
    };
    const parts = this[phase](...rest);
    for (const name in parts) {
      const part = parts[name];
      const empty = part === null || (typeof part === "object" && Object.keys(part).length === 0);
      if (!empty) frame[name] = part;
    }
    return frame;
  }

  /** @param {string} phase @returns {number|null} */
  batch(phase) {
    if (phase === "receive" || phase === "abort") return null;
    if (phase === "forward") return this.nextBatch - 1;
    if (phase === "sample") return this.launched.size ? Math.min(...this.launched.keys()) : null;
    return phase === "release" ? this.sampled : this.nextBatch;
  }

  /** @param {...[number, number[], number]} entries */
  receive(...entries) {
    const reqs = {};
    for (const [uid, ids, room] of entries) {
      reqs[uid] = {
        state: "waiting", row: null, cached_len: 0, device_len: ids.length, input_len: ids.length,
        max_device_len: ids.length + room, handle_len: 0, node: null, shown: 0, reason: null, ids,
      };
    }
    return { reqs };
  }

  /** @param {number[]} uids @param {number[]} tree @param {...any} entries */
  abort(uids, tree, ...entries) {
    const parts = this.release(tree, ...entries);
    for (const uid of uids) (parts.reqs[uid] ??= {}).state = "aborted";
    return parts;
  }

  /** @param {number[]} tree @param {...any} entries */
  admit(tree, ...entries) {
    const { ops, after } = this.unpackTree(tree, []);
    const parts = { tree: ops, admit: [], table: [], reqs: {} };
    for (const [uid, row, matched, end, node] of entries) {
      const req = this.req(uid);
      const chunk = Boolean(end);
      const isNew = req.row === null;
      parts.admit.push({ uid, row, matched, chunk });
      if (matched) parts.table.push([row, 0, toRuns(pathSlots(after, node).slice(0, matched))]);
      note(parts, req, {
        state: chunk ? "chunk" : "prefill",
        row,
        cached_len: isNew ? matched : req.cached_len,
        device_len: end || req.input_len,
        handle_len: isNew ? matched : req.handle_len,
        node: isNew ? node : req.node,
      });
    }
    return parts;
  }

  /** @param {number[]} tree */
  evict(tree) {
    const { ops } = this.unpackTree(tree, []);
    const put = ops.flatMap(([, id]) => everyPage(this.state.tree.get(id).value, this.state.P));
    return { tree: ops, free: { put } };
  }

  allocate() {
    const { state } = this;
    const parts = { alloc: [], table: [], free: { take: 0 } };
    for (const uid of this.nextUids()) {
      const req = this.req(uid);
      const first = pages(req.cached_len, state.P), last = pages(req.device_len, state.P);
      if (last <= first) continue;
      const starts = state.free.slice(parts.free.take, parts.free.take + last - first);
      parts.free.take += last - first;
      const slots = starts.flatMap((start) => Array.from({ length: state.P }, (_, i) => start + i));
      parts.alloc.push([uid, first, last, starts]);
      parts.table.push([req.row, first * state.P, toRuns(slots)]);
    }
    return parts;
  }

  nextUids() {
    return this.admitted.length ? this.admitted : this.running;
  }

  /** @param {number} padding */
  prepare(padding) {
    const { state } = this;
    const reqs = this.nextUids().map((uid) => this.req(uid));
    const fill = (/** @type {number} */ value) => Array(padding).fill(value);
    const slots = reqs.flatMap((r) => [...state.rows[r.row].slice(r.cached_len, r.device_len)]);
    const parts = {
      reqs: {},
      batch_info: {
        phase: this.admitted.length ? "prefill" : "decode",
        uids: [...this.nextUids(), ...fill(-1)],
        ext: [...reqs.map((r) => r.device_len - r.cached_len), ...fill(1)],
        cached: [...reqs.map((r) => r.cached_len), ...fill(0)],
        write: reqs.map((r) => [r.row, r.state === "chunk" ? -1 : r.device_len]),
        out_loc: toRuns([...slots, ...fill(state.N * state.P)]),
      },
    };
    if (!this.admitted.length) for (const req of reqs) note(parts, req, { state: "decode" });
    return parts;
  }

  forward() {
    const parts = { stored: true, reqs: {} };
    for (const uid of this.launched.get(this.nextBatch - 1).uids) {
      const req = this.req(uid);
      note(parts, req, { cached_len: req.device_len, device_len: req.device_len + 1 });
    }
    return parts;
  }

  /** @param {...number} tokens */
  sample(...tokens) {
    const { uids, chunks } = this.launched.get(Math.min(...this.launched.keys()));
    const parts = { tokens: [], reqs: {} };
    tokens.forEach((token, i) => {
      const req = this.req(uids[i]);
      if (chunks.has(req.uid) || req.row === null || req.state === "aborted") {
        parts.tokens.push([req.uid, token, false, false, null]);
        return;
      }
      const full = req.ids.length + 1 === req.max_device_len;
      const reason = this.meta.eos.includes(token) ? "stop" : full ? "length" : null;
      parts.tokens.push([req.uid, token, true, reason !== null, reason]);
      parts.reqs[req.uid] = { ids: [token] };
      note(parts, req, { shown: req.shown + 1, reason });
    });
    return parts;
  }

  /** @param {number[]} tree @param {...any} entries */
  release(tree, ...entries) {
    const { state } = this;
    const { ops, after } = this.unpackTree(tree, entries);
    const put = [];
    const parts = { tree: ops, release: [], table: [], reqs: {}, free: null };
    for (const [uid, done, dupEnd, newLen, node] of entries) {
      const req = this.req(uid);
      const finished = Boolean(done);
      const slots = [...state.rows[req.row].slice(0, pages(req.cached_len, state.P) * state.P)];
      let remapped = null;
      if (dupEnd > req.handle_len && !finished) {
        remapped = toRuns(pathSlots(after, node).slice(req.handle_len, dupEnd));
        parts.table.push([req.row, req.handle_len, remapped]);
      }
      const ranges = rangesOf([0, req.handle_len, dupEnd, newLen, slots.length], finished, slots);
      parts.release.push({ uid, finished, remapped, ranges });
      put.push(...everyPage(slots.slice(req.handle_len, dupEnd), state.P));
      if (finished) put.push(...everyPage(slots.slice(newLen), state.P));
      const over = { row: null, handle_len: 0, node: null, state: req.state === "aborted" ? "aborted" : "done" };
      note(parts, req, finished ? over : { state: "decode", handle_len: newLen, node });
    }
    if (put.length) parts.free = { put };
    return parts;
  }

  /**
   * Tree operations from their flat list of numbers, and the tree after them.
   * @param {number[]} flat
   * @param {any[]} entries the released requests, whose tokens new nodes hold
   */
  unpackTree(flat, entries) {
    const after = { tree: new Map(this.state.tree) };
    let { clock, nextNode } = this;
    /** @type {any[][]} */
    const ops = [];
    for (let i = 0; i < flat.length; ) {
      const kind = flat[i++];
      /** @type {any[][]} */
      let found;
      if (kind === WALK) {
        const node = flat[i++];
        clock += flat[i++];
        found = pathOf(after, node).reverse().map((id) => ["time", id, clock]);
      } else if (kind === LOCK || kind === UNLOCK) {
        const step = kind === LOCK ? 1 : -1;
        found = pathOf(after, flat[i++]).map((id) => ["ref", id, after.tree.get(id).ref + step]);
      } else if (kind === ADD) {
        const parent = flat[i++];
        const [uid, , dupEnd, newLen] = entries[flat[i++]];
        clock += flat[i++];
        const req = this.req(uid);
        const slots = this.state.rows[req.row].slice(dupEnd, newLen);
        found = [["add", nextNode++, parent, req.ids.slice(dupEnd, newLen), toRuns(slots), clock]];
      } else if (kind === SPLIT) {
        const lower = flat[i++];
        found = [["split", nextNode++, lower, flat[i++], after.tree.get(lower).time]];
      } else {
        found = [["del", flat[i++]]];
      }
      for (const op of found) applyTree(after.tree, op);
      ops.push(...found);
    }
    return { ops, after };
  }

  /** Take the true frame into the state. @param {any} frame */
  advance(frame) {
    this.turn = frame.turn;
    this.sub = frame.sub + 1;
    this.rank = frame.rank;
    if (frame.sub === 0) this.admitted = [];
    if (frame.phase === "admit") this.admitted = (frame.admit ?? []).map((entry) => entry.uid);
    apply(this.state, frame);
    for (const op of frame.tree ?? []) {
      if (op[0] === "time" || op[0] === "add") this.clock = Math.max(this.clock, op[op.length - 1]);
      if (op[0] === "add" || op[0] === "split") this.nextNode = Math.max(this.nextNode, op[1] + 1);
    }
    if (frame.batch_info) {
      const uids = frame.batch_info.uids.filter((uid) => uid >= 0);
      const chunks = new Set(uids.filter((uid) => this.req(uid).state === "chunk"));
      this.launched.set(frame.batch, { uids, chunks });
      this.nextBatch = frame.batch + 1;
    }
    if (frame.phase === "forward") {
      const uids = [...new Set([...this.running, ...this.launched.get(frame.batch).uids])];
      this.running = uids.filter((uid) => {
        const req = this.req(uid);
        return req.state !== "chunk" && req.device_len < req.max_device_len;
      });
    }
    if (frame.phase === "sample") {
      this.sampled = frame.batch;
      this.launched.delete(frame.batch);
    }
    this.running = this.running.filter((uid) => !["done", "aborted"].includes(this.req(uid).state));
  }
}

/** @param {number[]} slots of whole pages @param {number} size */
function everyPage(slots, size) {
  return slots.filter((_, i) => i % size === 0);
}

/** @param {number[]} borders @param {boolean} finished @param {number[]} slots */
function rangesOf(borders, finished, slots) {
  const kinds = ["matched", "duplicate", "registered", finished ? "tail" : "kept"];
  return kinds
    .map((kind, i) => [kind, borders[i], borders[i + 1], toRuns(slots.slice(borders[i], borders[i + 1]))])
    .filter(([, start, end]) => end > start);
}

/** Write the fields that differ from the request's into the frame's reqs. @param {any} parts @param {Req} req @param {any} fields */
function note(parts, req, fields) {
  for (const name in fields) {
    if (fields[name] !== req[name]) (parts.reqs[req.uid] ??= {})[name] = fields[name];
  }
}

/** The node and its ancestors, without the root. @param {{tree: State["tree"]}} s @param {number} node */
function pathOf(s, node) {
  const path = [];
  for (let id = node; id; id = s.tree.get(id).parent) path.push(id);
  return path;
}

/** @param {{tree: State["tree"]}} s @param {number|null} node */
function pathSlots(s, node) {
  return pathOf(s, node ?? 0).reverse().flatMap((id) => s.tree.get(id).value);
}

/**
 * A trace with whole frames; one that has them already is given back as it is.
 * @param {any} trace
 * @returns {any}
 * @throws {Error} when the packed frames contradict themselves
 */
export function unpack(trace) {
  if (!trace?.packed || !trace.meta) return trace;
  const { packed, ...rest } = trace;
  const told = new Foretelling(trace.meta);
  const frames = packed.map((/** @type {any} */ entry) => {
    let frame = entry; // an object is a frame that could not be foretold
    if (!isObject(entry)) {
      const other = isObject(entry[entry.length - 1]) ? entry[entry.length - 1] : null;
      frame = told.frame(other ? entry.slice(0, -1) : entry);
      if (other) {
        Object.assign(frame, other);
        for (const name of other["-"] ?? []) delete frame[name];
        delete frame["-"];
      }
    }
    told.advance(frame);
    return frame;
  });
  return { ...rest, frames };
}
