// Two runs under one timeline, their panels side by side; what differs is marked, said and one click away.

import { align, differences, differs, firstDifference, firstShown, sameWords, summary } from "./compare.js";
import { button, el, setAttr, setHidden, setText } from "./dom.js";
import { turnEnds } from "./events.js";
import { followHost } from "./host.js";
import { createLegend } from "./legend.js";
import { createMenu } from "./menu.js";
import { joinPage } from "./page.js";
import { createPanels, shapeOf } from "./panels.js";
import { createPlayer, nameRegion, phaseWords } from "./player.js";
import { subSteps } from "./run.js";
import { slotWords } from "./slots.js";
import { stepTables } from "./step_table.js";
import { readColours } from "./theme.js";
import { createTimeline } from "./timeline.js";
import { say, count } from "./words.js";

const WAYS = ["step", "event"];
const SIDES = [0, 1];
/** Requests of which it is said how they differ; of more, their number is said. */
const REQS_NAMED = 2;

/**
 * The common timeline as a run, so that the controls are the same as for one.
 * @param {any[]} traces
 * @param {{events: any[]}[]} runs their surveys
 * @param {"step"|"event"} by
 */
export function pairedRun(traces, runs, by) {
  const stops = align(traces[0].frames, traces[1].frames, by);
  const ends = turnEnds(stops);
  let sub = 0;
  const frames = stops.map(({ turn }, i) => ({ turn, sub: i && stops[i - 1].turn === turn ? ++sub : (sub = 0) }));
  const at = { a: new Map(), b: new Map() };
  for (const side of ["a", "b"]) stops.forEach((stop, i) => at[side].has(stop[side]) || at[side].set(stop[side], i));
  const events = runs.flatMap((run, side) => run.events.map(({ index }) => (side ? at.b : at.a).get(index)));
  return {
    stops, trace: { frames },
    run: { ends, subs: subSteps(stops, ends), events: [...new Set(events)].sort((x, y) => x - y).map((index) => ({ index })) },
    /** The stop at which a run comes to a frame. @param {number} side @param {number} frame */
    stopOf: (side, frame) => (side ? at.b : at.a).get(frame) ?? -1,
  };
}

/** What differs in two states, in words. @param {ReturnType<typeof summary>} found @param {any[]} states @param {string[]} labels */
export function differenceWords(found, states, labels) {
  const [left, right] = labels;
  const parts = found.reqs.slice(0, REQS_NAMED).map(({ uid, fields, words }) => {
    const [a, b] = states.map((state) => state.reqs.get(uid));
    const shown = fields.map((name) => {
      if (name === "text") return say("compare.word", { left: words[0], right: words[1] });
      const value = (req) => (!req ? say("compare.absent") : name === "state" ? say(`state.${req.state}`) : (req[name] ?? say("compare.absent")));
      return say("compare.field", { name: name === "state" ? "" : name, left: value(a), right: value(b) }).trim();
    });
    return say("compare.req", { uid, fields: shown.join(", ") });
  });
  if (found.reqs.length > REQS_NAMED) parts.push(count("compare.reqs", found.reqs.length - REQS_NAMED));
  if (found.slots) parts.push(count("compare.slots", found.slots));
  if (found.cells) parts.push(count("compare.cells", found.cells));
  for (const name of ["free", "out", "nodes"]) {
    const [a, b] = found[name];
    if (a !== b) parts.push(say(`compare.${name}`, { left: a, right: b }));
  }
  if (found.queue && found.free[0] === found.free[1]) parts.push(say("compare.queue"));
  if (found.tree && found.nodes[0] === found.nodes[1]) parts.push(count("compare.tree", found.tree));
  if (found.times) parts.push(count("compare.times", found.times));
  if (found.fault[0] !== found.fault[1]) parts.push(say("compare.fault", { label: labels[found.fault[0] ? 0 : 1] }));
  return differs(found) ? say("compare.differs", { left, right, what: parts.join("; ") }) : say("compare.same", { left, right });
}

/**
 * At the first stop that shows a difference: whether output tokens come to differ, too.
 * @param {import("./compare.js").Difference|null} first @param {string[]} labels @param {(id: number, side: number) => string} token
 */
export function shownWords(first, [left, right], token) {
  if (!first) return say("compare.first.shown.words");
  if (first.kind !== "token") return say("compare.first.shown");
  const text = (id, side) => (id === null ? say("compare.absent") : `“${token(id, side)}”`);
  return say("compare.first.shown.token", { uid: first.uid, index: first.index, left, right, a: text(first.left, 0), b: text(first.right, 1) });
}

/** The first difference in words, where no panel shows it. @param {import("./compare.js").Difference|null} first @param {string[]} labels */
export function firstWords(first, [left, right]) {
  if (!first) return say("compare.equal", { left, right });
  if (first.left_frame === null || first.right_frame === null) {
    return say("compare.first.end", { label: first.left_frame === null ? right : left, turn: first.turn });
  }
  const [entry] = Object.keys(first.left);
  const what = say(`compare.entry.${entry}`);
  return say("compare.first.turn", { left, right, what: what.startsWith("[") ? entry : what });
}

/**
 * @param {HTMLElement} root
 * @param {{options: any, traces: any[]}} given
 * @returns {() => void} cleans up
 */
export function createCompare(root, { options, traces }) {
  const reduced = matchMedia("(prefers-reduced-motion: reduce)");
  const labels = options.labels;
  const players = traces.map(createPlayer);
  const first = firstDifference(traces[0].frames, traces[1].frames);
  let by = options.by ?? "step";
  let pair = pairedRun(traces, players.map((player) => player.run), by);
  let pins = [-1, -1];
  let hovers = [-1, -1];
  let asked = 0;
  let spoken = 0;
  let speed = 1;
  let colours = null;
  let words = "";
  /** @type {import("./slots.js").View[]} */
  let views = [];
  /** @type {Map<string, number>} */
  const found = new Map();
  let index = startIndex();

  function startIndex() {
    const frame = options.start ?? -1;
    if (frame >= 0) return pair.stopOf(0, frame);
    return Math.max(0, firstStop());
  }

  /** By the common timeline: the first stop that shows a difference. */
  function shownStop() {
    const look = ({ a, b }) => [players[0].view(a, -1), players[1].view(b, -1)];
    if (!found.has(by)) found.set(by, first || !sameWords(traces[0], traces[1]) ? firstShown(traces, pair.stops, look) : -1);
    return found.get(by) ?? -1;
  }

  /** Where the button leads; -1: the runs are equal. A difference that no panel shows is where both have come to it. */
  function firstStop() {
    if (shownStop() >= 0 || !first) return shownStop();
    const there = (frame, wanted) => wanted === null || frame >= wanted;
    return pair.stops.findIndex((stop) => there(stop.a, first.left_frame) && there(stop.b, first.right_frame));
  }

  const shell = {
    reduced: () => reduced.matches,
    view: () => ({ run: pair.run, trace: pair.trace, index, frame: pair.trace.frames[index] }),
    go(to, how = {}) {
      index = Math.max(0, Math.min(pair.stops.length - 1, to));
      schedule();
      if (!how.quiet) shell.speak();
    },
    speak() {
      clearTimeout(spoken);
      spoken = setTimeout(() => setText(region, words), 200);
    },
    announce: (text) => setText(region, text),
  };

  /** What the panels of one run ask for. @param {number} side */
  function appOf(side) {
    const app = {
      live: false,
      other: null,
      colours: () => (colours ??= readColours(root)),
      roomy: () => false,
      reduced: shell.reduced,
      speed: () => speed,
      view: () => views[side],
      slotWords: (slot) => slotWords(views[side], slot),
      pinned: () => pins[side],
      point(text, slot = -1) {
        setText(hoverLine, text);
        if (slot === hovers[side]) return;
        hovers = beside(side, slot);
        link();
      },
      pin(slot) {
        pins = slot === pins[side] ? [-1, -1] : beside(side, slot);
        if (slot >= 0 && !panels.isOpen("selected") && panels.shape() !== "narrow") panels.toggle("selected", true);
        schedule();
      },
      go: (frame) => shell.go(pair.stopOf(side, frame)),
      announce: shell.announce,
    };
    return app;
  }

  /** A slot of one run, and the slot in which the other has the same token of the same request. */
  function beside(side, slot) {
    const { slots } = views[side];
    const [uid, pos] = slot < 0 ? [-1, -1] : [slots.uid[slot], slots.pos[slot]];
    const state = views[1 - side].state;
    const req = uid < 0 ? undefined : state.reqs.get(uid);
    const there = req && req.row !== null && pos >= 0 && pos < req.alloc_end ? state.rows[req.row][pos] : -1;
    return side ? [there, slot] : [slot, there];
  }

  // ---- the frame around the panels ----------------------------------------------------------------
  const apps = SIDES.map(appOf);
  const title = el("span", { class: "kvv-title", text: options.title ?? say("compare.title", { left: labels[0], right: labels[1] }) });
  const region = el("p", { class: "kvv-sr", "aria-live": "polite" });
  const said = el("p", { class: "kvv-sentence kvv-unlike" });
  const hoverLine = el("span", { class: "kvv-hoverline", "aria-hidden": "true" });
  const timeline = createTimeline(shell);
  const ways = el("select", { class: "kvv-select kvv-small", on: { change: () => lockBy(ways.value) } },
    WAYS.map((name) => el("option", { value: name, text: say(`compare.by.${name}`), selected: name === by })));
  const firstButton = button(say(firstStop() < 0 ? "compare.none" : "compare.first"), () => shell.go(firstStop()), { cls: "kvv-small kvv-first" });
  firstButton.disabled = firstStop() < 0;
  const tables = el("div", { class: "kvv-tables", role: "region", "aria-label": say("control.table"), tabindex: "0", hidden: true });
  const tableButton = button(say("control.table"), () => showTables(tables.hidden), { cls: "kvv-small" });
  setAttr(tableButton, "aria-expanded", "false");
  const menu = createMenu({
    tableButton, announce: shell.announce, sentence: () => words, traces: () => traces,
    setSpeed: (value) => timeline.setSpeed((speed = value)),
  });
  const legend = createLegend(apps[0]);
  const sides = SIDES.map(makeSide);
  const panels = createPanels(root, apps, {
    options, labels, storeKey: `kvv:${location.pathname}:${labels.join()}:${options.name ?? ""}`, changed: schedule,
  });
  root.classList.add("kvv-pair");
  root.append(
    el("div", { class: "kvv-head" }, [title, el("span", { class: "kvv-badge", text: say("recorded") }), firstButton, menu]),
    said, region, timeline.root,
    el("div", { class: "kvv-sides" }, sides.map((side) => side.root)),
    panels.tabs, panels.box, tables,
    el("div", { class: "kvv-foot" }, [hoverLine, legend.root]),
  );
  timeline.root.querySelector(".kvv-slide").before(el("label", { class: "kvv-ways" }, [say("compare.by"), " ", ways]));
  nameRegion(root, title.textContent, options.name);
  legend.show(
    { dummy: players.some(({ run }) => run.dummy) },
    { cache_type: traces.every(({ meta }) => meta.cache_type === "naive") ? "naive" : "radix" }, true,
  );

  function makeSide(side) {
    const { page_size: P, num_pages: N, cache_type: cache, loop } = traces[side].meta;
    const facts = [say("title.facts", { P, N, cache }), loop === "overlap" ? say("title.overlap") : ""].filter(Boolean).join(" · ");
    const where = el("span", { class: "kvv-note" });
    const phase = el("b", { class: "kvv-phase" });
    const text = el("span");
    const said = el("p", { class: "kvv-sentence" }, [phase, " ", text]);
    return {
      where, phase, text, said,
      root: el("div", { class: "kvv-side" }, [
        el("p", { class: "kvv-sidehead" }, [el("b", { text: labels[side] }), el("span", { class: "kvv-note", text: facts }), where]),
        said,
      ]),
    };
  }

  function showTables(on) {
    tables.hidden = !on;
    setAttr(tableButton, "aria-expanded", on);
    if (on) schedule();
  }

  /** Another common timeline; the first run stays where it is. @param {"step"|"event"} way */
  function lockBy(way) {
    const { a, b } = pair.stops[index] ?? { a: 0, b: 0 };
    by = way;
    pair = pairedRun(traces, players.map((player) => player.run), by);
    shell.go(Math.max(0, a >= 0 ? pair.stopOf(0, a) : pair.stopOf(1, b)));
  }

  // ---- drawing ------------------------------------------------------------------------------------
  function schedule() {
    asked ||= requestAnimationFrame(draw);
  }

  function draw() {
    asked = 0;
    const stop = pair.stops[index] ?? { a: -1, b: -1 };
    const before = pair.stops[index - 1] ?? { a: -1, b: -1 };
    views = [players[0].view(stop.a, pins[0]), players[1].view(stop.b, pins[1])];
    const told = shownStop() < 0 ? firstWords : shownWords;
    const atFirst = index === firstStop() ? `${told(first, labels, (id, side) => players[side].tokenText(id))} ` : "";
    words = atFirst + differenceWords(summary(views[0], views[1]), views.map((view) => view.state), labels);
    setText(said, words);
    SIDES.forEach((side) => {
      const [view, { where, phase, text, root: box }] = [views[side], sides[side]];
      const other = differences(view, views[1 - side]);
      apps[side].other = { ...other, slotWords: (slot) => wordsBeside(1 - side, slot), cellWords: (row, pos) => cellWords(1 - side, row, pos) };
      const held = side ? stop.b === before.b : stop.a === before.a;
      box.classList.toggle("kvv-held", held);
      setText(where, placeWords(view) + (held ? ` · ${say("compare.held")}` : ""));
      setText(phase, phaseWords(view));
      setHidden(phase, !view.frame);
      setText(text, players[side].words(view));
      sides[side].said.classList.toggle("kvv-bad", !!view.frame?.fault);
    });
    timeline.update(shell.view(), words);
    timeline.mark(firstStop(), pair.stops.length);
    setAttr(firstButton, "aria-pressed", index === firstStop());
    SIDES.forEach((side) => panels.update(views[side], side));
    if (!tables.hidden) tables.replaceChildren(...SIDES.flatMap((side) => [el("p", { class: "kvv-whose" }, [el("b", { text: labels[side] })]), ...stepTables(views[side])]));
    link();
    page.moved();
  }

  const placeWords = (view) => {
    const turns = view.trace.frames.at(-1)?.turn ?? 0;
    return say("control.where", { turn: view.frame?.turn ?? 0, turns, sub: (view.frame?.sub ?? -1) + 1, subs: view.run.subs[view.index] ?? 0 });
  };
  function wordsBeside(side, slot) {
    const { N, P } = views[side].state;
    return say("compare.beside", { label: labels[side], words: slot < N * P ? slotWords(views[side], slot) : say("compare.absent") });
  }
  function cellWords(side, row, pos) {
    const { state } = views[side];
    const req = [...state.reqs.values()].find((r) => r.row === row);
    const used = req && pos < req.alloc_end;
    const words = used ? `r${req.uid}, ${say("cell.table.slot", { slot: state.rows[row][pos] })}` : say("compare.unused");
    return say("compare.beside", { label: labels[side], words });
  }

  function link() {
    if (views.length) SIDES.forEach((side) => panels.link(hovers[side], pins[side], side));
  }

  // ---- what reaches it from outside ---------------------------------------------------------------
  const page = joinPage(root, {
    trace: () => traces[0], index: () => pair.stops[index]?.a ?? -1, pinned: () => pins[0], shape: panels.shape,
    go(frame, names, pin) {
      for (const name of names) panels.toggle(name, true);
      if (pin !== undefined) pins = [pin, -1];
      apps[0].go(frame);
    },
  });
  const unfollow = followHost(root, {
    themed() {
      colours = null;
      legend.paint();
      if (views.length) schedule();
    },
    resized: (width) => panels.arrange(shapeOf(width)),
    forced: () => showTables(true),
    key: (event) => timeline.key(event),
  });
  schedule();

  return () => {
    cancelAnimationFrame(asked);
    clearTimeout(spoken);
    timeline.pause(true);
    panels.stop();
    players.forEach((player) => player.stop());
    unfollow();
    root.remove();
  };
}
