// The panel "Why?": what was decided in the sub-step that is shown, and what becomes of the pinned slot.

import { button, el, setAttr } from "./dom.js";
import { Replay } from "./replay.js";
import { asksWhy, slotCard, whyCards } from "./why.js";
import { say } from "./words.js";

/** @param {any} app */
export function whyPanel(app) {
  const body = el("div", { class: "kvv-why", tabindex: "0", role: "group", "aria-label": say("panel.why") });
  const back = button(say("why.back"), () => go(-1), { cls: "kvv-small" });
  const next = button(say("why.next"), () => go(1), { cls: "kvv-small" });
  /** A replay of its own, one frame behind. @type {Replay|null} */
  let replay = null;
  /** @type {import("./slots.js").View} */
  let view = null;
  let shown = "";

  /** The nearest frame with something to explain; -1: none. @param {number} by */
  function nearest(by) {
    const { frames } = view.trace;
    for (let i = view.index + by; i >= 0 && i < frames.length; i += by) if (asksWhy(frames[i])) return i;
    return -1;
  }
  function go(by) {
    const at = nearest(by);
    if (at >= 0) app.go(at);
  }

  function draw(pin) {
    const { trace, meta, index, frame, state, tokens } = view;
    if (replay?.trace !== trace) replay = new Replay(trace);
    const cards = frame ? whyCards({ trace, meta, index, frame, before: replay.at(index - 1), state, tokens }) : [];
    const slot = slotCard(view, pin);
    if (slot) cards.push(slot);
    if (!cards.length) return body.replaceChildren(el("p", { class: "kvv-empty", text: say("why.none") }));
    body.replaceChildren(...cards.map(({ question, lines }) =>
      el("div", { class: "kvv-answer" }, [el("b", { text: question }), el("ul", {}, lines.map((text) => el("li", { text })))])));
  }

  return {
    name: "why",
    body,
    head: [el("span", { class: "kvv-whynav" }, [back, next])],
    /** Whether the sub-step has answers. @param {import("./slots.js").View} now */
    news: (now) => asksWhy(now.frame),
    layout() {},
    update(now) {
      view = now;
      for (const [node, by] of [[back, -1], [next, 1]]) setAttr(node, "aria-disabled", nearest(by) < 0);
      const pin = app.pinned();
      const key = [view.index, view.trace.frames.length, pin].join();
      if (key === shown && replay?.trace === view.trace) return;
      shown = key;
      draw(pin);
      body.scrollTop = 0;
    },
    link() {},
  };
}
