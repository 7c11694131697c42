// Predict, then reveal: what can be asked before a frame is shown, what is right, and why an answer is wrong.
// Pure: states in, words out. The card and the marks are in predict_card.js.

import { KIND, fromRuns, slotRoom, slotStates } from "./replay.js";
import { pagesTaken } from "./rules.js";
import { slotText } from "./sentences.js";
import { goneWords, hitLines, stayWords, takeWords } from "./why.js";
import { count, number, say } from "./words.js";

/** Of more slots or pages than these it is not asked which they are. */
const MOST_SLOTS = 48;
const MOST_PAGES = 12;
/** Requests whose hits are asked for before one frame. */
const MOST_HITS = 2;
/** Sentences of one answer. */
const MOST_NOTES = 6;

/**
 * @typedef {Object} Question
 * @property {"hit"|"evict"|"pages"|"slots"} kind
 * @property {number} at the frame that is not shown yet
 * @property {string} key tells it from all others of the run
 * @property {number[]} answer one number; or slots, or page starts
 * @property {number} [uid] whose hit
 *
 * @typedef {Object} Verdict
 * @property {boolean} right
 * @property {string} words
 * @property {{mark: "right"|"missing"|"wrong"|"", text: string}[]} notes
 * @property {{right: number[], missing: number[], wrong: number[]}} cells
 */

/** Whether an answer is a set of cells, chosen in the pool or typed. @param {Question} q */
export const isCells = (q) => q.kind === "slots" || q.kind === "evict";

/** The frame "prepare" of the turn of frame `index`, at or behind it; -1: none. */
function prepareOf(frames, index) {
  for (let i = index; i < frames.length && frames[i].turn === frames[index].turn; i++) if (frames[i].batch_info) return i;
  return -1;
}

/** Whether pages were taken earlier in the turn of frame `index`. */
function tookBefore(frames, index) {
  for (let i = index - 1; i >= 0 && frames[i].turn === frames[index].turn; i--) if (frames[i].phase === "allocate") return true;
  return false;
}

/**
 * What is written in the turn: slots of real requests by request and position, and those of padding.
 * @param {any[]} frames
 * @param {number} index at or before the frame "prepare"
 * @returns {{at: number, phase: string, tokens: {slot: number, uid: number, pos: number}[], padding: number[]}|null}
 */
export function writesOf(frames, index) {
  const at = prepareOf(frames, index);
  if (at < 0) return null;
  const info = frames[at].batch_info;
  const slots = fromRuns(info.out_loc);
  const [tokens, padding] = [[], []];
  let i = 0;
  info.uids.forEach((uid, k) => {
    for (let n = 0; n < info.ext[k]; n++, i++) {
      if (uid < 0) padding.push(slots[i]);
      else tokens.push({ slot: slots[i], uid, pos: info.cached[k] + n });
    }
  });
  return { at, phase: info.phase, tokens, padding };
}

/**
 * What can be asked before frame `index` is shown.
 * @param {any} trace
 * @param {number} index
 * @param {import("./replay.js").State} before the state that is shown
 * @returns {Question[]}
 */
export function questionsAt(trace, index, before) {
  const { frames, meta } = trace;
  const frame = frames[index];
  const make = (kind, answer, more = {}) => ({ kind, at: index, key: [kind, frame.turn, index, more.uid ?? ""].join(":"), answer, ...more });
  if (frame.phase === "admit") {
    if (meta.cache_type === "naive" || before.tree.size < 2) return [];
    const fresh = (frame.admit ?? []).filter((entry) => before.reqs.get(entry.uid)?.row === null);
    return fresh.slice(0, MOST_HITS).map((entry) => make("hit", [entry.matched], { uid: entry.uid }));
  }
  if (frame.phase === "evict") {
    const put = frame.free?.put ?? [];
    return put.length && put.length <= MOST_PAGES ? [make("evict", [...put].sort((a, b) => a - b))] : [];
  }
  if (frame.phase !== "allocate" && (frame.phase !== "prepare" || tookBefore(frames, index))) return [];
  const writes = writesOf(frames, index);
  if (!writes) return [];
  const questions = [];
  const slots = writes.tokens.map((token) => token.slot).sort((a, b) => a - b);
  if (slots.length && slots.length <= MOST_SLOTS) questions.push(make("slots", slots));
  // With P = 1 a page is a slot, and the second question would be the first.
  if (meta.page_size > 1) questions.push(make("pages", [frame.phase === "allocate" ? (frame.free?.take ?? 0) : 0]));
  return questions;
}

/** A question in words. @param {Question} q @param {any} trace */
export function questionWords(q, trace) {
  const frame = trace.frames[q.at];
  if (q.kind === "hit") return say("predict.q.hit", { uid: q.uid });
  if (q.kind === "evict") return say("predict.q.evict");
  if (q.kind === "pages") return say("predict.q.pages");
  const writes = writesOf(trace.frames, q.at);
  const uids = [...new Set(writes.tokens.map((token) => token.uid))];
  return say("predict.q.slots", { turn: frame.turn, phase: say(`step.${writes.phase}`), who: some(uids.map((uid) => `r${uid}`), 6) });
}

/** The first few names, then how many more. @param {string[]} names @param {number} most */
function some(names, most) {
  return names.length > most ? `${names.slice(0, most).join(", ")}, ${say("more", { n: number(names.length - most) })}` : names.join(", ");
}

/**
 * Numbers as a reader types them: "5, 8–11 13".
 * @param {string} text
 * @param {number} end one behind the largest number
 * @returns {{slots: number[], bad: string}} `bad`: the part that is none
 */
export function parseSlots(text, end) {
  const slots = new Set();
  const parts = text.replace(/\s*([-–—])\s*/g, "$1").split(/[\s,;]+/).filter(Boolean);
  for (const part of parts) {
    const match = /^(\d{1,9})(?:[-–—](\d{1,9}))?$/.exec(part);
    const [from, to] = match ? [Number(match[1]), Number(match[2] ?? match[1])] : [1, 0];
    if (from > to || to >= end) return { slots: [], bad: part };
    for (let slot = from; slot <= to; slot++) slots.add(slot);
  }
  return { slots: [...slots].sort((a, b) => a - b), bad: "" };
}

/**
 * Judge an answer.
 * @param {Question} q
 * @param {number[]} given one number; or slots (for an eviction: slots of the pages)
 * @param {{trace: any, before: import("./replay.js").State, after: import("./replay.js").State, tokens: any}} facts
 *   `before`: the state that the reader saw; `after`: behind frame q.at
 * @returns {Verdict}
 */
export function judge(q, given, facts) {
  if (q.kind === "slots") return judgeSlots(q, given, facts);
  if (q.kind === "evict") return judgeEvict(q, given, facts);
  const right = given[0] === q.answer[0];
  const lines = q.kind === "pages" ? takeLines(q, facts) : hitLines(factsOf(q, facts), q.uid);
  const words = say(`predict.${q.kind}.${right ? "right" : "wrong"}`, { n: number(q.answer[0]), given: number(given[0]), uid: q.uid ?? "" });
  return { right, words, notes: lines.slice(0, MOST_NOTES).map((text) => ({ mark: "", text })), cells: { right: [], missing: [], wrong: [] } };
}

/** What why.js works with. */
const factsOf = (q, { trace, before, after, tokens }) => ({ trace, meta: trace.meta, index: q.at, frame: trace.frames[q.at], before, state: after, tokens });

/** Why so many pages, request by request, those that take some first. */
function takeLines(q, { trace, before }) {
  const all = pagesTaken(trace, q.at, before) ?? [];
  return [...all].sort((a, b) => b.last - b.first - (a.last - a.first)).map((r) => takeWords(r, trace.meta.page_size));
}

/** @param {number[]} given @param {number[]} answer @param {Set<number>} [neither] */
function compareCells(given, answer, neither = new Set()) {
  const [chosen, wanted] = [new Set(given), new Set(answer)];
  return {
    right: answer.filter((slot) => chosen.has(slot)),
    missing: answer.filter((slot) => !chosen.has(slot)),
    wrong: [...chosen].filter((slot) => !wanted.has(slot) && !neither.has(slot)).sort((a, b) => a - b),
  };
}

/** "3 of 4 right, 1 missing, 2 wrong". */
function cellWords(q, cells, all) {
  const parts = [say("predict.part.right", { n: number(cells.right.length), all: number(all) })];
  if (cells.missing.length) parts.push(say("predict.part.missing", { n: number(cells.missing.length) }));
  if (cells.wrong.length) parts.push(say("predict.part.wrong", { n: number(cells.wrong.length) }));
  return `${say(`predict.field.${q.kind}`)}: ${parts.join(", ")}.`;
}

// ---- which slots are written ------------------------------------------------------------------------

/** @returns {Verdict} */
function judgeSlots(q, given, facts) {
  const { trace, before } = facts;
  const writes = writesOf(trace.frames, q.at);
  const cells = compareCells(given, q.answer, new Set(writes.padding));
  const right = !cells.missing.length && !cells.wrong.length;
  const about = slotCase(q, writes, trace, before);
  const notes = [
    ...grouped(cells.wrong.map(about.wrong), "wrong"),
    ...grouped(cells.missing.map(about.missing), "missing"),
  ];
  if (right) notes.push(...grouped(cells.right.map(about.missing), "right"));
  const dummies = given.filter((slot) => writes.padding.includes(slot));
  if (dummies.length) notes.push({ mark: "", text: count("predict.padding", dummies.length, { slots: slotText(dummies) }) });
  return { right, words: right ? say("predict.slots.right") : cellWords(q, cells, q.answer.length), notes: firstNotes(notes), cells };
}

/** The first notes, and how many more. */
function firstNotes(notes) {
  if (notes.length <= MOST_NOTES) return notes;
  return [...notes.slice(0, MOST_NOTES), { mark: "", text: say("more", { n: number(notes.length - MOST_NOTES) }) }];
}

/**
 * One sentence for all slots of which the same is to be said of the same request.
 * @param {{key: string, slot: number, pos: number, uid: number, start: number, values: Object<string, any>}[]} cases
 * @param {"right"|"missing"|"wrong"} mark
 */
function grouped(cases, mark) {
  const groups = new Map();
  for (const one of cases) {
    const id = [one.key, one.uid].join();
    if (!groups.has(id)) groups.set(id, []);
    groups.get(id).push(one);
  }
  return [...groups.values()].map((group) => {
    group.sort((a, b) => a.pos - b.pos || a.slot - b.slot);
    const [{ key, uid, values }] = group;
    const starts = [...new Set(group.map((one) => one.start))];
    const filled = { uid, ...values, slots: slotText(group.map((one) => one.slot)), pos: slotText(group.map((one) => one.pos)), starts: some(starts.map(String), 6) };
    return { mark, text: count(starts.length > 1 ? (MANY_PAGES[key] ?? key) : key, group.length, filled) };
  });
}

/** Where slots of several pages need other words. */
const MANY_PAGES = { "predict.not.queue": "predict.not.queues" };

/** Tells of a slot why it is written, or why it is not. */
function slotCase(q, writes, trace, before) {
  const P = before.P;
  const slots = slotStates(before, slotRoom((before.N + 1) * P));
  const token = new Map(writes.tokens.map((one) => [one.slot, one]));
  const span = new Map();
  for (const { uid, pos } of writes.tokens) span.set(uid, { from: span.get(uid)?.from ?? pos, to: pos + 1 });
  const frame = trace.frames[q.at];
  const taken = new Map();
  for (const [uid, first, , starts] of (frame.phase === "allocate" && frame.alloc) || []) starts.forEach((start, i) => taken.set(start, { uid, page: first + i }));
  const taking = some([...taken.keys()].map(String), 6);
  const batch = some([...span.keys()].map((uid) => `r${uid}`), 4);
  const startOf = (slot) => slot - (slot % P);
  const now = (uid) => {
    const { from, to } = span.get(uid);
    return count("predict.now", to - from, { from, last: to - 1 });
  };

  function missing(slot) {
    const { uid, pos } = token.get(slot);
    const start = startOf(slot);
    const page = Math.floor(pos / P);
    return { key: taken.has(start) ? "predict.because.taken" : "predict.because.room", slot, pos, uid, start, values: { page } };
  }

  function wrong(slot) {
    const start = startOf(slot);
    const as = (key, uid = -1, pos = -1, values = {}) => ({ key: `predict.not.${key}`, slot, pos, uid, start, values });
    const later = (uid, pos) => as("later", uid, pos, { now: now(uid) });
    const owner = taken.get(start);
    if (owner) return later(owner.uid, owner.page * P + (slot % P));
    const [uid, pos] = [slots.uid[slot], slots.pos[slot]];
    switch (slots.kind[slot]) {
      case KIND.own:
        if (!span.has(uid)) return as("owned", uid, pos, { page: start / P });
        return pos < span.get(uid).from ? as("written", uid, pos) : later(uid, pos);
      case KIND.free:
        if (!taken.size) return as("free", -1, -1, { who: batch });
        return as("queue", -1, -1, { place: number(before.free.indexOf(start) + 1), taking });
      case KIND.locked:
      case KIND.shared:
        return as("locked");
      case KIND.evictable:
        return as("evictable");
      case KIND.dummy:
        return as(writes.padding.length ? "padded" : "dummy");
      default:
        return as("lost");
    }
  }

  return { missing, wrong };
}

// ---- which pages are evicted ------------------------------------------------------------------------

/** @returns {Verdict} */
function judgeEvict(q, given, facts) {
  const { trace, before, tokens } = facts;
  const P = before.P;
  const frame = trace.frames[q.at];
  const pages = [...new Set(given.map((slot) => slot - (slot % P)))].sort((a, b) => a - b);
  const found = compareCells(pages, q.answer);
  const right = !found.missing.length && !found.wrong.length;
  const order = (frame.tree ?? []).filter((op) => op[0] === "del").map((op) => op[1]);
  const gone = new Set(order);
  const last = before.tree.get(order[order.length - 1])?.time ?? 0;
  const slots = slotStates(before, slotRoom((before.N + 1) * P));

  /** Why a page that was chosen stays. */
  const stays = (start) => {
    if (slots.node[start] >= 0) return stayWords(before, before.tree.get(slots.node[start]), gone, last, tokens);
    if (slots.kind[start] === KIND.free) return say("predict.evict.free", { start });
    if (slots.kind[start] === KIND.dummy) return say("predict.evict.dummy", { start });
    return say("predict.evict.own", { start, uid: slots.uid[start] });
  };
  const goes = (start) => goneWords(before, order, slots.node[start], tokens);
  const notes = (starts, mark, words) => [...new Set(starts.map(words))].map((text) => ({ mark, text }));
  const all = [...notes(found.wrong, "wrong", stays), ...notes(found.missing, "missing", goes)];
  if (right) all.push(...notes(found.right, "right", goes));
  const expand = (starts) => starts.flatMap((start) => Array.from({ length: P }, (_, i) => start + i));
  return {
    right, words: right ? say("predict.evict.right") : cellWords(q, found, q.answer.length), notes: firstNotes(all),
    cells: { right: expand(found.right), missing: expand(found.missing), wrong: expand(found.wrong) },
  };
}

// ---- the score --------------------------------------------------------------------------------------

/**
 * How often the first answer to a question was right.
 * @param {Object<string, number>} kept question → 1 right, 0 not
 */
export function scoreOf(kept) {
  const all = Object.values(kept);
  return { right: all.filter((one) => one === 1).length, all: all.length };
}
