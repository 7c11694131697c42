// The view of a run: one timeline, linked panels. Entry of the widget; anywidget calls `render`.

import { balancePanel } from "./balance.js";
import { decodeTrace } from "./codec.js";
import { button, el, freshId, setAttr, setText } from "./dom.js";
import { findEvent } from "./events.js";
import { queuePanel } from "./free_slots.js";
import { eventsPanel } from "./lanes.js";
import { createLegend } from "./legend.js";
import { createLive } from "./live.js";
import { outLocPanel } from "./out_loc.js";
import { tablePanel } from "./page_table.js";
import { poolPanel } from "./pool.js";
import { releasePanel } from "./release.js";
import { Replay, currentBatch, slotRoom, slotStates } from "./replay.js";
import { requestsPanel } from "./requests.js";
import { survey } from "./run.js";
import { selectedPanel } from "./selected.js";
import { sentence, sourceOf } from "./sentences.js";
import { LiveSession } from "./session.js";
import { slotWords } from "./slots.js";
import { stepTables } from "./step_table.js";
import { followTheme, readColours } from "./theme.js";
import { createTimeline } from "./timeline.js";
import { tokenTexts } from "./tokens.js";
import { treePanel } from "./tree.js";
import { say } from "./words.js";

const PANELS = {
  requests: requestsPanel, page_table: tablePanel, pool: poolPanel, out_loc: outLocPanel, free_slots: queuePanel,
  tree: treePanel, release: releasePanel, events: eventsPanel, selected: selectedPanel, balance: balancePanel,
};
const DEFAULT_PANELS = ["requests", "page_table", "pool"];
const NARROW = 560;
const WIDE = 960;

/** Live runs by widget: every view of a widget shows the same run. @type {Map<string, LiveSession>} */
const sessions = new Map();

/** @param {{model: any, el: HTMLElement}} context @returns {Promise<() => void>} cleans up */
async function render({ model, el: host }) {
  const options = JSON.parse(model.get("options") || "{}");
  // JupyterLab's own shortcuts rest while the focus is in here.
  const root = el("div", { class: "kvv", "data-lm-suppress-shortcuts": "true" });
  host.append(root);
  const fail = (text) => {
    root.replaceChildren(el("p", { class: "kvv-bad", role: "alert", text }));
    return () => root.remove();
  };
  const known = sessions.get(options.id);
  let trace = known?.trace;
  try {
    trace ??= await decodeTrace(model.get("trace"));
  } catch (error) {
    return fail(error.message);
  }
  const session = options.live ? (known ?? new LiveSession(trace)) : null;
  if (session) sessions.set(options.id, session);
  try {
    return createView(root, { model, options, trace, session });
  } catch (error) {
    console.error(error);
    return fail(say("error.view", { text: error.message }));
  }
}

/**
 * @param {HTMLElement} root
 * @param {{model: any, options: any, trace: any, session: LiveSession|null}} given
 * @returns {() => void}
 */
function createView(root, { model, options, trace, session }) {
  const reduced = matchMedia("(prefers-reduced-motion: reduce)");
  const storeKey = `kvv:${location.pathname}:${options.title ?? ""}:${options.name ?? ""}`;
  let replay = new Replay(trace);
  let run = survey(trace);
  let tokens = tokenTexts(trace.vocab, trace.meta.special);
  let room = slotRoom((trace.meta.num_pages + 1) * trace.meta.page_size);
  let index = startIndex();
  let pin = -1;
  let hover = -1;
  let asked = 0;
  let colours = null;
  let shape = "";
  let width = 0;
  let spoken = 0;
  let open = new Set(remembered() ?? options.panels ?? DEFAULT_PANELS);
  let tab = [...open][0] ?? "requests";
  /** @type {import("./slots.js").View} */
  let view = null;
  let words = "";
  let after = [];

  function startIndex() {
    const last = trace.frames.length - 1;
    if (typeof options.start === "number") return Math.max(-1, Math.min(last, options.start));
    if (options.start) {
      const found = findEvent(trace.frames, options.start);
      if (found >= 0) return found;
    }
    return Math.min(0, last);
  }

  const app = {
    live: !!session,
    colours: () => (colours ??= readColours(root)),
    roomy: () => shape !== "middle",
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
      if (pin >= 0 && !open.has("selected") && shape !== "narrow") toggle("selected", true);
      schedule();
    },
    /** @param {number} to @param {{quiet?: boolean}} [how] quiet: not spoken */
    go(to, how = {}) {
      index = Math.max(-1, Math.min(trace.frames.length - 1, to));
      schedule();
      if (!how.quiet) app.speak();
    },
    /** Say the sentence in the live region, once the reader has come to rest. */
    speak() {
      clearTimeout(spoken);
      spoken = setTimeout(() => setText(region, `${view ? where() : ""}: ${words}`), 200);
    },
    announce: (words) => setText(region, words),
    afterPaint: (fn) => after.push(fn),
    abort: (uid) => live?.abort(uid),
    traceChanged(reset) {
      trace = session.trace;
      replay = reset ? new Replay(trace) : replay;
      replay.trace = trace;
      run = survey(trace);
      if (reset) {
        tokens = tokenTexts(trace.vocab, trace.meta.special);
        room = slotRoom((trace.meta.num_pages + 1) * trace.meta.page_size);
        pin = hover = index = -1;
      }
      legend.show(run, trace.meta);
      setText(title, titleText());
      schedule();
    },
  };
  let speed = 1;

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
  const faultButton = button("", () => app.go(run.fault), { cls: "kvv-small kvv-bad" });
  const legend = createLegend(app);
  const menu = createMenu();
  const live = session ? createLive(app, session, { send }) : null;
  const tabs = el("div", { class: "kvv-tabs" });
  const panelBox = el("div", { class: "kvv-panels" });
  const panels = Object.keys(PANELS).map(makePanel);
  root.append(
    el("div", { class: "kvv-head" }, [title, badge, faultButton, source, menu]),
    ...(live ? [live.root] : []),
    said, region, timeline.root, tabs, panelBox, tables,
    el("div", { class: "kvv-foot" }, [hoverLine, legend.root]),
  );
  setAttr(root, "role", "region");
  setAttr(root, "aria-label", titleText());
  legend.show(run, trace.meta);

  function titleText() {
    const { model: name, page_size: P, num_pages: N, cache_type: cache, mode, loop } = trace.meta;
    const facts = say("title.facts", { P, N, cache });
    const extra = [loop === "overlap" ? say("title.overlap") : "", mode === "quick" ? say("mode.quick") : ""].filter(Boolean);
    return [options.title || say("title", { model: name }), facts, ...extra].join(" · ");
  }

  function makePanel(name) {
    const id = freshId(name);
    const panel = PANELS[name](app);
    const label = el("span", { class: "kvv-name", id: `${id}-name`, text: say(`panel.${name}`) });
    const section = el("div", { class: `kvv-panel kvv-panel-${name}`, id, role: "group", "aria-labelledby": `${id}-name` }, [
      el("div", { class: "kvv-panelhead" }, [label, ...panel.head]), panel.body,
    ]);
    const tabNode = button(say(`panel.${name}`), () => toggle(name), { cls: "kvv-tab" });
    setAttr(tabNode, "aria-controls", id);
    tabs.append(tabNode);
    panelBox.append(section);
    return { name, panel, section, tab: tabNode };
  }

  function createMenu() {
    const speeds = el("select", { class: "kvv-select", on: { change: () => timeline.setSpeed((speed = Number(speeds.value))) } },
      [0.5, 1, 2, 4].map((n) => el("option", { value: n, text: `${n}×`, selected: n === 1 })));
    const copied = button(say("control.copy"), async () => {
      await navigator.clipboard?.writeText(`${where()}: ${words}`);
      setText(region, say("control.copied"));
    }, { cls: "kvv-small" });
    const details = el("details", { class: "kvv-menu" }, [
      el("summary", { class: "kvv-btn kvv-small", text: say("control.menu") }),
      el("div", { class: "kvv-menubox" }, [
        tableButton, copied, button(say("control.export"), save, { cls: "kvv-small" }),
        el("label", {}, [`${say("control.speed")} `, speeds]),
        el("p", { class: "kvv-note", text: say("control.keys") }),
        el("p", { class: "kvv-note", text: say("title.version", { version: trace.meta.package ?? "?" }) }),
      ]),
    ]);
    details.querySelector(".kvv-menubox").addEventListener("click", (event) => {
      if (event.target.closest("button")) details.open = false;
    });
    details.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !details.open) return;
      details.open = false;
      details.querySelector("summary").focus();
      event.stopPropagation();
    });
    return details;
  }

  function save() {
    const url = URL.createObjectURL(new Blob([JSON.stringify(trace)], { type: "application/json" }));
    el("a", { href: url, download: "trace.json" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }

  function showTables(on) {
    tables.hidden = !on;
    setAttr(tableButton, "aria-expanded", on);
    if (on) schedule();
  }

  // ---- which panels are open --------------------------------------------------------------------
  function remembered() {
    try {
      const names = JSON.parse(sessionStorage.getItem(storeKey));
      return Array.isArray(names) ? names.filter((name) => name in PANELS) : null;
    } catch {
      return null; // no storage here
    }
  }

  /** @param {string} name @param {boolean} [on] */
  function toggle(name, on) {
    if (shape === "narrow") tab = name;
    else {
      if (on ?? !open.has(name)) open.add(name);
      else open.delete(name);
      try {
        sessionStorage.setItem(storeKey, JSON.stringify([...open]));
      } catch {
        // not remembered, then
      }
    }
    arrange();
  }

  const isOpen = (name) => (shape === "narrow" && !options.small ? name === tab : open.has(name));

  /** Which panels show, what their buttons say, how wide each is. */
  function arrange() {
    const narrow = shape === "narrow";
    setAttr(root, "data-shape", shape);
    setAttr(tabs, "role", narrow ? "tablist" : "group");
    setAttr(tabs, "aria-label", say("panels"));
    tabs.hidden = !!options.small;
    for (const { name, section, tab: node } of panels) {
      section.hidden = !isOpen(name);
      setAttr(section, "role", narrow ? "tabpanel" : "group");
      if (narrow) setAttr(node, "role", "tab");
      else node.removeAttribute("role");
      setAttr(node, narrow ? "aria-selected" : "aria-pressed", isOpen(name));
      node.removeAttribute(narrow ? "aria-pressed" : "aria-selected");
      setAttr(node, "tabindex", narrow && name !== tab ? "-1" : "0");
    }
    for (const { panel, section } of panels) if (!section.hidden) panel.layout(panel.body.clientWidth);
    schedule();
  }

  tabs.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by || shape !== "narrow") return;
    const i = panels.findIndex((p) => p.name === tab);
    const next = panels[(i + by + panels.length) % panels.length];
    toggle(next.name);
    next.tab.focus();
    event.preventDefault();
    event.stopPropagation();
  });

  // ---- drawing ----------------------------------------------------------------------------------
  const where = () =>
    say("control.where.long", {
      turn: view.frame?.turn ?? 0, turns: trace.frames.at(-1)?.turn ?? 0, sub: (view.frame?.sub ?? -1) + 1, subs: run.subs[index] ?? 0,
    });

  /** One redraw per animation frame, however many inputs come. */
  function schedule() {
    asked ||= requestAnimationFrame(draw);
  }

  function draw() {
    asked = 0;
    const state = replay.at(index);
    const batch = currentBatch(state);
    slotStates(state, room);
    const picked = pin >= 0 && room.uid[pin] >= 0 ? room.uid[pin] : null;
    view = { trace, meta: trace.meta, index, frame: state.frame, state, slots: room, batch, tokens, run, picked };
    words = state.frame ? sentence(state, tokens) : say(session ? "sentence.empty.live" : "sentence.empty");
    const kind = batch && state.frame.phase !== "forward" ? `${say(`step.${batch.info.phase}`)} · ` : "";
    setText(phase, state.frame ? `${kind}${say(`phase.${state.frame.phase}`)}` : "");
    setText(text, words);
    said.classList.toggle("kvv-bad", !!state.frame?.fault);
    faultButton.hidden = run.fault < 0;
    if (run.fault >= 0) setText(faultButton, say("fault.go", { turn: trace.frames[run.fault].turn }));
    const [file, name] = sourceOf(state.frame);
    setText(source, name);
    setAttr(source, "title", file && `minisgl_lite/${file}`);
    timeline.update(view, words);
    for (const { panel, section } of panels) if (!section.hidden) panel.update(view);
    if (!tables.hidden) tables.replaceChildren(...stepTables(view));
    link();
    const done = after;
    after = [];
    for (const fn of done) fn();
  }

  function link() {
    for (const { panel, section } of panels) if (!section.hidden && view) panel.link(hover, pin);
  }

  // ---- what reaches it from outside -------------------------------------------------------------
  root.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const target = /** @type {HTMLElement} */ (event.target);
    if (target.matches("input:not([type=range]), select, textarea, summary")) return;
    if (event.key === " " && target.matches("button")) return;
    if (target === tables || target.matches(".kvv-release")) return;
    live?.interrupt();
    if (!timeline.key(event)) return;
    event.preventDefault();
    event.stopPropagation();
  });
  timeline.root.addEventListener("pointerdown", () => live?.interrupt());
  const received = (message) => session?.receive(message);
  model.on?.("msg:custom", received);
  if (session && send && !session.asked) {
    // The page may have been loaded anew: ask for what has happened since.
    session.asked = true;
    session.command({ op: "history" }, send);
  }
  const ahead = () => {
    warming = replay.ahead(6) ? setTimeout(ahead, 30) : 0;
  };
  let warming = setTimeout(ahead, 300);
  /** Prose of the page may move the view: {event, panels, pin}. */
  root.addEventListener("kvv-go", (event) => {
    const { event: name, panels: names, pin: slot } = /** @type {CustomEvent} */ (event).detail;
    const found = name === undefined ? index : findEvent(trace.frames, name);
    for (const panel of names ?? []) if (panel in PANELS) toggle(panel, true);
    if (slot !== undefined) pin = slot;
    if (found >= 0) app.go(found);
  });
  const resize = new ResizeObserver(() => {
    const next = root.clientWidth;
    if (!next || next === width) return;
    width = next;
    shape = width < NARROW ? "narrow" : width < WIDE ? "middle" : "wide";
    arrange();
  });
  resize.observe(root);
  const unfollow = followTheme(root, () => {
    colours = null;
    legend.paint();
    if (view) schedule();
  });
  const forced = matchMedia("(forced-colors: active)");
  const force = () => forced.matches && showTables(true);
  forced.addEventListener("change", force);
  force();
  schedule();

  return () => {
    cancelAnimationFrame(asked);
    clearTimeout(spoken);
    clearTimeout(warming);
    timeline.pause(true);
    live?.stop();
    for (const { panel } of panels) panel.stop?.();
    resize.disconnect();
    unfollow();
    forced.removeEventListener("change", force);
    model.off?.("msg:custom", received);
    root.remove();
  };
}

export default { render };
