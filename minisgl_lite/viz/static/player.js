// One run under the timeline: its trace, the replay, and what a panel needs to show a frame of it.

import { setAttr } from "./dom.js";
import { findEvent } from "./events.js";
import { Replay, currentBatch, slotRoom, slotStates } from "./replay.js";
import { survey } from "./run.js";
import { sentence } from "./sentences.js";
import { tokenTexts } from "./tokens.js";
import { say } from "./words.js";

/** @param {any} first the trace to begin with */
export function createPlayer(first) {
  let [trace, replay, run, tokens, room] = [null, null, null, null, null];
  let warming = 0;

  /** Take up a trace. @param {any} next @param {boolean} fresh another run, not more frames of this one */
  function load(next, fresh) {
    trace = next;
    run = survey(trace);
    if (!fresh) return void (replay.trace = trace);
    replay = new Replay(trace);
    tokens = tokenTexts(trace.vocab, trace.meta.special);
    room = slotRoom((trace.meta.num_pages + 1) * trace.meta.page_size);
    clearTimeout(warming);
    warming = setTimeout(ahead, 300);
  }
  function ahead() {
    warming = replay.ahead(6) ? setTimeout(ahead, 30) : 0;
  }
  load(first, true);

  return {
    load,
    get trace() {
      return trace;
    },
    get run() {
      return run;
    },
    last: () => trace.frames.length - 1,
    /** The frame to open at. @param {string|number|undefined} start an event's name or an index */
    startIndex(start) {
      const end = trace.frames.length - 1;
      if (typeof start === "number") return Math.max(-1, Math.min(end, start));
      const found = start ? findEvent(trace.frames, start) : -1;
      return found >= 0 ? found : Math.min(0, end);
    },
    /**
     * The run after frame `index`. It holds until the next call.
     * @param {number} index
     * @param {number} pin the pinned slot; -1: none
     * @returns {import("./slots.js").View}
     */
    view(index, pin) {
      const state = replay.at(index);
      slotStates(state, room);
      const picked = pin >= 0 && room.uid[pin] >= 0 ? room.uid[pin] : null;
      return { trace, meta: trace.meta, index, frame: state.frame, state, slots: room, batch: currentBatch(state), tokens, run, picked };
    },
    /** What a view shows, in words. @param {import("./slots.js").View} view @param {string} [empty] key of the words before the first frame */
    words: (view, empty = "sentence.empty") => (view.state.frame ? sentence(view.state, tokens) : say(empty)),
    /** A token's text. @param {number} id */
    tokenText: (id) => tokens.whole(id),
    stop: () => clearTimeout(warming),
  };
}

/** The phase of a view's frame, with the kind of its batch. @param {import("./slots.js").View} view */
export function phaseWords({ batch, frame }) {
  if (!frame) return "";
  const kind = batch && frame.phase !== "forward" ? `${say(`step.${batch.info.phase}`)} · ` : "";
  return `${kind}${say(`phase.${frame.phase}`)}`;
}

/** A run's name and settings. @param {any} meta @param {string} [title] in place of the model's name */
export function titleWords({ model, page_size: P, num_pages: N, cache_type: cache, mode, loop }, title) {
  const extra = [loop === "overlap" ? say("title.overlap") : "", mode === "quick" ? say("mode.quick") : ""].filter(Boolean);
  return [title || say("title", { model }), say("title.facts", { P, N, cache }), ...extra].join(" · ");
}

/** A view is a landmark of its page, with a name no other view there has. @param {HTMLElement} root @param {string} title @param {string} [name] */
export function nameRegion(root, title, name) {
  setAttr(root, "role", "region");
  setAttr(root, "aria-label", name ? say("title.named", { title, name }) : title);
}
