// Events: the whole run at a glance, a lane per kind of event, the number of free pages below.

import { el, setText } from "./dom.js";
import { say } from "./words.js";

const LANES = ["prefill", "decode", "hit", "refuse", "split", "evict", "release", "abort", "fault"];
const BARS = 2; // the first lanes have bars, the others marks
const LANE = 12;
const SPARK = 26;
const CHART_LEFT = 64;

/**
 * Which frames stand in each lane. In "release" it is a request's end: its pages go to the tree or become free.
 * @param {any[]} frames
 * @param {import("./run.js").Run} run
 * @returns {{name: string, at: number[]}[]}
 */
export function laneFrames(frames, run) {
  const where = (test) => frames.flatMap((frame, i) => (test(frame) ? [i] : []));
  return LANES.map((name, lane) => ({
    name,
    at: lane < BARS ? where((frame) => frame.batch_info?.phase === name)
      : name === "release" ? where((frame) => frame.release?.some((one) => one.finished))
      : run.events.filter((event) => event.kind === name).map((event) => event.index),
  }));
}

/** @param {any} app */
export function eventsPanel(app) {
  /** @type {import("./slots.js").View} */
  let view = null;
  let width = 0;
  let drawn = "";
  const canvas = el("canvas", { role: "img", "aria-label": say("events.chart"), class: "kvv-lanes" });
  const cursor = el("div", { class: "kvv-cursor", "aria-hidden": "true" });
  const chart = el("div", { class: "kvv-chart" }, [canvas, cursor]);
  const note = el("span", { class: "kvv-note" });
  const jump = el("select", { class: "kvv-select", "aria-label": say("events.jump"), on: { change: () => jump.value !== "" && app.go(Number(jump.value)) } });
  const height = LANES.length * LANE + SPARK;

  const x = (index) => CHART_LEFT + ((width - CHART_LEFT) * (index + 0.5)) / Math.max(1, view.trace.frames.length);

  function draw() {
    const c = app.colours();
    const d = globalThis.devicePixelRatio || 1;
    canvas.width = Math.round(width * d);
    canvas.height = Math.round(height * d);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const ctx = canvas.getContext("2d");
    ctx.setTransform(d, 0, 0, d, 0, 0);
    ctx.fillStyle = c.css.ground;
    ctx.fillRect(0, 0, width, height);
    ctx.font = `10px ${c.font}`;
    ctx.textBaseline = "middle";
    const wide = Math.max(1.5, Math.min(8, (width - CHART_LEFT) / Math.max(1, view.trace.frames.length)));
    laneFrames(view.trace.frames, view.run).forEach(({ name, at }, i) => {
      const y = i * LANE + LANE / 2;
      ctx.fillStyle = c.css.faint;
      ctx.fillRect(CHART_LEFT, y, width - CHART_LEFT, 1);
      ctx.fillStyle = c.css.dim;
      ctx.fillText(say(`${i < BARS ? "step" : name === "release" ? "phase" : "event"}.${name}`), 0, y);
      const colour = name === "fault" ? c.css.bad : c.css.ink;
      ctx.fillStyle = colour;
      for (const index of at) {
        if (i < BARS) ctx.fillRect(x(index) - wide / 2, i * LANE + 2, wide, LANE - 4);
        else mark(ctx, x(index), y, colour, i % 3);
      }
    });
    const base = height - 2;
    const scale = (SPARK - 6) / Math.max(1, view.meta.num_pages);
    ctx.fillStyle = c.css.dim;
    ctx.fillText(say("balance.free"), 0, height - SPARK / 2);
    ctx.strokeStyle = c.css.ink;
    ctx.beginPath();
    view.run.free.forEach((n, i) => ctx.lineTo(x(i), base - Math.max(0, n) * scale));
    ctx.stroke();
  }

  /** A lozenge, a triangle or a disc: lanes differ by shape too. */
  function mark(ctx, cx, cy, colour, shape) {
    ctx.fillStyle = colour;
    ctx.beginPath();
    if (shape === 0) ctx.arc(cx, cy, 3.5, 0, 7);
    else {
      ctx.moveTo(cx, cy - 4);
      ctx.lineTo(cx + 4, cy + (shape === 1 ? 3 : 0));
      if (shape === 2) ctx.lineTo(cx, cy + 4);
      ctx.lineTo(cx - 4, cy + (shape === 1 ? 3 : 0));
    }
    ctx.fill();
  }

  function fillJump() {
    const options = view.run.events.slice(0, 400).map((event) =>
      el("option", {
        value: event.index,
        text: say("event.at", {
          turn: view.trace.frames[event.index].turn, kind: say(`event.${event.kind}`), who: event.uid === null ? "" : `r${event.uid}`,
        }),
      }));
    jump.replaceChildren(el("option", { value: "", text: say("events.jump") }), ...options);
    jump.hidden = options.length === 0;
    setText(note, options.length ? "" : say("events.none"));
  }

  canvas.addEventListener("click", (event) => {
    const rect = canvas.getBoundingClientRect();
    const at = Math.floor(((event.clientX - rect.left - CHART_LEFT) / (width - CHART_LEFT)) * view.trace.frames.length);
    if (at >= 0 && at < view.trace.frames.length) app.go(at);
  });

  return {
    name: "events",
    body: chart,
    head: [note, jump],
    layout(w) {
      width = w;
      drawn = "";
      if (view) this.update(view);
    },
    update(next) {
      const fresh = !view || view.run !== next.run;
      view = next;
      if (fresh) fillJump();
      const key = [width, view.trace.frames.length, app.colours().css.ground].join();
      if (key !== drawn && width > CHART_LEFT) {
        drawn = key;
        draw();
      }
      cursor.style.transform = `translateX(${x(Math.max(0, view.index)).toFixed(1)}px)`;
    },
    link() {},
  };
}
