// One plain sentence (or a few) per frame, in the chapter's words.

import { fromRuns, toRuns, currentBatch } from "./replay.js";
import { isolate } from "./tokens.js";
import { say, count, number } from "./words.js";

/** Names per phase: where in minisgl_lite this happens. */
const SOURCES = {
  receive: ["scheduler/scheduler.py", "Scheduler._process_one_msg"],
  abort: ["scheduler/scheduler.py", "Scheduler._process_one_msg"],
  admit: ["scheduler/prefill.py", "PrefillAdder.try_add_one"],
  evict: ["scheduler/cache.py", "CacheManager._allocate"],
  allocate: ["scheduler/cache.py", "CacheManager.allocate_paged"],
  prepare: ["scheduler/scheduler.py", "Scheduler._prepare_batch"],
  forward: ["engine/engine.py", "Engine.forward_batch"],
  sample: ["engine/sample.py", "Sampler.sample"],
  release: ["scheduler/cache.py", "CacheManager.cache_req"],
};

/** Requests named in one sentence; of more, their number is said. */
const NAMED = 2;

/** "0–8, 20": slots in their order. @param {ArrayLike<number>} slots */
export function slotText(slots, most = 4) {
  const runs = toRuns(slots);
  const shown = runs.slice(0, most).map(([first, n]) => (n === 1 ? `${first}` : `${first}–${first + n - 1}`));
  if (runs.length > most) shown.push(say("more", { n: number(runs.length - most) }));
  return shown.join(", ");
}

/** "[7, 212]" or "[7, 0:9]". */
function cells(row, from, to) {
  return to - from === 1 ? `page_table[${row}, ${from}]` : `page_table[${row}, ${from}:${to}]`;
}

function outLoc(from, to) {
  return to - from === 1 ? `out_loc[${from}]` : `out_loc[${from}:${to}]`;
}

/** The first few of many, then how many more. @param {string[]} parts */
function list(parts, most = NAMED) {
  if (parts.length <= most) return parts.join(" ");
  return `${parts.slice(0, most).join(" ")} ${count("sentence.more", parts.length - most)}`;
}

/** Where a frame's work is done: file and qualified name. @param {any} frame @returns {string[]} */
export function sourceOf(frame) {
  return SOURCES[frame?.phase] ?? ["", ""];
}

/**
 * What happens in the state's last frame.
 * @param {import("./replay.js").State} state after the frame
 * @param {{short: (id: number) => string}} tokens
 * @param {import("./replay.js").State|null} [before] the state before the frame, where it is at hand
 * @returns {string}
 */
export function sentence(state, tokens, before = null) {
  const frame = state.frame;
  if (!frame) return say("sentence.empty");
  const make = MAKERS[frame.phase];
  const parts = [];
  if (frame.fault) parts.push(say(EARLY.has(frame.fault.kind) ? "sentence.fault.early" : "sentence.fault", { text: faultText(frame.fault) }));
  if (frame.fault && frame.more_faults?.length) parts.push(count("sentence.fault.more", frame.more_faults.length));
  parts.push(make ? make(frame, state, tokens, before) : say("sentence.unknown", { phase: frame.phase }));
  return parts.filter(Boolean).join(" ");
}

/** Kinds of faults that are found before a wrong number is read. */
const EARLY = new Set(["double-free", "freed-while-cached", "freed-in-use", "evicted-in-use"]);

/** A finding in words, without its step: that stands beside it. @param {{text: string}} fault */
export function faultText({ text }) {
  return text.replace(/^step \d+[:,] /, "");
}

const MAKERS = { receive, abort, admit, evict, allocate, prepare, forward, sample, release };

function receive(frame) {
  const parts = [];
  for (const [uid, r] of Object.entries(frame.reqs ?? {})) {
    if (r.state === "waiting") parts.push(count("sentence.receive", r.input_len, { uid, out: number(r.max_device_len - r.input_len) }));
  }
  for (const { uid, reason } of frame.reject ?? []) parts.push(say("sentence.rejected", { uid, reason: reason.replace(/^error: /, "") }));
  // A recorder that came late begins with what was there already.
  return parts.length ? list(parts) : say("sentence.begin");
}

function abort(frame, state) {
  const parts = [];
  const released = new Set((frame.release ?? []).map((r) => r.uid));
  for (const [uid, r] of Object.entries(frame.reqs ?? {})) {
    if (r.state !== "aborted") continue;
    const held = state.reqs.get(Number(uid)).row !== null;
    parts.push(say(held ? "sentence.abort.flight" : released.has(Number(uid)) ? "sentence.abort" : "sentence.abort.waiting", { uid }));
  }
  return list([...parts, release(frame, state)].filter(Boolean), 6);
}

function admit(frame, state) {
  const parts = (frame.admit ?? []).map((a) => {
    const r = state.reqs.get(a.uid);
    const values = {
      uid: a.uid, row: a.row, matched: number(a.matched), rest: number(r.input_len - a.matched),
      from: r.cached_len, to: r.device_len, n: number(r.input_len),
    };
    // A later chunk keeps its row: what lies before its tokens was computed by its earlier chunks.
    if (r.cached_len > a.matched) return say("sentence.admit.next", values);
    if (a.matched) values.slots = slotText(state.rows[a.row].subarray(0, a.matched));
    const chunk = a.chunk ? say("sentence.admit.chunk", values) : "";
    const key = a.matched ? "sentence.admit.hit" : "sentence.admit.miss";
    return `${count(key, a.matched || r.input_len, values)} ${chunk}`.trim();
  });
  if (frame.refuse) {
    const { uid, why, need, reserved, available } = frame.refuse;
    const values = { uid, need: number(need), reserved: number(reserved), available: number(available) };
    parts.push(say(`sentence.refuse.${why}`, values));
  }
  return list(parts, NAMED + 1);
}

function evict(frame) {
  const put = frame.free?.put ?? [];
  return count("sentence.evict", put.length, { starts: slotText0(put) });
}

/** Page starts as they stand in free_slots: no runs, they are not consecutive. */
function slotText0(starts, most = 6) {
  const shown = starts.slice(0, most).join(", ");
  return starts.length > most ? `${shown}, ${say("more", { n: number(starts.length - most) })}` : shown;
}

function allocate(frame, state) {
  const P = state.P;
  const parts = (frame.alloc ?? []).map(([uid, first, last, starts]) => {
    const row = state.reqs.get(uid).row;
    const slots = starts.flatMap((start) => Array.from({ length: P }, (_, i) => start + i));
    const values = { uid, starts: slotText0(starts), slots: slotText(slots), cells: cells(row, first * P, last * P) };
    return count(P === 1 ? "sentence.allocate.slot" : "sentence.allocate", last - first, values);
  });
  return list(parts);
}

/** Entries of out_loc by request: {uid, row, from, to (in out_loc), pos, slots}. */
function spans(batch) {
  const out = [];
  batch.tokens.forEach((t, i) => {
    const last = out[out.length - 1];
    // Every dummy is a request of its own, though all have uid -1.
    if (last && last.uid === t.uid && t.uid >= 0) {
      last.to = i + 1;
      last.slots.push(batch.slots[i]);
    } else out.push({ uid: t.uid, row: t.row, from: i, to: i + 1, pos: t.pos, slots: [batch.slots[i]] });
  });
  return out;
}

function prepare(frame, state) {
  const batch = currentBatch(state);
  const all = spans(batch);
  const real = all.filter((s) => s.uid >= 0);
  const parts = real.map((s) =>
    say(s.to - s.from === 1 ? "sentence.prepare.one" : "sentence.prepare.many", {
      uid: s.uid, from: s.pos, last: s.pos + s.slots.length - 1, out: outLoc(s.from, s.to),
      cells: cells(s.row, s.pos, s.pos + s.slots.length), slots: slotText(s.slots),
    }),
  );
  const head = count(`sentence.prepare.${batch.info.phase}`, batch.slots.length);
  const padding = all.length - real.length;
  const room = batch.info.phase === "decode" && !state.took ? say("sentence.prepare.room") : "";
  return [head, list(parts), room, padding ? count("sentence.padding", padding) : ""].filter(Boolean).join(" ");
}

function forward(frame, state) {
  const batch = currentBatch(state);
  const phase = batch.info.phase;
  const parts = spans(batch)
    .filter((s) => s.uid >= 0)
    .map((s) =>
      say(s.to - s.from === 1 ? "sentence.forward.one" : "sentence.forward.many", {
        uid: s.uid, slots: slotText(s.slots), out: outLoc(s.from, s.to),
        cells: cells(s.row, s.pos, s.pos + s.slots.length), read: number(s.pos + s.slots.length),
      }),
    );
  return `${say(`step.${phase}`)}: ${list(parts)}`;
}

function sample(frame, state, tokens) {
  const [fresh, others] = [[], []];
  let without = 0; // new tokens whose K/V no step has computed yet; under overlap one may have
  for (const [uid, token, shown, finished, reason] of frame.tokens ?? []) {
    const r = state.reqs.get(uid);
    const values = { uid, token: isolate(tokens.short(token)), pos: (r?.ids.length ?? 0) - 1 };
    if (!shown && !finished) others.push(say(r?.state === "chunk" ? "sentence.sample.chunk" : "sentence.sample.dropped", values));
    else if (finished) others.push(say(`sentence.sample.${reason === "stop" ? "stop" : "length"}`, values));
    else {
      fresh.push(say("sentence.sample", values));
      if (r && r.cached_len < r.ids.length) without++;
    }
  }
  return [list(fresh), without ? count("sentence.sample.fresh", without) : "", list(others)].filter(Boolean).join(" ");
}

function release(frame, state) {
  const parts = (frame.release ?? []).map((r) => {
    const ranges = r.ranges
      .filter(([, a, b]) => b > a)
      .map(([kind, a, b, runs]) => say(`range.${kind}.short${kind === "matched" && !r.finished ? ".live" : ""}`, { from: a, to: b, slots: slotText(fromRuns(runs), 2) }));
    const reason = state.reqs.get(r.uid)?.reason ?? "";
    const failed = r.finished && reason.startsWith("error: ");
    const head = say(failed ? "sentence.release.failed" : r.finished ? "sentence.release.end" : "sentence.release.live", {
      uid: r.uid, reason: reason.slice(7),
    });
    const moved = r.remapped ? say("sentence.release.remapped", { slots: slotText(fromRuns(r.remapped)) }) : "";
    return `${head} ${ranges.join("; ")}. ${moved}`.trim();
  });
  const put = frame.free?.put ?? [];
  const back = put.length && parts.length ? count("sentence.release.put", put.length, { starts: slotText0(put) }) : "";
  return [list(parts, 2), back].filter(Boolean).join(" ");
}
