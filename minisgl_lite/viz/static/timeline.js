// The timeline: one row of controls, keyboard, playing. It never plays by itself.

import { button, el, icon, setAttr, setText } from "./dom.js";
import { say } from "./words.js";

const STEP_MS = 900;
const UNITS = ["sub", "turn", "event"];

/**
 * Where a move leads.
 * @param {import("./run.js").Run} run
 * @param {number} frames
 * @param {number} index
 * @param {string} unit sub | turn | event
 * @param {number} by +1 or -1
 */
export function moved(run, frames, index, unit, by) {
  if (unit === "sub") return Math.max(0, Math.min(frames - 1, index + by));
  const stops = unit === "turn" ? run.ends : run.events.map((event) => event.index);
  if (by > 0) return stops.find((at) => at > index) ?? frames - 1;
  for (let i = stops.length - 1; i >= 0; i--) if (stops[i] < index) return stops[i];
  return Math.min(index, 0);
}

/** @param {any} app with view(), go(index, how) and reduced() */
export function createTimeline(app) {
  let unit = "sub";
  let speed = 1;
  let timer = 0;
  let sized = null; // the run for which the place has its width
  const first = button("", () => leap(0), { label: say("control.first"), sign: "first" });
  const back = button("", () => step(-1), { sign: "back" });
  const play = button("", () => (timer ? pause() : start()), { label: say("control.play"), cls: "kvv-play", sign: "play" });
  const next = button("", () => step(1), { cls: "kvv-next", sign: "next" });
  const last = button("", () => leap(Infinity), { label: say("control.last"), sign: "last" });
  const by = el("select", { class: "kvv-select", "aria-label": say("control.by"), on: { change: () => setUnit(by.value) } },
    UNITS.map((name) => el("option", { value: name, text: say(`control.by.${name}`) })));
  const slider = el("input", {
    type: "range", min: 0, max: 0, step: 1, class: "kvv-slider", "aria-label": say("control.slider"),
    on: { input: () => (pause(true), app.go(Number(slider.value), { quiet: true })) },
  });
  const flag = el("span", { class: "kvv-tick", "aria-hidden": "true", hidden: true });
  const where = el("span", { class: "kvv-step" });
  const root = el("div", { class: "kvv-controls", role: "group", "aria-label": say("control.slider") }, [
    el("span", { class: "kvv-buttons" }, [first, back, play, next, last]), by, el("span", { class: "kvv-slide" }, [flag, slider]), where,
  ]);

  function setUnit(name) {
    unit = name;
    by.value = name;
    for (const [node, key] of [[back, "back"], [next, "next"]]) {
      setAttr(node, "aria-label", say(`control.${key}.${name}`));
      setAttr(node, "title", say(`control.${key}.${name}`));
    }
  }
  setUnit("sub");

  /** Characters of the longest place in a run. @param {import("./run.js").Run} run @param {number} turns */
  function widest({ subs }, turns) {
    const most = subs.reduce((a, b) => Math.max(a, b), 0);
    return say("control.where", { turn: turns, turns, sub: most, subs: most }).length;
  }

  /** @param {number} direction @param {string} [how] */
  function step(direction, how = unit) {
    pause(true);
    const { run, index, trace } = app.view();
    app.go(moved(run, trace.frames.length, index, how, direction), { step: true });
  }
  function leap(index) {
    pause(true);
    app.go(Math.min(index, app.view().trace.frames.length - 1));
  }

  function start() {
    const { index, trace } = app.view();
    if (!trace.frames.length) return;
    if (index >= trace.frames.length - 1) app.go(0, { quiet: true });
    showPlaying(true);
    tick();
  }
  function tick() {
    // With reduced motion the picture changes at half the pace.
    timer = setTimeout(() => {
      const { run, index, trace } = app.view();
      const to = moved(run, trace.frames.length, index, unit, 1);
      if (to === index) return pause();
      if (app.go(to, { quiet: true, step: true }) === false) return undefined;
      return tick();
    }, (STEP_MS / speed) * (app.reduced() ? 2 : 1));
  }
  function showPlaying(on) {
    setAttr(play, "aria-label", say(on ? "control.stop" : "control.play"));
    setAttr(play, "title", say(on ? "control.stop" : "control.play"));
    play.replaceChildren(icon(on ? "pause" : "play"));
  }
  /** @param {boolean} [quiet] the reader moves on: nothing to say */
  function pause(quiet = false) {
    if (!timer) return;
    clearTimeout(timer);
    timer = 0;
    showPlaying(false);
    if (!quiet) app.speak();
  }

  /** Keys of the whole widget; true when one was used. @param {KeyboardEvent} event */
  function key(event) {
    const moves = { ArrowRight: 1, ArrowLeft: -1, PageDown: 1, PageUp: -1 };
    if (event.key in moves) {
      const whole = event.key.startsWith("Page") || event.shiftKey;
      step(moves[event.key], whole ? "turn" : unit);
    } else if (event.key === "Home") leap(0);
    else if (event.key === "End") leap(Infinity);
    else if (event.key === " ") play.click();
    else return false;
    return true;
  }

  return {
    root, key, pause, slider, step,
    playing: () => timer !== 0,
    setSpeed: (value) => (speed = value),
    /** Mark a place on the slider. @param {number} index @param {number} n frames in all; index -1: no mark */
    mark(index, n) {
      flag.hidden = index < 0;
      flag.style.setProperty("--kvv-at", String(n > 1 ? index / (n - 1) : 0));
    },
    /** @param {import("./slots.js").View} view @param {string} words the sentence */
    update(view, words) {
      const n = view.trace.frames.length;
      setAttr(slider, "max", Math.max(0, n - 1));
      slider.value = String(Math.max(0, view.index));
      slider.disabled = n === 0;
      const turns = n ? view.trace.frames[n - 1].turn : 0;
      const values = {
        turn: view.frame?.turn ?? 0, turns, sub: (view.frame?.sub ?? -1) + 1, subs: view.run.subs[view.index] ?? 0,
      };
      setText(where, say("control.where", values));
      if (view.run !== sized) where.style.width = `${widest(view.run, turns)}ch`;
      sized = view.run;
      setAttr(slider, "aria-valuetext", `${say("control.where.long", values)}: ${words}`);
      for (const node of [first, back]) setAttr(node, "aria-disabled", view.index <= 0);
      for (const node of [next, last]) setAttr(node, "aria-disabled", view.index >= n - 1);
    },
  };
}
