// Predict: what is asked, what is right, and why an answer is wrong. What is right is what Python's replay says.
import assert from "node:assert/strict";
import { test } from "node:test";
import { decisions, runs } from "./words.mjs";
import { isCells, judge, parseSlots, questionWords, questionsAt, scoreOf, writesOf } from "../../minisgl_lite/viz/static/predict.js";
import { Replay } from "../../minisgl_lite/viz/static/replay.js";
import { tokenTexts } from "../../minisgl_lite/viz/static/tokens.js";
import { unpack } from "../../minisgl_lite/viz/static/unpack.js";

const plain = (text) => text.replace(/[\u2068\u2069]/g, "");
const traceOf = (name) => (name in runs ? runs[name].trace : unpack(structuredClone(decisions[name].trace)));

/** Every question of a run, with what is needed to judge an answer. */
function questions(trace) {
  const [behind, replay] = [new Replay(trace), new Replay(trace)];
  const tokens = tokenTexts(trace.vocab, trace.meta.special);
  return trace.frames.flatMap((_, index) => {
    const before = behind.at(index - 1);
    return questionsAt(trace, index, before).map((q) => ({ q, at: (given) => judge(q, given, { trace, before: new Replay(trace).at(index - 1), after: replay.at(index), tokens }) }));
  });
}
const told = (verdict) => [verdict.words, ...verdict.notes.map(({ mark, text }) => `${mark}: ${plain(text)}`)];
const of = (name, kind, turn) => {
  const trace = traceOf(name);
  return questions(trace).find(({ q }) => q.kind === kind && trace.frames[q.at].turn === turn);
};

for (const name of Object.keys(decisions)) {
  test(`${name}: what is right is what Python says was written, taken and evicted`, () => {
    const trace = traceOf(name);
    const all = questions(trace);
    const asked = (kind, turn) => all.filter(({ q }) => q.kind === kind && trace.frames[q.at].turn === turn).map(({ q }) => q.answer);
    for (const { at, slots, pages, evicted } of decisions[name].turns) {
      const turn = trace.frames[at].turn;
      assert.deepEqual(asked("slots", turn), slots.length ? [slots] : [], `turn ${turn}`);
      assert.deepEqual(asked("pages", turn), trace.meta.page_size > 1 ? [[pages]] : [], `turn ${turn}`);
      assert.deepEqual(asked("evict", turn), evicted.length ? [evicted] : [], `turn ${turn}`);
    }
    const hits = trace.frames.flatMap((frame) => frame.admit ?? []);
    for (const { q } of all.filter((one) => one.q.kind === "hit")) {
      assert.ok(hits.some((entry) => entry.uid === q.uid && entry.matched === q.answer[0]));
    }
  });

  test(`${name}: the right answer is right, every other one is not, and each wrong cell is explained`, () => {
    const trace = traceOf(name);
    const total = (trace.meta.num_pages + 1) * trace.meta.page_size;
    for (const { q, at } of questions(trace)) {
      const P = trace.meta.page_size;
      const cells = q.kind === "evict" ? q.answer.flatMap((start) => Array.from({ length: P }, (_, i) => start + i)) : q.answer;
      assert.equal(at(cells).right, true);
      if (!isCells(q)) {
        const wrong = at([q.answer[0] + 1]);
        assert.equal(wrong.right, false);
        assert.ok(wrong.notes.length, `${q.kind} at ${q.at}`);
        continue;
      }
      assert.deepEqual(at(cells).cells, { right: cells, missing: [], wrong: [] });
      assert.equal(at(cells.slice(P)).right, false);
      assert.deepEqual(at([]).cells.missing, cells);
      const padding = writesOf(trace.frames, q.at)?.padding ?? [];
      for (let slot = 0; slot < total; slot++) {
        if (cells.includes(slot) || (q.kind === "slots" && padding.includes(slot))) continue;
        const verdict = at([...cells, slot]);
        assert.equal(verdict.right, false, `slot ${slot} at ${q.at}`);
        assert.ok(verdict.cells.wrong.includes(slot));
        const [note] = verdict.notes;
        assert.equal(note.mark, "wrong");
        assert.doesNotMatch(note.text, /\{\w+\}|\[predict|undefined|NaN|-1/, note.text);
      }
      for (const slot of q.kind === "slots" ? padding : []) assert.equal(at([...cells, slot]).right, true, "padding is neither right nor wrong");
      // Everything at once: never more than a few sentences.
      assert.ok(at(Array.from({ length: total }, (_, i) => i)).notes.length <= 8);
    }
  });
}

test("a decode step of two: one takes a page, one has room", () => {
  const { q, at } = of("busy", "slots", 4);
  assert.equal(questionWords(q, traceOf("busy")), "Step 4, decode of r1, r3: which slots are written?");
  assert.deepEqual(told(at([15, 16])), [
    "Slots: right, these and no others.",
    "right: Slot 15: r3’s position 5 lies in logical page 2 of its row (start 14), which has room.",
    "right: Slot 16: r1’s position 6 goes to a new page, start 16, from the head of free_slots.",
  ]);
  assert.deepEqual(told(at([9, 14, 17])), [
    "Slots: 0 of 2 right, 2 missing, 3 wrong.",
    "wrong: Slot 9: page start 8 is number 4 in free_slots, and this step takes only its head: 16.",
    "wrong: Slot 14 holds r3’s position 4 already: K/V are written once, then only read.",
    "wrong: Slot 17 is for r1’s position 7, in a later step: this one writes position 6 alone.",
    "missing: Slot 15: r3’s position 5 lies in logical page 2 of its row (start 14), which has room.",
    "missing: Slot 16: r1’s position 6 goes to a new page, start 16, from the head of free_slots.",
  ]);
  assert.deepEqual(told(at([0, 15, 16])).slice(1), ["wrong: Slot 0 is in the tree, and locked: it is read, never written."]);
});

test("a step that takes no page: the free slots stay free", () => {
  const { q, at } = of("overlapped", "slots", 4);
  assert.deepEqual(q.answer, [6]);
  assert.deepEqual(told(at([16, 17])).slice(0, 2), [
    "Slots: 0 of 1 right, 1 missing, 2 wrong.",
    "wrong: Slots 16–17 are free and stay so: no page is taken, since there is room in what r1 took before.",
  ]);
  const pages = of("overlapped", "pages", 4);
  assert.deepEqual(told(pages.at([1])), ["Pages taken: 0, not 1.", ": r1: position 6 lies in logical page 1 of its row, [4, 8), which it has."]);
});

test("a prefill beside a request that is not in the batch: its slots are its own", () => {
  const { at } = of("busy", "slots", 5);
  const wrong = at([6, 7, 8, 9, 10, 11, 18, 19, 16, 12]);
  assert.deepEqual(told(wrong), [
    "Slots: 8 of 8 right, 2 wrong.",
    "wrong: Slot 12 is in the tree: it could be taken only after an eviction, and there is none now.",
    "wrong: Slot 16 is in page 8, still owned by r1, which is not in this batch.",
  ]);
  const right = told(at([6, 7, 8, 9, 10, 11, 18, 19]));
  assert.deepEqual(right[1], "right: Slots 18–19, 6–11: r4’s positions 0–7 go to new pages, start 18, 6, 8, 10, from the head of free_slots.");
});

test("the dummy page: padding writes there, and that is neither right nor wrong", () => {
  const { q, at } = of("busy", "slots", 7);
  const { padding } = writesOf(traceOf("busy").frames, q.at);
  const none = of("busy", "slots", 5).at([20]);
  assert.match(told(none)[1], /^wrong: Slot 20 is in the dummy page: only padding writes there, and this batch has none\.$/);
  const padded = questions(traceOf("random, padded")).find((one) => one.q.kind === "slots" && writesOf(traceOf("random, padded").frames, one.q.at).padding.length);
  const dummy = writesOf(traceOf("random, padded").frames, padded.q.at).padding[0];
  const verdict = padded.at([...padded.q.answer, dummy]);
  assert.equal(verdict.right, true);
  assert.match(verdict.notes.at(-1).text, /It does not count/);
  assert.match(told(padded.at([...padded.q.answer, dummy + 1]))[1], /but padding does not write there/);
  assert.deepEqual([padding, at([]).right], [[], false]);
});

test("which pages are evicted: why one stays, why one goes", () => {
  const { q, at } = of("busy", "evict", 6);
  assert.deepEqual(q.answer, [14]);
  assert.deepEqual(told(at([14])), ["Page starts: right, these and no others.", "right: “␣z␣u” (slots 14–15) goes: of the leaves with ref_count 0 it was used longest ago, at time 12."]);
  assert.deepEqual(told(at([0, 6, 12, 20])), [
    "Page starts: 0 of 1 right, 1 missing, 4 wrong.",
    "wrong: “␣a␣b” (slots 0–1) stays: it is locked by r1.",
    "wrong: Page start 6 is r4’s own, not in the tree: only the tree’s leaves are evicted.",
    "wrong: “␣x␣y” (slots 12–13) stays: it had children until now, and no more pages are missing.",
    "wrong: Page start 20 is the dummy page: it is never in the tree.",
    "missing: “␣z␣u” (slots 14–15) goes: of the leaves with ref_count 0 it was used longest ago, at time 12.",
  ]);
  assert.equal(at([15]).right, true, "any slot of a page means the page");
});

test("how long a hit is: told with the reason", () => {
  const { at } = of("busy", "hit", 3);
  assert.deepEqual(told(at([2]))[0], "r3’s hit: 2, right.");
  assert.deepEqual(told(at([3])), ["r3’s hit: 2, not 3.", ": The first 2 tokens agree with the tree.", ": At position 2 the prompt has “␣x”, the tree “␣c”."]);
});

test("nothing is asked where nothing can be told beforehand", () => {
  const { trace } = runs.busy;
  const replay = new Replay(trace);
  trace.frames.forEach((frame, index) => {
    const kinds = questionsAt(trace, index, replay.at(index - 1)).map((q) => q.kind);
    if (!["admit", "evict", "allocate", "prepare"].includes(frame.phase)) assert.deepEqual(kinds, [], frame.phase);
    if (frame.phase === "prepare" && trace.frames[index - 1].phase === "allocate") assert.deepEqual(kinds, [], "it was asked before the pages were taken");
  });
  assert.deepEqual(questionsAt(trace, 1, replay.at(0)), [], "an empty tree has no hit to guess");
  assert.equal(trace.frames[7].admit[0].uid, 2);
  assert.deepEqual(questionsAt(trace, 7, replay.at(6)), [], "a later chunk is not matched again");
  assert.ok(questions(traceOf("random, naive")).every(({ q }) => q.kind === "slots" || q.kind === "pages"));
  assert.ok(questions(traceOf("random, P = 1")).every(({ q }) => q.kind !== "pages"));
});

test("planted: a record whose out_loc is another has another right answer", () => {
  const trace = structuredClone(runs.busy.trace);
  const at = trace.frames.findIndex((frame) => frame.phase === "prepare" && frame.turn === 4);
  trace.frames[at].batch_info.out_loc = [[18, 1], [15, 1]];
  const found = questions(trace).find(({ q }) => q.kind === "slots" && trace.frames[q.at].turn === 4);
  assert.deepEqual(found.q.answer, [15, 18]);
  assert.equal(found.at([15, 16]).right, false);
});

test("numbers as they are typed", () => {
  const slots = (text) => parseSlots(text, 22);
  assert.deepEqual(slots("5, 8–11 13"), { slots: [5, 8, 9, 10, 11, 13], bad: "" });
  assert.deepEqual(slots(" 3 - 5;3,4 "), { slots: [3, 4, 5], bad: "" });
  assert.deepEqual(slots(""), { slots: [], bad: "" });
  for (const [text, bad] of [["5, x", "x"], ["9-7", "9-7"], ["22", "22"], ["1.5", "1.5"], ["-3", "-3"], ["0-99999999999", "0-99999999999"]]) {
    assert.deepEqual(slots(text), { slots: [], bad }, text);
  }
});

test("the score counts first answers", () => {
  assert.deepEqual(scoreOf({ a: 1, b: 0, c: 1 }), { right: 2, all: 3 });
  assert.deepEqual(scoreOf({}), { right: 0, all: 0 });
});
