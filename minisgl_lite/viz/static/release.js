// Release: the four ranges of cache_req, by slot, and where each goes.

import { el, setText } from "./dom.js";
import { fromRuns } from "./replay.js";
import { slotText } from "./sentences.js";
import { hueOf } from "./slots.js";
import { say } from "./words.js";

/** @param {any} app */
export function releasePanel(app) {
  const note = el("span", { class: "kvv-note" });
  const body = el("div", { class: "kvv-release", tabindex: "0", role: "group", "aria-label": say("panel.release") });
  let shown = -2;

  /** The nearest frame at or before this one that releases something; -1: none. */
  function last(view) {
    for (let i = view.index; i >= 0; i--) if (view.trace.frames[i].release) return i;
    return -1;
  }

  function draw(view, release) {
    const ranges = release.ranges.filter(([, a, b]) => b > a);
    const bar = el("div", { class: "kvv-ranges", "aria-hidden": "true" }, ranges.map(([kind, a, b]) =>
      el("span", { class: `kvv-range kvv-range-${kind}`, style: `flex-grow:${b - a}`, text: `${a}–${b}` })));
    const lines = ranges.map(([kind, a, b, runs]) =>
      el("li", {}, [
        el("span", { class: `kvv-range kvv-range-${kind} kvv-key-box`, "aria-hidden": "true" }),
        el("b", { text: `[${a}, ${b}) ${say(`range.${kind}`)}` }),
        ` ${say("steptable.slots.short")} ${slotText(fromRuns(runs))}: `,
        say(kind === "matched" && !release.finished ? "range.matched.stays" : `range.${kind}.goes`),
      ]));
    const uid = release.uid;
    return el("div", { class: `kvv-hue${hueOf(view, uid)}` }, [
      el("b", { class: "kvv-uid", text: `r${uid}` }),
      ` ${say(release.finished ? "release.head.end" : "release.head.live")}`,
      bar,
      el("ul", {}, lines),
      release.remapped ? el("p", { text: say("sentence.release.remapped", { slots: slotText(fromRuns(release.remapped)) }) }) : null,
    ]);
  }

  return {
    name: "release",
    body,
    head: [note],
    layout() {},
    update(view) {
      const at = last(view);
      const frame = view.trace.frames[at];
      setText(note, at < 0 ? "" : at === view.index ? "" : say("release.last", { turn: frame.turn }));
      if (at === shown) return;
      shown = at;
      body.replaceChildren(...(at < 0 ? [el("p", { class: "kvv-empty", text: say("release.none") })] : frame.release.slice(0, 8).map((r) => draw(view, r))));
    },
    link() {},
  };
}
