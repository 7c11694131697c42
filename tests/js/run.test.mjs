// Events and their names, the survey of a run, moves on the timeline, a slot's life, the tree's order.
import assert from "node:assert/strict";
import { test } from "node:test";
import { decisions, runs } from "./words.mjs";
import { eventList, findEvent, turnEnds } from "../../minisgl_lite/viz/static/events.js";
import { laneFrames } from "../../minisgl_lite/viz/static/lanes.js";
import { Replay, currentBatch, slotRoom, slotStates } from "../../minisgl_lite/viz/static/replay.js";
import { survey } from "../../minisgl_lite/viz/static/run.js";
import { slotLife } from "../../minisgl_lite/viz/static/selected.js";
import { moved } from "../../minisgl_lite/viz/static/timeline.js";
import { unpack } from "../../minisgl_lite/viz/static/unpack.js";
import { say } from "../../minisgl_lite/viz/static/words.js";
import { nextEvicted, treeChanges, treeRows } from "../../minisgl_lite/viz/static/tree.js";

for (const [name, { trace, events }] of Object.entries(runs)) {
  test(`${name}: names of events lead where Python's find leads`, () => {
    for (const [event, index] of Object.entries(events)) assert.equal(findEvent(trace.frames, event), index, event);
  });
}

test("what is no event's name is not found", () => {
  for (const name of ["", "first-decode:", "turn", "token:r1", "r1", "evict#0", "constructor"]) {
    assert.equal(findEvent(runs.busy.trace.frames, name), -1, name);
  }
});

for (const [name, { trace }] of Object.entries(runs)) {
  test(`${name}: a lane has the frames in which its word happens`, () => {
    const lanes = Object.fromEntries(laneFrames(trace.frames, survey(trace)).map((lane) => [lane.name, lane.at]));
    const phase = (wanted) => trace.frames.flatMap((frame, i) => (frame.phase === wanted ? [i] : []));
    for (const word of ["evict", "abort"]) assert.deepEqual(lanes[word], phase(word), word);
    // Whoever ends gives its table row back there: at its release, or when it is aborted.
    const rows = trace.frames.flatMap((frame, i) => (Object.values(frame.reqs ?? {}).some((req) => req.row === null) ? [i] : []));
    assert.deepEqual(lanes.release, rows.filter((i) => trace.frames[i].release));
    for (const kind of ["prefill", "decode"]) assert.ok(lanes[kind].every((i) => trace.frames[i].batch_info.phase === kind));
    assert.equal(lanes.prefill.length + lanes.decode.length, trace.frames.filter((frame) => frame.batch_info).length);
  });
}

test("the list of events has one of each kind that happened", () => {
  const kinds = new Set(eventList(runs.busy.trace.frames).map((event) => event.kind));
  assert.deepEqual([...kinds].sort(), ["abort", "admit", "chunk", "evict", "finish", "refuse", "reject", "split"]);
});

test("the survey fixes the geometry: rows, columns, free pages", () => {
  const run = survey(runs.busy.trace);
  assert.deepEqual(run.rows, [0, 1, 2, 3, 4]); // the dummy's is the last
  assert.equal(run.cols, 16);
  assert.equal(run.dummy, true);
  assert.deepEqual(run.free, runs.busy.states.map((state) => state.free.length));
  assert.equal(run.reqs, runs.busy.trace.frames.flatMap((f) => Object.values(f.reqs ?? {})).filter((r) => r.state === "waiting").length + 1);
});

test("the survey knows in which frame K/V first gets into a slot", () => {
  for (const { trace, states } of Object.values(runs)) {
    const { stored } = survey(trace);
    stored.forEach((at, slot) => assert.equal(at, states.findIndex(({ written }) => written.includes(slot)), `slot ${slot}`));
  }
});

test("an empty run can be surveyed: a live view begins so", () => {
  const run = survey({ ...runs.busy.trace, frames: [] });
  assert.deepEqual([run.ends, run.events, run.free], [[], [], []]);
  assert.ok(run.cols >= 16 && run.rows.length === 4);
});

test("moves by sub-step, step and event", () => {
  const { frames } = runs.busy.trace;
  const run = survey(runs.busy.trace);
  const n = frames.length;
  assert.equal(moved(run, n, 3, "sub", 1), 4);
  assert.equal(moved(run, n, 0, "sub", -1), 0);
  assert.equal(moved(run, n, n - 1, "sub", 1), n - 1);
  const ends = turnEnds(frames);
  assert.equal(moved(run, n, 0, "turn", 1), ends[0]);
  assert.equal(moved(run, n, ends[0], "turn", 1), ends[1]);
  assert.equal(moved(run, n, ends[1], "turn", -1), ends[0]);
  assert.equal(moved(run, n, ends[0], "turn", -1), 0);
  assert.equal(moved(run, n, 0, "event", 1), run.events.find((e) => e.index > 0).index);
  assert.equal(moved(run, n, n - 1, "event", 1), n - 1);
});

test("the life of a slot: taken, written, read, registered, locked, reused, shared, unlocked, evicted", () => {
  const life = slotLife(runs.busy.trace, 0);
  assert.deepEqual(life.map((item) => item.key.replace("life.", "")), [
    "taken", "written", "read.many", "registered", "locked", "hit", "shared", "read.many", "unlocked", "evicted", // for r1 and r3
    "taken", "written", "read.many", "registered", "locked", "unlocked",
  ]);
  assert.deepEqual(life[2].values, { uid: 1, n: 3, last: 7 });
  assert.deepEqual(life[6].values, { who: "r1, r3" });
  for (const item of life) assert.doesNotMatch(say(item.key, item.values), /[{}[\]]/);
  const written = slotLife(runs.busy.trace, 7).find((item) => item.key === "life.written");
  assert.deepEqual(written.values, { uid: 2, pos: 1 });
  const dummy = slotLife(runs.busy.trace, 20).map((item) => item.key);
  assert.deepEqual([...new Set(dummy)], ["life.written"]); // the dummy page is never taken
});

const all = [...Object.entries(runs), ...Object.entries(decisions).map(([name, run]) => [name, { trace: unpack(structuredClone(run.trace)) }])];
for (const [name, { trace }] of all) {
  test(`${name}: what a slot's life says of reads, locks and holders is what the replay finds`, () => {
    const replay = new Replay(trace);
    const total = trace.meta.num_pages * trace.meta.page_size;
    const room = slotRoom(total + trace.meta.page_size);
    const seen = Array.from({ length: total }, () => ({ reads: [], locked: [], shared: [] }));
    const was = Array.from({ length: total }, () => ({ ref: 0, node: -1, holders: [] }));
    trace.frames.forEach((frame, i) => {
      const state = replay.at(i);
      slotStates(state, room);
      for (let slot = 0; slot < total; slot++) {
        const ref = room.node[slot] >= 0 ? state.tree.get(room.node[slot]).ref : 0;
        if (!was[slot].ref !== !ref) seen[slot].locked.push(i);
        const holders = [...state.reqs.values()].filter((r) => r.row !== null && state.rows[r.row].subarray(0, r.alloc_end).includes(slot)).map((r) => r.uid);
        if (holders.length > 1 && holders.some((uid) => !was[slot].holders.includes(uid))) seen[slot].shared.push(i);
        was[slot] = { ref, holders };
        if (frame.stored) for (const [uid, slots] of currentBatch(state).reads) if (slots.includes(slot)) seen[slot].reads.push(uid);
      }
    });
    for (let slot = 0; slot < total; slot++) {
      const life = slotLife(trace, slot);
      const reads = life.filter((item) => item.key.startsWith("life.read")).flatMap(({ values }) => new Array(values.n).fill(values.uid));
      assert.deepEqual(reads.sort(), seen[slot].reads.sort(), `reads of slot ${slot}`);
      const at = (keys) => life.filter((item) => keys.includes(item.key)).map((item) => item.index);
      assert.deepEqual(at(["life.locked", "life.unlocked"]), seen[slot].locked, `locks of slot ${slot}`);
      assert.deepEqual(at(["life.shared"]), seen[slot].shared, `holders of slot ${slot}`);
    }
  });
}

test("a recorder that came late: what it found is told as found, not as taken", () => {
  const start = {
    turn: 3, phase: "receive", reqs: { 1: { state: "decode", row: 0 } }, table: [[0, 0, [[0, 2], [4, 2]]]], alloc: [[1, 1, 2, [4]]],
    tree: [["add", 1, 0, [7, 8], [[0, 2]], 5], ["ref", 1, 1]], free: { take: 4, put: [2, 6] },
  };
  const late = { meta: { page_size: 2 }, frames: [start] };
  assert.deepEqual(slotLife(late, 1).map((item) => item.key), ["life.found.tree", "life.locked"]);
  assert.deepEqual(slotLife(late, 5).map((item) => item.key), ["life.found.own"]);
  assert.deepEqual(slotLife(late, 6), []);
});

test("the tree is told from the root down, and the next to be evicted is an unlocked leaf", () => {
  const { trace } = runs.busy;
  const replay = new Replay(trace);
  for (let i = 0; i < trace.frames.length; i++) {
    const { tree } = replay.at(i);
    const rows = treeRows(tree);
    assert.equal(rows.length, tree.size);
    assert.equal(rows[0].node.id, 0);
    const next = nextEvicted(tree);
    if (next) assert.ok(next.ref === 0 && next.children.length === 0 && next.id !== 0);
    // What is evicted next is what was said to be.
    const frame = trace.frames[i + 1];
    if (frame?.phase === "evict") assert.equal(frame.tree.find((op) => op[0] === "del")[1], next.id, `frame ${i + 1}`);
  }
});

test("what a frame does to the tree is marked on its nodes", () => {
  const { trace } = runs.busy;
  const replay = new Replay(trace);
  const seen = new Set();
  trace.frames.forEach((frame, i) => {
    const { changes, evicted } = treeChanges(frame, replay.at(i).tree);
    assert.equal(evicted, (frame.tree ?? []).filter((op) => op[0] === "del").length);
    for (const word of changes.values()) seen.add(word);
  });
  assert.deepEqual([...seen].sort(), ["tree.freed", "tree.held", "tree.new", "tree.split"]);
  assert.equal(treeChanges(null, new Map()).evicted, 0);
});
