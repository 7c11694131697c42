// Why: what a frame decided, from the state before it. The rules are worked out anew; where the record goes another way,
// nothing is explained.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { decisions, runs } from "./words.mjs";
import { Replay, slotRoom, slotStates } from "../../minisgl_lite/viz/static/replay.js";
import { agreement, hitOf, holdersOf, leastRecent, stillNeeded } from "../../minisgl_lite/viz/static/rules.js";
import { tokenTexts } from "../../minisgl_lite/viz/static/tokens.js";
import { unpack } from "../../minisgl_lite/viz/static/unpack.js";
import { asksWhy, slotCard, whyCards } from "../../minisgl_lite/viz/static/why.js";

const plain = (text) => text.replace(/[\u2068\u2069]/g, "");
const traceOf = (name) => unpack(structuredClone(decisions[name].trace));

/** Every card of a trace, with its frame. */
function cardsOf(trace, meta = trace.meta) {
  const [behind, replay] = [new Replay(trace), new Replay(trace)];
  const tokens = tokenTexts(trace.vocab, trace.meta.special);
  return trace.frames.flatMap((frame, index) => {
    const facts = { trace, meta, index, frame, before: behind.at(index - 1), state: replay.at(index), tokens };
    return whyCards(facts).map(({ question, lines }) => ({ index, frame, question: plain(question), lines: lines.map(plain) }));
  });
}
/** The lines of the card with this question; of several, of the last. */
function answer(name, question) {
  const cards = cardsOf(traceOf(name)).filter((card) => card.question === question);
  assert.ok(cards.length, `${question}\n${cardsOf(traceOf(name)).map((card) => card.question).join("\n")}`);
  return cards.at(-1).lines;
}

test("a hit ends at the last token, which is always computed", () => {
  assert.deepEqual(answer("last, P = 1", "Why is r2’s hit 2 tokens long?"), [
    "All 3 prompt tokens are in the tree. But the last one is always computed: its logits choose the first output. So 2 may match.",
  ]);
  assert.deepEqual(answer("last, P = 4", "Why is r2’s hit 4 tokens long?"), [
    "All 8 prompt tokens are in the tree. But the last one is always computed: its logits choose the first output. So 7 may match.",
    "Only whole pages match: of 7 tokens that is 4, with P = 4.",
  ]);
});

test("a hit ends at a page's border, with the tokens by name", () => {
  assert.deepEqual(answer("end", "Why is r2’s hit 4 tokens long?"), [
    "All 6 prompt tokens are in the tree. Only whole pages match, with P = 4: the last 2 fill none.",
  ]);
  assert.deepEqual(answer("border", "Why is r2’s hit 4 tokens long?"), [
    "The first 6 tokens agree with the tree.",
    "At position 6 the prompt has “␣x”, the tree “␣g”.",
    "Only whole pages match, with P = 4: of page [4, 8) the first 2 agree, so the hit ends at its border, 4.",
  ]);
});

test("a hit that is as long as the prompt allows ends there, whatever differs behind it", () => {
  assert.deepEqual(answer("most", "Why is r2’s hit 4 tokens long?"), [
    "The first 4 tokens agree with the tree.",
    "A prompt of 5 tokens can have no longer hit: its last token is always computed, because its logits choose the first output.",
  ]);
});

test("a hit ends at the first token that differs", () => {
  const card = cardsOf(runs.busy.trace).find((one) => one.question === "Why is r3’s hit 2 tokens long?");
  assert.deepEqual(card.lines, ["The first 2 tokens agree with the tree.", "At position 2 the prompt has “␣x”, the tree “␣c”."]);
});

test("two of one batch: the second finds nothing, because the first is not in the tree yet", () => {
  assert.deepEqual(answer("twin", "Why is r1’s hit 0 tokens long?"), ["The tree is empty: nothing has been registered yet."]);
  assert.match(answer("twin", "Why is r2’s hit 0 tokens long?")[1], /^r1 begins with the same 8 tokens, but not all of them are in the tree yet/);
});

test("a refusal for pages: need, promised, available, and the sum", () => {
  const card = cardsOf(runs.busy.trace).find((one) => one.question === "Why does r4 wait?");
  assert.deepEqual(card.lines, [
    "It needs 12 tokens of room: 10 of its prompt and 2 to come, in whole pages of 2.",
    "14 can be had: 14 in 7 free pages, 0 by eviction.",
    "8 of them are promised to others (r1: 2, r3: 6).",
    "12 + 8 > 14: 6 are missing.",
  ]);
});

test("a refusal that only the lock explains", () => {
  const [first] = cardsOf(traceOf("lock")).filter((card) => card.question === "Why does r3 wait?");
  assert.deepEqual(first.lines, [
    "It needs 6 tokens of room: 5 of its prompt and 5 to come are 10 in whole pages of 2; 4 of them are a hit.",
    "10 can be had: 6 in 3 free pages, 4 by eviction.",
    "4 of them are promised to others (r2: 4).",
    "But its own hit would be locked first, so 4 of these could not be evicted any more: 6 + 4 > 6.",
  ]);
});

test("waiting for a row, and for the budget", () => {
  assert.deepEqual(answer("rows", "Why does r2 wait?"), ["The only table row is taken by r1."]);
  const all = cardsOf(traceOf("budget"));
  assert.deepEqual(all.find((card) => card.question === "Why does r3 wait?").lines, ["The step’s budget of 4 prompt tokens went to r1, r2."]);
  assert.deepEqual(all.find((card) => card.question === "Why does r2 take in 1 of the 2 tokens that are left?").lines, [
    "A step computes at most 4 prompt tokens, the budget: r1 took 3, which left 1 for r2.",
  ]);
});

test("who is evicted and who is not: time, lock, leaf", () => {
  const [first, second, third, fourth] = cardsOf(runs.busy.trace).filter((card) => card.frame.phase === "evict");
  assert.deepEqual(first.lines, [
    "Pages needed: 1. Free: 0. Missing: 1.",
    "“␣z␣u” (slots 14–15) goes: of the leaves with ref_count 0 it was used longest ago, at time 12.",
    "“␣c␣d␣e␣f” (slots 2–5) stays: it is locked by r1.",
    "“␣a␣b” (slots 0–1) stays: it is locked by r1.",
    "“␣x␣y” (slots 12–13) stays: it had children until now, and no more pages are missing.",
  ]);
  assert.equal(second.question, "Why is this node evicted?");
  assert.equal(third.question, "Why are these 2 nodes evicted?");
  assert.ok(third.lines.includes("“␣c␣d␣e␣f” (slots 2–5) goes next: its children are gone, so it is a leaf now, used at time 16."));
  assert.ok(third.lines.some((line) => line.endsWith("stays: it was used later, at time 18.")));
  assert.ok(fourth.lines.includes("A node goes whole, so 6 pages come back where 2 would do."));
});

test("who takes a page and who does not", () => {
  const card = cardsOf(runs.busy.trace).find((one) => one.frame.phase === "allocate" && one.frame.turn === 4);
  assert.deepEqual([card.question, ...card.lines], [
    "Why is 1 page taken?",
    "r1: position 6 = 3 × 2 begins logical page 3 of its row: it takes page start 16, the head of free_slots.",
    "r3: position 5 lies in logical page 2 of its row, [4, 6), which it has.",
  ]);
  const none = cardsOf(runs.overlapped.trace).find((one) => one.frame.phase === "prepare");
  assert.deepEqual([none.question, none.lines[0]], ["Why is no page taken?", "r1: position 5 lies in logical page 1 of its row, [4, 8), which it has."]);
});

// ---- held against what the engine did, over all runs ------------------------------------------------

const every = [...Object.keys(decisions).map((name) => [name, traceOf(name)]), ["busy", runs.busy.trace], ["overlapped", runs.overlapped.trace]];

test("every decision of every run is explained: the rules found anew are the engine's", () => {
  const seen = new Set();
  for (const [name, trace] of every) {
    const cards = cardsOf(trace);
    trace.frames.forEach((frame, index) => {
      const here = cards.filter((card) => card.index === index);
      const wanted = (frame.admit?.length ?? 0) + (frame.refuse ? 1 : 0) + (frame.phase === "evict" ? 1 : 0) + (frame.alloc && frame.phase === "allocate" ? 1 : 0) + (frame.phase === "release" ? frame.release.length : 0);
      assert.ok(here.length >= wanted, `${name}, frame ${index}: ${here.length} of ${wanted}`);
      assert.equal(asksWhy(frame), wanted > 0, `${name}, frame ${index}`);
      for (const line of here.flatMap((card) => [card.question, ...card.lines])) {
        assert.doesNotMatch(line, /\{\w+\}|\[why|undefined|NaN|^\d+ can be had\.$|promised to others\.$/, `${name}, frame ${index}`);
      }
      if (here.length) seen.add(frame.phase);
    });
  }
  assert.deepEqual([...seen].sort(), ["admit", "allocate", "evict", "prepare", "release"]);
});

test("a release: where each range goes, and why", () => {
  const frame = (ranges, finished) => ({ phase: "release", release: [{ uid: 1, finished, ranges }] });
  const ask = (ranges, finished, cache_type = "radix") => whyCards({ frame: frame(ranges, finished), meta: { page_size: 4, cache_type } });
  const ranges = [["matched", 0, 4, []], ["duplicate", 4, 8, []], ["registered", 8, 12, []], ["tail", 12, 16, []]];
  const [{ question, lines }] = ask(ranges, true);
  assert.equal(question, "r1 ends. Where does each of its slots go, and why?");
  assert.deepEqual(lines.map((line) => line.split(":")[0]), ["[0, 4)", "[4, 8)", "[8, 12)", "[12, 16)"]);
  assert.match(lines[3], /no whole page of P = 4/);
  assert.match(ask([["kept", 12, 16, []]], false)[0].lines[0], /keeps it and goes on writing/);
  assert.match(ask([["tail", 0, 9, []]], true, "naive")[0].lines[0], /keeps nothing, so all is freed/);
  // More than the rest of a page in the tail is not what the rule does: nothing is explained.
  assert.deepEqual(ask([["tail", 12, 20, []]], true), []);
});

test("a fault has a card for each kind that the sanitizer names", () => {
  const source = readFileSync(new URL("../../minisgl_lite/trace/faults.py", import.meta.url), "utf8");
  const kinds = source.match(/Kinds: ([^.]*)\./)[1].match(/[a-z-]+(?=")/g);
  assert.ok(kinds.length > 10);
  for (const kind of kinds) {
    const [{ question, lines }] = whyCards({ frame: { phase: "forward", fault: { kind, text: "step 3, layer 0: r2 reads slot 12" } }, meta: {} });
    assert.equal(question, "What is wrong here?");
    assert.equal(lines[0], "layer 0: r2 reads slot 12.");
    assert.equal(lines.length, 2, `${kind} has no words of its own`);
  }
});

test("the card of several faults tells five more, and how many there are", () => {
  const fault = (slot) => ({ kind: "stale-read", text: `step 3, layer 0: r2 reads slot ${slot}`, slot });
  const more = Array.from({ length: 7 }, (_, i) => fault(i + 1));
  const [{ lines }] = whyCards({ frame: { phase: "forward", fault: fault(0), more_faults: more }, meta: {} });
  assert.equal(lines.length, 2 + 5 + 1);
  assert.equal(lines[2], "layer 0: r2 reads slot 1.");
  assert.match(lines[7], /^And 2 more/);
});

test("the pinned slot: what holds it, and what would free it", () => {
  const tally = new Set();
  for (const [name, trace] of every) {
    const replay = new Replay(trace);
    const room = slotRoom((trace.meta.num_pages + 1) * trace.meta.page_size);
    const tokens = tokenTexts(trace.vocab);
    trace.frames.forEach((frame, index) => {
      const state = replay.at(index);
      const view = { state, slots: slotStates(state, room), meta: trace.meta, tokens };
      for (let slot = 0; slot < state.N * state.P; slot++) {
        const card = slotCard(view, slot);
        assert.ok(card, `${name}, frame ${index}, slot ${slot}`);
        const words = plain(card.lines.join(" "));
        assert.doesNotMatch(words, /\{\w+\}|undefined/);
        for (const key of ["evicted next", "would be evicted before", "locked by", "locked 2 times", "taken next", "before it in free_slots", "It is full", "It is not full", "keeps nothing", "its children|they go first"]) {
          if (new RegExp(key).test(words)) tally.add(key);
        }
      }
      assert.equal(slotCard(view, state.N * state.P), null); // the dummy page is nobody's question
    });
  }
  assert.ok(tally.size >= 9, [...tally].join(", "));
});

// ---- planted: a record that goes another way --------------------------------------------------------

test("planted: a hit longer or shorter than the rules allow has no card", () => {
  for (const by of [-4, 4]) {
    const trace = traceOf("border");
    const frame = trace.frames.filter((one) => one.admit).at(-1);
    frame.admit[0].matched += by;
    assert.equal(cardsOf(trace).filter((card) => card.frame === frame && card.question.includes("hit")).length, 0);
  }
});

test("planted: another node is evicted than the least recently used leaf: no card", () => {
  const trace = structuredClone(runs.busy.trace);
  const at = trace.frames.findIndex((frame) => frame.phase === "evict");
  const [ours, later] = [trace.frames[at].tree[0][1], trace.frames.slice(at + 1).find((frame) => frame.phase === "evict").tree[0][1]];
  const before = new Replay(trace).at(at - 1);
  assert.deepEqual(leastRecent(before.tree, 2), [ours]);
  before.tree.get(ours).time = 1e6;
  const frame = trace.frames[at];
  const facts = { trace, meta: trace.meta, index: at, frame, before, state: before, tokens: tokenTexts({}) };
  assert.deepEqual(leastRecent(before.tree, 2), [ours]); // still the only leaf that nobody holds
  before.tree.get(later).children = [];
  assert.deepEqual(leastRecent(before.tree, 2), [later]);
  assert.deepEqual(whyCards(facts), []);
});

test("planted: numbers of a refusal that do not add up are told bare, not explained", () => {
  const trace = structuredClone(runs.busy.trace);
  Object.assign(trace.frames.find((frame) => frame.refuse).refuse, { need: 14, reserved: 10, available: 12 });
  const card = cardsOf(trace).find((one) => one.question === "Why does r4 wait?");
  assert.deepEqual(card.lines, ["It needs 14 tokens of room.", "12 can be had.", "10 of them are promised to others.", "14 + 10 > 12: 12 are missing."]);
});

test("planted: a page taken where the last one has room, or for nobody, has no card", () => {
  const trace = structuredClone(runs.busy.trace);
  const at = trace.frames.findIndex((frame) => frame.phase === "allocate" && frame.turn === 4);
  trace.frames[at].alloc[0][2]++;
  assert.equal(cardsOf(trace).filter((card) => card.index === at).length, 0);
});

test("planted: a budget that was not used up, rows that are free: no cards of them", () => {
  const trace = traceOf("budget");
  assert.ok(cardsOf(trace).some((card) => card.question.includes("tokens that are left")));
  const more = cardsOf(trace, { ...trace.meta, budget: 5 });
  assert.equal(more.filter((card) => /tokens that are left|wait/.test(card.question)).length, 0);
  const rows = traceOf("rows");
  assert.equal(cardsOf(rows, { ...rows.meta, rows: 2 }).filter((card) => card.question.includes("wait")).length, 0);
});

// ---- parts --------------------------------------------------------------------------------------------

test("the rule of the hit, against plain counting", () => {
  for (const P of [1, 2, 4]) {
    for (let length = 1; length <= 13; length++) {
      for (let same = 0; same <= length; same++) {
        let hit = 0;
        while (hit + P <= same && hit + P <= length - 1) hit += P;
        assert.equal(hitOf(same, length, P).hit, hit, `P ${P}, ${same} of ${length}`);
      }
    }
  }
});

test("agreement goes down every branch, token by token", () => {
  const node = (id, parent, key, children) => [id, { id, parent, key, children, ref: 0, time: id, value: key }];
  const tree = new Map([node(0, null, [], [1, 4]), node(1, 0, [1, 2, 3, 4], [2, 3]), node(2, 1, [5, 6], []), node(3, 1, [5, 7], []), node(4, 0, [1, 2, 9, 9], [])]);
  assert.deepEqual(agreement(tree, [1, 2, 3, 4, 5, 8]), { same: 5, others: [6, 7] });
  assert.deepEqual(agreement(tree, [1, 2, 8]), { same: 2, others: [3, 9] });
  assert.deepEqual(agreement(tree, [1, 2, 9, 5]), { same: 3, others: [9] }); // the deeper one counts, whichever is seen first
  assert.deepEqual(agreement(tree, [7]), { same: 0, others: [1] });
  assert.deepEqual(agreement(tree, [1, 2, 3, 4, 5, 6, 1]), { same: 6, others: [] });
  assert.equal(agreement(tree, [1, 2, 3]).same, 3);
});

test("promises count whole pages, and not the last token", () => {
  assert.equal(stillNeeded({ max_device_len: 9, cached_len: 3 }, 4), 4);
  assert.equal(stillNeeded({ max_device_len: 10, cached_len: 3 }, 4), 8);
  assert.equal(stillNeeded({ max_device_len: 5, cached_len: 4 }, 4), 0);
});

test("who holds a node: those whose path runs through it", () => {
  const replay = new Replay(runs.busy.trace);
  const state = replay.at(14); // r3 has just hit what r1 holds
  assert.deepEqual(holdersOf(state, 2).sort(), [1, 3]);
  assert.deepEqual(holdersOf(state, 1), [1]);
});
