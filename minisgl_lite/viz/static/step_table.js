// The step as tables: for screen readers, for forced colours, for copying numbers.

import { el } from "./dom.js";
import { faultsOf } from "./events.js";
import { KIND_NAMES } from "./replay.js";
import { faultText, slotText } from "./sentences.js";
import { isolate } from "./tokens.js";
import { say, number } from "./words.js";

function table(caption, head, rows) {
  return el("table", {}, [
    el("caption", { text: caption }),
    el("thead", {}, [el("tr", {}, head.map((text) => el("th", { scope: "col", text })))]),
    el("tbody", {}, rows.map((cells) =>
      el("tr", {}, cells.map((text, i) => el(i ? "td" : "th", { scope: i ? false : "row", text: String(text) }))))),
  ]);
}

/**
 * @param {import("./slots.js").View} view
 * @returns {HTMLElement[]}
 */
export function stepTables(view) {
  const { state, slots, batch, frame } = view;
  const none = say("steptable.none");
  const caption = frame
    ? say("steptable.caption", { turn: frame.turn, sub: frame.sub + 1, phase: say(`phase.${frame.phase}`) })
    : say("sentence.empty");
  const reqs = [...state.reqs.values()].slice(-64).map((req) => [
    `r${req.uid}`, say(`state.${req.state}`), req.row ?? "–", req.cached_len, req.device_len, req.max_device_len,
    req.row === null ? "–" : slotText(state.rows[req.row].subarray(0, req.alloc_end), 40) || none,
    isolate(view.tokens.running(req.ids).map((piece) => piece.text).join("")),
  ]);
  const byKind = KIND_NAMES.map((name, kind) => {
    const found = [];
    for (let slot = 0; slot < slots.kind.length; slot++) if (slots.kind[slot] === kind) found.push(slot);
    return [say(`slot.${name}`), number(found.length), slotText(found, 40) || none];
  }).filter((row, kind) => kind !== 0 || row[1] !== "0");
  const out = batch ? batch.slots.map((slot, i) => `${batch.tokens[i].uid < 0 ? say("slot.dummy") : `r${batch.tokens[i].uid}[${batch.tokens[i].pos}]`} → ${slot}`) : [];
  const faults = faultsOf(frame).slice(0, 256).map(faultText);
  return [
    ...(faults.length ? [el("p", {}, [el("b", { text: `${say("steptable.faults")}: ` }), `${faults.join("; ")}.`])] : []),
    table(caption, ["request", "state", "row", "cached", "device", "max", "slots", "text"].map((key) => say(`steptable.${key}`)), reqs),
    table(say("steptable.pool"), [say("steptable.state"), say("steptable.count"), say("steptable.which")], byKind),
    el("p", {}, [el("b", { text: `${say("steptable.free")}: ` }), state.free.slice(0, 256).join(", ") || none]),
    el("p", {}, [el("b", { text: `${say("steptable.out")}: ` }), out.slice(0, 256).join(", ") || none]),
  ];
}
