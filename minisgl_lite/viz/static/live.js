// The live controls: a prompt, one turn at a time, or turn after turn until nothing is left.

import { el, setAttr, setText, button, freshId } from "./dom.js";
import { say } from "./words.js";

/** Time a sub-step stays in sight while a turn is shown. */
const SHOW_MS = 220;

/**
 * @param {any} app
 * @param {import("./session.js").LiveSession} session
 * @param {{send: ((message: any) => void)|null}} model `send` is null where no kernel can answer
 */
export function createLive(app, session, model) {
  let running = false;
  let mine = false; // this view asked, so it shows the new frames one by one
  let show = 0;
  /** What is still to be shown when Predict has its answer. @type {{to: number, answer: any}|null} */
  let held = null;
  const promptId = freshId("prompt");
  const maxId = freshId("max");
  const prompt = el("input", { type: "text", id: promptId, class: "kvv-prompt", autocomplete: "off",
    on: { keydown: (e) => (e.stopPropagation(), e.key === "Enter" && !e.isComposing && add()) } });
  const max = el("input", { type: "number", id: maxId, class: "kvv-num", min: 1, max: 4096, value: 8, on: { keydown: (e) => e.stopPropagation() } });
  const addButton = button(say("live.add"), add);
  const stepButton = button(say("live.step"), () => ask({ op: "step" }));
  const runButton = button(say("live.run"), () => (running ? pause() : run()));
  const fields = settingsFields();
  const settings = el("details", { class: "kvv-settings" }, [
    el("summary", { text: say("live.settings") }),
    el("div", { class: "kvv-fields" }, [...fields.map((field) => field.label), button(say("live.reset"), reset)]),
  ]);
  const status = el("p", { class: "kvv-status" });
  const root = el("div", { class: "kvv-live", role: "group", "aria-label": say("live") }, [
    el("label", { for: promptId, text: say("live.prompt") }), prompt,
    el("label", { for: maxId, text: say("live.max") }), max,
    addButton, stepButton, runButton, settings, status, about(),
  ]);

  /** What this is, where no kernel can answer. */
  function about() {
    const { model: name, page_size: P, num_pages: N, cache_type: cache } = session.trace.meta;
    const now = say(session.trace.frames.length ? "live.about.last" : "live.about.none");
    return el("div", { class: "kvv-about", hidden: !!model.send }, [
      el("p", { text: `${say("live.about", { model: name, P, N, cache })} ${now}` }),
      el("p", { text: say("live.about.how") }),
      el("ol", {}, ["open", "run", "type"].map((step) => el("li", { text: say(`live.about.${step}`) }))),
    ]);
  }

  function settingsFields() {
    const meta = session.trace.meta;
    const numeric = (name, value) => el("input", { type: "number", min: 1, value, class: "kvv-num", on: { keydown: (e) => e.stopPropagation() } });
    const cache = el("select", { class: "kvv-select" }, ["radix", "naive"].map((name) => el("option", { value: name, text: name, selected: name === meta.cache_type })));
    const inputs = { page_size: numeric("page_size", meta.page_size), num_pages: numeric("num_pages", meta.num_pages), cache_type: cache, budget: numeric("budget", meta.budget) };
    return Object.entries(inputs).map(([name, input]) => ({ name, input, label: el("label", {}, [`${say(`live.${name}`)} `, input]) }));
  }

  function add() {
    if (!prompt.value) return session.say("live.empty", {}, true);
    const most = Number(max.value);
    if (!Number.isInteger(most) || most < 1) return session.say("live.badmax", {}, true);
    ask({ op: "add", prompt: prompt.value, max_tokens: most, temperature: 0 });
    prompt.value = "";
    prompt.focus();
  }
  function run() {
    running = true;
    ask({ op: "run" });
    refresh();
  }
  function pause() {
    running = false;
    ask({ op: "pause" });
    refresh();
  }
  function reset() {
    running = false;
    const command = { op: "reset" };
    for (const { name, input } of fields) command[name] = name === "cache_type" ? input.value : Number(input.value);
    ask(command);
    settings.open = false;
  }
  /** @param {any} command */
  function ask(command) {
    if (!model.send) return;
    mine = true;
    session.command(command, model.send);
  }

  /** New frames, or null when only the status changed. @param {{from: number, reset: boolean, answer: any}|null} change */
  function changed(change) {
    refresh();
    if (!change) return;
    app.traceChanged(change.reset);
    const frames = session.trace.frames.length;
    if (change.answer.error || (!change.answer.busy && !frames)) running = false;
    if (change.answer.op === "history") return change.reset && app.go(frames - 1, { quiet: true });
    if (!mine) return;
    if (change.reset) {
      held = null;
      return app.go(frames - 1, { quiet: true });
    }
    if (frames <= change.from) return painted(change.answer);
    if (!app.predict.asking()) app.go(change.from - 1, { quiet: true });
    showFrom(change.from, frames - 1, change.answer);
  }

  /** Show a turn's sub-steps one by one; with reduced motion, its last. Predict may ask before one of them. */
  function showFrom(from, to, answer) {
    clearTimeout(show);
    held = null;
    if (from > to) return painted(answer);
    const next = app.reduced() ? to : from;
    if (!app.go(next, { quiet: next < to, step: true })) held = { to, answer };
    else if (next >= to) app.afterPaint(() => painted(answer));
    else show = setTimeout(() => showFrom(next + 1, to, answer), SHOW_MS / app.speed());
  }

  /** The next turn is asked for when the last one is painted. */
  function painted(answer) {
    if (!running) return;
    if (answer.busy === false && answer.op === "run") {
      running = false;
      refresh();
    } else if (!session.busy) ask({ op: "run" });
  }

  function refresh() {
    const rest = !model.send;
    for (const node of [prompt, max, addButton, stepButton, runButton, ...fields.map((f) => f.input), ...root.querySelectorAll(".kvv-fields button")]) node.disabled = rest;
    setText(runButton, say(running ? "live.pause" : "live.run"));
    stepButton.disabled = rest || running;
    const { key, values, bad } = rest ? { key: "live.static", values: {}, bad: false } : session.status;
    const text = say(running && key === "live.stepped" ? "live.waiting" : key, values);
    // Spoken in the widget's one live region; what passes at once is not.
    if (status.textContent && status.textContent !== text && key !== "live.waiting") app.announce(text);
    setText(status, text);
    setAttr(status, "class", bad ? "kvv-status kvv-bad" : "kvv-status");
  }
  session.listeners.add(changed);
  refresh();

  return {
    root,
    abort: (uid) => ask({ op: "abort", uid }),
    /** Predict has its answer: show the rest. @returns {boolean} whether there was some */
    resume() {
      if (!held) return false;
      showFrom(app.view().index + 1, held.to, held.answer);
      return true;
    },
    /** The reader looks elsewhere: the showing stops, and with it the run. */
    interrupt() {
      clearTimeout(show);
      held = null;
      if (running) pause();
    },
    stop() {
      clearTimeout(show);
      session.listeners.delete(changed);
    },
  };
}
