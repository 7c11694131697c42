// A sentence per frame, in the chapter's words; every word comes from the catalogue.
import assert from "node:assert/strict";
import { test } from "node:test";
import { catalogue, runs } from "./words.mjs";
import { Replay } from "../../minisgl_lite/viz/static/replay.js";
import { sentence, slotText, sourceOf } from "../../minisgl_lite/viz/static/sentences.js";
import { tokenTexts } from "../../minisgl_lite/viz/static/tokens.js";
import { count, say } from "../../minisgl_lite/viz/static/words.js";

const plain = (text) => text.replace(/[\u2068\u2069]/g, "");

/** Sentences of a run, with the phase before them. */
function sentences(name) {
  const { trace } = runs[name];
  const replay = new Replay(trace);
  const tokens = tokenTexts(trace.vocab, trace.meta.special);
  return trace.frames.map((frame, i) => `${frame.turn} ${frame.phase}: ${plain(sentence(replay.at(i), tokens))}`);
}
const busy = sentences("busy");
const overlapped = sentences("overlapped");
const has = (list, text) => assert.ok(list.some((s) => s.includes(text)), `${text}\n\n${list.join("\n")}`);

for (const [name, run] of Object.entries(runs)) {
  test(`${name}: the sentences are those that Python makes`, () => {
    const replay = new Replay(run.trace);
    const tokens = tokenTexts(run.trace.vocab, run.trace.meta.special);
    run.sentences.forEach((text, i) => assert.equal(sentence(replay.at(i), tokens), text, `frame ${i}`));
  });
}

test("one step of the run, word for word", () => {
  assert.deepEqual(busy.filter((s) => s.startsWith("2 ")), [
    "2 admit: r2 goes on in row 2: tokens [2, 6) of its 6 prompt tokens.",
    "2 allocate: r2 takes page starts 8, 10 from the head of free_slots: slots 8–11 → page_table[2, 2:6].",
    "2 prepare: 4 write addresses are looked up, in model order: r2: out_loc[0:4] = page_table[2, 2:6] = slots 8–11.",
    "2 forward: prefill: r2 writes slots 8–11 = out_loc[0:4] → page_table[2, 2:6], then reads 6 slots.",
    "2 sample: r2 gets “␣k” and ends: it has all it asked for. This last token never gets K/V.",
    "2 release: r2 gives back its row: [0, 6) is a duplicate: freed. Page starts 6, 8, 10 go to the end of free_slots.",
  ]);
});

test("a decode step names slot, entry of out_loc and cell", () => {
  has(busy, "decode: r1 writes slot 16 = out_loc[0] → page_table[3, 6], then reads 7 slots.");
});

test("a hit, a chunk, a refusal, an eviction, padding and an abort are told", () => {
  has(busy, "r3 takes row 2. Its first 2 tokens are in the cache: slots 0–1 are locked and copied into the row.");
  has(busy, "The budget cuts its prompt: this chunk is [0, 2) of 6.");
  has(busy, "r2’s prompt is not done yet: what was sampled is dropped.");
  has(busy, "r4 must wait: it needs 12 tokens of room");
  has(busy, "go to the end of free_slots.");
  has(busy, "1 dummy request pads the batch; it writes to the dummy page.");
  has(busy, "r3 is cancelled.");
  has(busy, "No page was taken: the last page still has room.");
});

test("a duplicate of a live request: its row is pointed at the cached slots", () => {
  has(overlapped, "r2 lives on: [0, 4) is a duplicate: freed; [4, 8) is the tail: kept. Its row now points at the cached slots 0–3.");
});

test("under overlap it isn't said of a token that it has no K/V when the device has computed it", () => {
  const sampled = overlapped.find((s) => s.startsWith("3 sample"));
  assert.equal(sampled.includes("no K/V yet"), false, sampled);
});

test("a rejected request and an unknown start are told", () => {
  const tokens = tokenTexts({});
  const state = new Replay(runs.busy.trace).at(-1);
  const frame = { turn: 1, phase: "receive", reject: [{ uid: 5, reason: "error: the prompt is empty" }] };
  assert.equal(sentence({ ...state, frame }, tokens), "r5 is refused for good: the prompt is empty.");
  assert.equal(sentence({ ...state, frame: { phase: "receive" } }, tokens), catalogue["sentence.begin"]);
  assert.equal(sentence({ ...state, frame: null }, tokens), catalogue["sentence.empty"]);
});

test("a fault is said first", () => {
  const replay = new Replay(runs.busy.trace);
  const state = replay.at(4);
  const frame = { ...state.frame, fault: { text: "slot 3 holds another prefix" } };
  assert.ok(sentence({ ...state, frame }, tokenTexts({})).startsWith("FAULT: slot 3 holds another prefix."));
});

test("a fault says whether a number is wrong yet, and leaves out its step", () => {
  const told = sentences("faulty").filter((s) => s.includes("FAULT"));
  assert.match(told[0], /: FAULT, though no number is wrong yet: (?!turn)/);
  assert.match(told.at(-1), /: FAULT: (?!turn).*reads slot 12/);
});

test("no sentence has an unfilled place or a missing key", () => {
  for (const text of [...busy, ...overlapped]) assert.doesNotMatch(text, /\{\w+\}|\[\w+(\.\w+)+\]|undefined|NaN/);
});

test("markup in a token stands in the sentence as it is", () => {
  const { trace } = runs.busy;
  const at = trace.frames.findIndex((frame) => frame.phase === "sample");
  const evil = { short: () => "<b>x</b>", whole: () => "<b>x</b>" };
  assert.match(sentence(new Replay(trace).at(at), evil), /“\u2068<b>x<\/b>\u2069”/);
});

test("slots are told as ranges, in their order, and the rest is counted", () => {
  assert.equal(slotText([0, 1, 2, 7]), "0–2, 7");
  assert.equal(slotText([9, 8, 7, 6, 5]), "9, 8, 7, 6, 1 more");
  assert.equal(slotText([]), "");
});

test("each phase names where it happens", () => {
  for (const frame of runs.busy.trace.frames) assert.match(sourceOf(frame).join(" "), /^\w+\/\w+\.py \w+\.\w+$/);
});

test("plurals, numbers and missing keys", () => {
  assert.equal(count("queue.count", 1), "1 free page");
  assert.equal(count("queue.count", 4096), "4,096 free pages");
  assert.equal(say("no.such.key"), "[no.such.key]");
});
