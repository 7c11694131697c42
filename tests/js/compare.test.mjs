// Two runs: where they first differ, as Python says; a common timeline; what differs in two states.
import assert from "node:assert/strict";
import { test } from "node:test";
import { pairs } from "./words.mjs";
import { align, differences, differs, eventKeys, firstDifference, firstShown, matchKeys, same, sameEvent, stepKeys, summary } from "../../minisgl_lite/viz/static/compare.js";
import { differenceWords } from "../../minisgl_lite/viz/static/compare_view.js";
import { createPlayer } from "../../minisgl_lite/viz/static/player.js";

/** Views of both runs of a pair. */
function players(name) {
  const made = pairs[name].traces.map((trace) => createPlayer(trace));
  made.forEach((player) => player.stop());
  return made;
}
const frames = (name) => pairs[name].traces.map((trace) => trace.frames);

for (const [name, { difference, slots }] of Object.entries(pairs)) {
  test(`${name}: the first difference is Python's`, () => {
    assert.deepEqual(firstDifference(...frames(name)), difference);
  });

  test(`${name}: the slots that differ are Python's`, () => {
    const [one, two] = players(name);
    for (const [i, j, wanted] of slots) {
      const [a, b] = [one.view(i, -1), two.view(j, -1)];
      const { slot } = differences(a, b);
      const total = Math.min(...[a, b].map((view) => view.state.N * view.state.P));
      const found = Array.from({ length: total }, (_, n) => n).filter(slot);
      assert.deepEqual(found, wanted, `frames ${i} and ${j}`);
      assert.equal(summary(a, b).slots, wanted.length);
    }
  });

  for (const by of ["step", "event"]) {
    test(`${name}: by ${by}, the common timeline passes every frame of both once, in order`, () => {
      const [left, right] = frames(name);
      const stops = align(left, right, by);
      let [a, b] = [-1, -1];
      for (const stop of stops) {
        assert.ok(stop.a - a <= 1 && stop.b - b <= 1 && stop.a >= a && stop.b >= b, JSON.stringify(stop));
        assert.ok(stop.a + stop.b > a + b, "something moves at every stop");
        ({ a, b } = stop);
      }
      assert.deepEqual([a, b], [left.length - 1, right.length - 1]);
    });
  }
}

for (const name of Object.keys(pairs)) {
  for (const by of ["step", "event"]) {
    test(`${name}: by ${by}, the first difference is the earliest stop that shows one`, () => {
      const [one, two] = players(name);
      const stops = align(...frames(name), by);
      const look = ({ a, b }) => [one.view(a, -1), two.view(b, -1)];
      const found = firstShown(pairs[name].traces, stops, look);
      assert.equal(found, stops.findIndex((stop) => differs(summary(...look(stop)))));
      if (name === "equal") assert.equal(found, -1);
      else assert.ok(found >= 0);
    });
  }
}

test("a page that is taken elsewhere is told before the token that comes out differently", () => {
  const [one, two] = players("another token");
  const stops = align(...frames("another token"), "step");
  const found = firstShown(pairs["another token"].traces, stops, ({ a, b }) => [one.view(a, -1), two.view(b, -1)]);
  assert.ok(stops[found].a <= firstDifference(...frames("another token")).left_frame);
});

test("the same ids that stand for other words are a difference, and the words are said", () => {
  const [trace] = pairs.equal.traces;
  const id = trace.frames.find((frame) => frame.tokens).tokens[0][1];
  const other = { ...trace, vocab: { ...trace.vocab, [id]: "2078" } };
  const made = [trace, other].map((one) => createPlayer(one));
  made.forEach((player) => player.stop());
  const look = ({ a, b }) => [made[0].view(a, -1), made[1].view(b, -1)];
  const stops = align(trace.frames, other.frames, "step");
  const found = firstShown([trace, other], stops, look);
  assert.equal(found, trace.frames.findIndex((frame) => frame.tokens));
  const [a, b] = look(stops[found]);
  assert.match(differenceWords(summary(a, b), [a.state, b.state], ["one", "two"]), /r1 “␣and” \| “␣x”/);
});

test("a fault that one run alone has is a difference, and is named", () => {
  const [trace] = pairs.equal.traces;
  const faulty = { ...trace, frames: trace.frames.map((frame, i) => (i === 6 ? { ...frame, fault: { kind: "stale-read", text: "x" } } : frame)) };
  const made = [trace, faulty].map((one) => createPlayer(one));
  made.forEach((player) => player.stop());
  const look = ({ a, b }) => [made[0].view(a, -1), made[1].view(b, -1)];
  const stops = align(trace.frames, faulty.frames, "step");
  const found = firstShown([trace, faulty], stops, look);
  assert.equal(found, 6);
  const [a, b] = look(stops[found]);
  assert.equal(differenceWords(summary(a, b), [a.state, b.state], ["good", "bad"]), "Here good | bad differ: a fault in bad alone.");
});

test("equal runs stand at the same frame at every stop", () => {
  for (const by of ["step", "event"]) for (const { a, b } of align(...frames("equal"), by)) assert.equal(a, b);
});

test("by step, both runs are in the same turn whenever both have one", () => {
  const [left, right] = frames("P = 1 | 4");
  for (const { a, b } of align(left, right, "step")) {
    if (a >= 0 && b >= 0 && a < left.length - 1 && b < right.length - 1) assert.ok(Math.abs(left[a].turn - right[b].turn) <= 1);
  }
});

test("by event, a token of the overlapped run stands beside the same token of the other", () => {
  const [left, right] = frames("overlap off | on");
  const stops = align(left, right, "event");
  const at = (list, uid) => list.findIndex((f) => f.tokens?.some((t) => t[0] === uid && t[3]));
  const [a, b] = [at(left, 2), at(right, 2)];
  assert.ok(stops.some((stop) => stop.a === a && stop.b === b));
  assert.notEqual(left[a].turn, right[b].turn, "a turn later");
});

test("a tree node with another lock or another time of use is said, though everything else is equal", () => {
  const labels = ["one", "two"];
  const [one, two] = players("equal");
  const index = frames("equal")[0].length - 1;
  const [a, b] = [one.view(index, -1), two.view(index, -1)];
  const words = () => differenceWords(summary(a, b), [a.state, b.state], labels);
  assert.match(words(), /do not differ/);
  const id = [...b.state.tree.keys()].at(-1);
  const node = b.state.tree.get(id);
  b.state.tree.set(id, { ...node, time: node.time + 1 });
  assert.match(words(), /when 1 tree node was last used/);
  b.state.tree.set(id, { ...node, ref: node.ref + 1 });
  assert.match(words(), /differ: 1 tree node\./);
});

test("keys are unique within a run", () => {
  for (const list of frames("budget")) {
    for (const keys of [stepKeys(list), eventKeys(list)]) assert.equal(new Set(keys.flat()).size, keys.flat().length);
  }
});

test("matching takes the longest list that goes forward in both", () => {
  assert.deepEqual(matchKeys([["a"], ["b"], ["c"]], [["c"], ["a"], ["b"]]), [[0, 1], [1, 2]]);
  assert.deepEqual(matchKeys([["a", "b"], ["c"]], [["b"], ["a"], ["c"]]), [[0, 0], [1, 2]]);
  assert.deepEqual(matchKeys([["a"]], [["b"]]), []);
  assert.deepEqual(matchKeys([], [["b"]]), []);
});

test("the place in another run is the same event, or the last one both have", () => {
  const [left, right] = frames("P = 1 | 4");
  const first = left.findIndex((f) => f.phase === "release" && f.release[0].finished);
  assert.equal(right[sameEvent(left, first, right)].phase, "release");
  assert.equal(sameEvent(left, first, left), first);
  const only = left.findIndex((f, i) => f.phase === "allocate" && !eventKeys(left)[i].some((key) => eventKeys(right).flat().includes(key)));
  assert.ok(only > 0, "a page of one token is taken where no page of four is");
  const there = sameEvent(left, only, right);
  assert.ok(there >= 0 && there < right.length);
  assert.equal(sameEvent(left, 5, []), -1);
  assert.equal(sameEvent(left, -1, right), -1);
});

test("a difference is the other's difference, too", () => {
  const [one, two] = players("naive | radix");
  const [a, b] = [one.view(one.last(), -1), two.view(two.last(), -1)];
  const [here, there] = [differences(a, b), differences(b, a)];
  for (let i = 0; i < 32; i++) assert.equal(here.slot(i), there.slot(i));
  for (let row = 0; row < 4; row++) for (let pos = 0; pos < 16; pos++) assert.equal(here.cell(row, pos), there.cell(row, pos));
  assert.equal(there.node(0), false, "both have a root");
  assert.ok([...b.state.tree.keys()].slice(1).every((id) => there.node(id)), "the naive cache has no other node");
});

test("what is the same is no matter of the order of entries", () => {
  assert.ok(same({ a: 1, b: [1, { c: null }] }, { b: [1, { c: null }], a: 1 }));
  for (const [a, b] of [[{}, []], [[1], [1, 2]], [{ a: 1 }, { b: 1 }], [null, {}], [0, null], ["1", 1]]) assert.ok(!same(a, b));
});
