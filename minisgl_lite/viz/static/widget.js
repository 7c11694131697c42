// The view of a run: one timeline, linked panels. Entry of the widget; anywidget calls `render`.

import { decodeTrace } from "./codec.js";
import { sameEvent } from "./compare.js";
import { createCompare } from "./compare_view.js";
import { button, el, setAttr, setHidden, setText } from "./dom.js";
import { followHost } from "./host.js";
import { createLegend } from "./legend.js";
import { createLive } from "./live.js";
import { createMenu } from "./menu.js";
import { joinPage } from "./page.js";
import { createPanels, shapeOf } from "./panels.js";
import { createPlayer, nameRegion, phaseWords, titleWords } from "./player.js";
import { createPredict } from "./predict_card.js";
import { sourceOf } from "./sentences.js";
import { LiveSession } from "./session.js";
import { slotWords } from "./slots.js";
import { stepTables } from "./step_table.js";
import { readColours } from "./theme.js";
import { createTimeline } from "./timeline.js";
import { createChooser } from "./variants.js";
import { say } from "./words.js";

/** Live runs by widget: every view of a widget shows the same run. @type {Map<string, LiveSession>} */
const sessions = new Map();

/** @param {{model: any, el: HTMLElement}} context @returns {Promise<() => void>} cleans up */
async function render({ model, el: host }) {
  const options = JSON.parse(model.get("options") || "{}");
  // JupyterLab's own shortcuts rest while the focus is in here.
  const root = el("div", { class: "kvv", "data-id": options.id, "data-name": options.name, "data-lm-suppress-shortcuts": "true" });
  host.append(root);
  const fail = (text) => {
    root.replaceChildren(el("p", { class: "kvv-bad", role: "alert", text }));
    return () => root.remove();
  };
  const known = sessions.get(options.id);
  let trace = known?.trace;
  let [grid, other] = [null, null];
  try {
    if (!trace) ({ trace, grid } = await decodeTrace(model.get("trace")));
    if (grid) trace = grid.trace(options.variant);
    if (model.get("other")) other = (await decodeTrace(model.get("other"))).trace;
  } catch (error) {
    return fail(error.message);
  }
  const session = options.live ? (known ?? new LiveSession(trace)) : null;
  if (session) sessions.set(options.id, session);
  try {
    return other ? createCompare(root, { options, traces: [trace, other] }) : createView(root, { model, options, trace, grid, session });
  } catch (error) {
    console.error(error);
    return fail(say("error.view", { text: error.message }));
  }
}

/**
 * @param {HTMLElement} root
 * @param {{model: any, options: any, trace: any, grid: import("./variants.js").Grid|null, session: LiveSession|null}} given
 * @returns {() => void}
 */
function createView(root, { model, options, trace, grid, session }) {
  const reduced = matchMedia("(prefers-reduced-motion: reduce)");
  const player = createPlayer(trace);
  let index = player.startIndex(options.start ?? (session ? player.last() : undefined)); // a live run: where it stands
  let chosen = { trace, index }; // where the reader went, as against where another variant has the same event
  let pin = -1;
  let hover = -1;
  let asked = 0;
  let colours = null;
  let spoken = 0;
  let speed = 1;
  /** @type {import("./slots.js").View} */
  let view = null;
  let words = "";
  let after = [];

  const app = {
    live: !!session,
    predict: null,
    colours: () => (colours ??= readColours(root)),
    roomy: () => panels.shape() !== "middle",
    reduced: () => reduced.matches,
    speed: () => speed,
    view: () => view,
    slotWords: (slot) => slotWords(view, slot),
    pinned: () => pin,
    /** A cell is hovered or focused. @param {string} text @param {number} slot */
    point(text, slot = -1) {
      setText(hoverLine, text);
      if (slot === hover) return;
      hover = slot;
      link();
    },
    /** @param {number} slot -1: none */
    pin(slot) {
      pin = slot === pin ? -1 : slot;
      if (pin >= 0 && !panels.isOpen("selected") && panels.shape() !== "narrow") panels.toggle("selected", true);
      schedule();
    },
    /**
     * @param {number} to
     * @param {{quiet?: boolean, step?: boolean}} [how] quiet: not spoken; step: by the timeline's steps, so Predict may ask first
     * @returns {boolean} whether it went there
     */
    go(to, how = {}) {
      const end = Math.max(-1, Math.min(player.last(), to));
      index = how.step ? predict.gate(index, end) : end;
      predict.moved(index);
      chosen = { trace: player.trace, index };
      schedule();
      if (index !== end) timeline.pause(true);
      else if (!how.quiet) app.speak();
      return index === end;
    },
    /** Say the sentence in the live region, once the reader has come to rest. */
    speak() {
      clearTimeout(spoken);
      spoken = setTimeout(() => setText(region, `${view ? where() : ""}: ${words}`), 200);
    },
    announce(text) {
      clearTimeout(spoken); // what was to be said of a step gives way
      setText(region, text);
    },
    afterPaint: (fn) => after.push(fn),
    abort: (uid) => live?.abort(uid),
    traceChanged(reset) {
      showRun(session.trace, reset, -1);
    },
  };

  /** @param {any} next @param {boolean} fresh another run, not more of this one @param {number} at its frame */
  function showRun(next, fresh, at) {
    player.load(next, fresh);
    if (fresh) {
      [pin, hover, index] = [-1, -1, at];
      predict.reset();
      panels.renew();
    }
    legend.show(player.run, player.trace.meta);
    setText(title, titleText());
    nameRegion(root, titleText(), options.name);
    schedule();
  }

  /** Another variant: at the event where the reader left the last one, as far as it has it. @param {number[]} place */
  function showVariant(place) {
    timeline.pause(true);
    const next = grid.trace(place);
    showRun(next, true, sameEvent(chosen.trace.frames, chosen.index, next.frames));
    app.speak();
  }

  // ---- the frame around the panels --------------------------------------------------------------
  const title = el("span", { class: "kvv-title", text: titleText() });
  const send = options.live && !model.static && typeof model.send === "function" ? (message) => model.send(message) : null;
  const badge = el("span", { class: send ? "kvv-badge kvv-badge-live" : "kvv-badge", text: say(send ? "live" : "recorded") });
  const phase = el("b", { class: "kvv-phase" });
  const text = el("span", { class: "kvv-words" });
  const said = el("p", { class: "kvv-sentence" }, [phase, " ", text]);
  const region = el("p", { class: "kvv-sr", "aria-live": "polite" });
  const source = el("code", { class: "kvv-source" });
  const hoverLine = el("span", { class: "kvv-hoverline", "aria-hidden": "true" });
  const timeline = createTimeline(app);
  const tables = el("div", { class: "kvv-tables", role: "region", "aria-label": say("control.table"), tabindex: "0", hidden: true });
  const tableButton = button(say("control.table"), () => showTables(tables.hidden), { cls: "kvv-small" });
  setAttr(tableButton, "aria-expanded", "false");
  const faultButton = button("", () => app.go(player.run.fault), { cls: "kvv-small kvv-bad" });
  const legend = createLegend(app);
  const menu = createMenu({
    tableButton, announce: app.announce, sentence: () => `${where()}: ${words}`, traces: () => [player.trace],
    setSpeed: (value) => timeline.setSpeed((speed = value)),
  });
  const predict = (app.predict = createPredict({
    trace: () => player.trace, announce: app.announce, redraw: schedule, id: options.id ?? "", go: (to) => app.go(to, { quiet: true }),
    goOn: () => live?.resume() || timeline.step(1), off: () => live?.resume(), left: () => live?.interrupt(), open: (name) => panels.isOpen(name) || panels.toggle(name, true),
  }));
  const live = session ? createLive(app, session, { send }) : null;
  // A live view in a page without kernel, with nothing recorded: there is nothing to show but what it would be.
  root.toggleAttribute("data-rest", !!session && !send && !trace.frames.length);
  const chooser = grid && createChooser(grid, options.variant, showVariant);
  const panels = createPanels(root, [app], {
    options, storeKey: `kvv:${location.pathname}:${options.title ?? ""}:${options.name ?? ""}`, changed: schedule,
  });
  root.append(
    el("div", { class: "kvv-head" }, [title, badge, faultButton, source, predict.toggle, menu]),
    ...(live ? [live.root] : []), ...(chooser ? [chooser.root] : []),
    said, region, predict.card, timeline.root, panels.tabs, panels.box, tables,
    el("div", { class: "kvv-foot" }, [hoverLine, legend.root]),
  );
  nameRegion(root, titleText(), options.name);
  legend.show(player.run, player.trace.meta);

  function titleText() {
    return titleWords(player.trace.meta, options.title);
  }

  function showTables(on) {
    tables.hidden = !on;
    setAttr(tableButton, "aria-expanded", on);
    if (on) schedule();
  }

  // ---- drawing ----------------------------------------------------------------------------------
  const where = () =>
    say("control.where.long", {
      turn: view.frame?.turn ?? 0, turns: player.trace.frames.at(-1)?.turn ?? 0, sub: (view.frame?.sub ?? -1) + 1, subs: player.run.subs[index] ?? 0,
    });

  /** One redraw per animation frame, however many inputs come. */
  function schedule() {
    asked ||= requestAnimationFrame(draw);
  }

  function draw() {
    asked = 0;
    view = player.view(index, pin);
    const { frame, run } = view;
    words = player.words(view, session ? "sentence.empty.live" : undefined);
    setText(phase, phaseWords(view));
    setHidden(phase, !frame);
    setText(text, words);
    said.classList.toggle("kvv-bad", !!frame?.fault);
    setHidden(faultButton, run.fault < 0);
    if (run.fault >= 0) setText(faultButton, say("fault.go", { turn: view.trace.frames[run.fault].turn }));
    const [file, name] = sourceOf(frame);
    setText(source, name);
    setAttr(source, "title", file && `minisgl_lite/${file}`);
    timeline.update(view, words);
    panels.update(view);
    if (!tables.hidden) tables.replaceChildren(...stepTables(view));
    link();
    page.moved();
    const done = after;
    after = [];
    for (const fn of done) fn();
  }

  function link() {
    if (view) panels.link(hover, pin);
  }

  // ---- what reaches it from outside -------------------------------------------------------------
  timeline.root.addEventListener("pointerdown", () => live?.interrupt());
  const received = (message) => session?.receive(message);
  model.on?.("msg:custom", received);
  if (session && send && !session.asked) {
    // The page may have been loaded anew: ask for what has happened since.
    session.asked = true;
    session.command({ op: "history" }, send);
  }
  const page = joinPage(root, {
    meet(digest) {
      const place = grid?.find(digest);
      if (!place) return;
      chooser.set(place);
      showVariant(place);
    },
    trace: () => player.trace, index: () => index, pinned: () => pin, shape: () => panels.shape(),
    go(to, names, slot) {
      timeline.pause(true);
      live?.interrupt();
      for (const name of names) panels.toggle(name, true);
      pin = slot ?? pin;
      app.go(to);
    },
  });
  const unfollow = followHost(root, {
    themed() {
      colours = null;
      legend.paint();
      if (view) schedule();
    },
    resized: (width) => panels.arrange(shapeOf(width)),
    forced: () => showTables(true),
    key(event) {
      if (!timeline.key(event)) return false;
      live?.interrupt();
      return true;
    },
  });
  schedule();

  return () => {
    cancelAnimationFrame(asked);
    clearTimeout(spoken);
    timeline.pause(true);
    live?.stop();
    panels.stop();
    player.stop();
    unfollow();
    model.off?.("msg:custom", received);
    root.remove();
  };
}

export default { render };
