// Release: the four ranges of cache_req, by slot, and where each goes.

import { el, setAttr, setText } from "./dom.js";
import { fromRuns } from "./replay.js";
import { slotText } from "./sentences.js";
import { hueOf } from "./slots.js";
import { say } from "./words.js";

const [HEAD, LINE, CHAR, MOST] = [50, 19, 6.4, 320];
/** Releases of one frame that are drawn. */
const RELEASES = 8;

/** One range in words: where it lies, and where it goes. */
function rangeWords(release, [kind, a, b, runs]) {
  return {
    name: `[${a}, ${b}) ${say(`range.${kind}`)}`,
    goes: ` ${say("steptable.slots.short")} ${slotText(fromRuns(runs))}: ${say(kind === "matched" && !release.finished ? "range.matched.stays" : `range.${kind}.goes`)}`,
  };
}

/**
 * The height of a frame's releases, so that the largest of a run is not cut off.
 * @param {any[]} releases
 * @param {number} width
 */
export function releaseHeight(releases, width) {
  const lines = (text, indent) => Math.max(1, Math.ceil((text.length * CHAR + indent) / Math.max(60, width)));
  let height = 0;
  for (const release of releases.slice(0, RELEASES)) {
    height += HEAD;
    for (const range of release.ranges) {
      const { name, goes } = rangeWords(release, range);
      if (range[2] > range[1]) height += LINE * lines(name + goes, 34);
    }
    if (release.remapped) height += LINE * lines(say("sentence.release.remapped", { slots: slotText(fromRuns(release.remapped)) }), 0);
  }
  return height;
}

/** @param {any} app */
export function releasePanel(app) {
  const note = el("span", { class: "kvv-note" });
  const body = el("div", { class: "kvv-release", tabindex: "0", role: "group", "aria-label": say("panel.release") });
  let shown = -2;
  let picked = null; // it has a hue of its own
  let width = 0;
  /** The room that the frames looked at so far need. */
  let room = { trace: null, frames: 0, width: 0, height: 0 };

  /** Fixed room for the run, so that frames don't jump. */
  function fit(trace) {
    if (room.trace !== trace || room.width !== width) room = { trace, frames: 0, width, height: 0 };
    for (; room.frames < trace.frames.length; room.frames++) {
      const { release } = trace.frames[room.frames];
      if (release) room.height = Math.max(room.height, releaseHeight(release, width - 8));
    }
    setAttr(body, "style", `height:${Math.max(96, Math.min(MOST, room.height))}px`);
  }

  /** The nearest frame at or before this one that releases something; -1: none. */
  function last(view) {
    for (let i = view.index; i >= 0; i--) if (view.trace.frames[i].release) return i;
    return -1;
  }

  function draw(view, release) {
    const ranges = release.ranges.filter(([, a, b]) => b > a);
    const bar = el("div", { class: "kvv-ranges", "aria-hidden": "true" }, ranges.map(([kind, a, b]) =>
      el("span", { class: `kvv-range kvv-range-${kind}`, style: `flex-grow:${b - a}`, text: `${a}–${b}` })));
    const lines = ranges.map((range) => {
      const { name, goes } = rangeWords(release, range);
      return el("li", {}, [el("span", { class: `kvv-range kvv-range-${range[0]} kvv-key-box`, "aria-hidden": "true" }), el("b", { text: name }), goes]);
    });
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
    layout(w) {
      width = w;
    },
    update(view) {
      fit(view.trace);
      const at = last(view);
      const frame = view.trace.frames[at];
      setText(note, at < 0 ? "" : at === view.index ? "" : say("release.last", { turn: frame.turn }));
      if (at === shown && view.picked === picked) return;
      [shown, picked] = [at, view.picked];
      body.replaceChildren(...(at < 0 ? [el("p", { class: "kvv-empty", text: say("release.none") })] : frame.release.slice(0, RELEASES).map((r) => draw(view, r))));
    },
    link() {},
  };
}
