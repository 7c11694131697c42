// Predict, as the reader meets it: a card that asks before a sub-step is shown, cells chosen in the pool or typed, the
// answer judged and explained, its cells marked.

import { button, el, freshId, setAttr, setText } from "./dom.js";
import { isCells, judge, parseSlots, questionWords, questionsAt, scoreOf } from "./predict.js";
import { Replay, snapshot } from "./replay.js";
import { slotText } from "./sentences.js";
import { tokenTexts } from "./tokens.js";
import { count, number, say } from "./words.js";

const PHASES_ASKED = ["admit", "evict", "allocate", "prepare"];
const SIGNS = { right: "✓", missing: "+", wrong: "✕", "": "·" };

/** The page's score, kept as long as the tab. */
function createScore() {
  const key = `kvv-predict:${location.pathname}`;
  const read = () => {
    try {
      return JSON.parse(sessionStorage.getItem(key)) ?? {};
    } catch {
      return kept; // no storage here
    }
  };
  let kept = {};
  return {
    read,
    /** The first answer to a question counts. @param {string} question @param {boolean} right */
    note(question, right) {
      kept = read();
      kept[question] ??= right ? 1 : 0;
      try {
        sessionStorage.setItem(key, JSON.stringify(kept));
      } catch {
        // kept in this view alone, then
      }
    },
  };
}

/**
 * @param {{trace: () => any, go: (index: number) => void, goOn: () => void, off: () => void, left: () => void, announce: (words: string) => void,
 *   open: (panel: string) => void, redraw: () => void, id: string}} view
 */
export function createPredict(view) {
  const score = createScore();
  let on = false;
  /** @type {{questions: import("./predict.js").Question[], at: number, before: any}|null} */
  let asked = null;
  /** Cells chosen for the question of cells. @type {Set<number>} */
  let chosen = new Set();
  /** What was revealed: where, until where its marks stay. @type {{at: number, to: number, cells: any}|null} */
  let revealed = null;
  let done = -1;
  /** Runs seen here: a live one that was begun anew has other questions. @type {any[]} */
  const seen = [];
  /** @type {Replay|null} */
  let replay = null;

  const toggle = button(say("predict"), () => {
    set(!on);
    if (on) view.announce(say("predict.idle"));
    else view.off();
  }, { cls: "kvv-small kvv-predicts" });
  setAttr(toggle, "aria-pressed", "false");
  setAttr(toggle, "title", say("predict.title"));
  const question = el("p", { class: "kvv-asks" });
  const points = el("span", { class: "kvv-score" });
  const fields = el("div", { class: "kvv-fields" });
  const hint = el("p", { class: "kvv-hint" });
  const notes = el("ul", { class: "kvv-verdict", tabindex: "0", "aria-label": say("predict") });
  const card = el("div", { class: "kvv-predict", role: "group", "aria-label": say("predict"), hidden: true }, [
    el("div", { class: "kvv-askhead" }, [question, points]), fields, hint, notes,
  ]);
  /** @type {{q: import("./predict.js").Question, input: any, label: any}[]} */
  let inputs = [];
  const check = button(say("predict.check"), () => commit(), { cls: "kvv-small kvv-check" });
  const skip = button(say("predict.skip"), () => reveal(null), { cls: "kvv-small" });
  const goOn = button(say("predict.go"), () => view.goOn(), { cls: "kvv-small" });

  function set(next) {
    on = next;
    asked = revealed = null;
    done = -1;
    setAttr(toggle, "aria-pressed", on);
    card.hidden = !on;
    showIdle();
    view.redraw();
  }

  function showScore() {
    const { right, all } = scoreOf(score.read());
    setText(points, all ? say("predict.score", { n: number(right), all: number(all) }) : "");
  }

  function showIdle() {
    chosen = new Set();
    inputs = [];
    setText(question, say("predict.idle"));
    fields.replaceChildren();
    notes.replaceChildren();
    setText(hint, "");
    showScore();
  }

  const pool = () => (view.trace().meta.num_pages + 1) * view.trace().meta.page_size;
  const cellQuestion = () => asked?.questions.find(isCells) ?? null;

  // ---- asking -----------------------------------------------------------------------------------------

  /** The state before a frame. @param {number} at */
  function stateBefore(at) {
    if (replay?.trace !== view.trace()) replay = new Replay(view.trace());
    return snapshot(replay.at(at - 1));
  }

  /**
   * Where a move by steps may lead: as far as the next question.
   * @param {number} from
   * @param {number} to
   * @returns {number} `to`, or the frame before the one that is asked about
   */
  function gate(from, to) {
    if (!on || to <= from) return to;
    if (asked && asked.at === from + 1) {
      hold();
      return from;
    }
    const { frames } = view.trace();
    for (let at = from + 1; at <= to; at++) {
      if (at === done || !PHASES_ASKED.includes(frames[at].phase)) continue;
      const before = stateBefore(at);
      const questions = questionsAt(view.trace(), at, before);
      if (!questions.length) continue;
      ask({ questions, at, before });
      return at - 1;
    }
    return to;
  }

  /** The reader would go past an open question: to the answer. */
  function hold() {
    setText(hint, say("predict.first"));
    view.announce(`${question.textContent} ${say("predict.first")}`);
    inputs[0]?.input.focus();
  }

  function ask(next) {
    asked = next;
    revealed = null;
    chosen = new Set();
    const { questions } = asked;
    const hits = questions.length > 1 && questions.every((q) => q.kind === "hit");
    setText(question, hits ? say("predict.q.hits") : questionWords(questions[0], view.trace()));
    inputs = questions.map((q) => {
      const id = freshId("answer");
      const input = el("input", {
        type: "text", id, class: isCells(q) ? "kvv-num kvv-cellsfield" : "kvv-num", inputmode: isCells(q) ? false : "numeric", autocomplete: "off",
        on: {
          keydown(event) {
            event.stopPropagation();
            if (event.key === "Enter" && !event.isComposing) commit();
          },
          input: () => isCells(q) && typed(q, input.value),
        },
      });
      const text = say(`predict.field.${q.kind}`, { uid: q.uid ?? "" });
      return { q, input, label: el("label", {}, [`${text} `, input]) };
    });
    fields.replaceChildren(...inputs.map(({ label }) => label), check, skip);
    notes.replaceChildren();
    const kind = cellQuestion()?.kind ?? "number";
    setText(hint, say(`predict.hint.${kind}`));
    // Where one panel shows at a time, it is the last that is opened.
    if (questions.some((q) => q.kind === "hit" || q.kind === "evict")) view.open("tree");
    if (questions.some(isCells)) view.open("pool");
    view.announce(`${say("predict")}. ${questions.map((q) => questionWords(q, view.trace())).join(" ")} ${hint.textContent}`);
    view.redraw();
  }

  /** Numbers were typed: the cells are chosen that they name. */
  function typed(q, text) {
    const { slots, bad } = parseSlots(text, pool());
    setText(hint, bad ? say("predict.bad", { text: bad, last: pool() - 1 }) : say(`predict.hint.${q.kind}`));
    chosen = new Set(slots.flatMap((slot) => cellsOf(q, slot)));
    view.redraw();
  }

  /** The cells that are chosen with one: for an eviction its whole page. */
  function cellsOf(q, slot) {
    if (q.kind !== "evict") return [slot];
    const P = view.trace().meta.page_size;
    return Array.from({ length: P }, (_, i) => slot - (slot % P) + i);
  }

  /** A cell of the pool was clicked, or Enter pressed on it. @param {number} slot @returns {boolean} whether it was taken as an answer */
  function pick(slot) {
    const q = cellQuestion();
    if (!q || slot < 0) return false;
    const cells = cellsOf(q, slot);
    const was = chosen.has(slot);
    for (const cell of cells) {
      if (was) chosen.delete(cell);
      else chosen.add(cell);
    }
    const P = view.trace().meta.page_size;
    const all = [...chosen].sort((a, b) => a - b);
    const { input } = inputs.find((one) => one.q === q);
    input.value = q.kind === "evict" ? all.filter((cell) => cell % P === 0).join(", ") : slotText(all, Infinity);
    setText(hint, say(`predict.hint.${q.kind}`));
    view.announce(count("predict.chosen", all.length));
    view.redraw();
    return true;
  }

  // ---- the answer ---------------------------------------------------------------------------------------

  function commit() {
    if (!asked) return;
    const given = [];
    for (const { q, input } of inputs) {
      const text = input.value.trim();
      const { slots, bad } = parseSlots(text, isCells(q) ? pool() : 1e9);
      if (bad || (!isCells(q) && slots.length > 1)) {
        const wrong = isCells(q) ? say("predict.bad", { text: bad, last: pool() - 1 }) : say("predict.number", { text });
        setText(hint, wrong);
        view.announce(wrong);
        return input.focus();
      }
      if (slots.length) given.push({ q, slots: isCells(q) ? slots.flatMap((slot) => cellsOf(q, slot)) : slots });
    }
    if (!given.length) {
      setText(hint, say("predict.empty"));
      view.announce(say("predict.empty"));
      return inputs[0].input.focus();
    }
    reveal(given);
  }

  /** @param {{q: import("./predict.js").Question, slots: number[]}[]|null} given null: shown, not counted */
  function reveal(given) {
    if (!asked) return;
    const { questions, at, before } = asked;
    const trace = view.trace();
    const inside = card.contains(document.activeElement);
    const facts = { trace, before, after: snapshot(replay.at(at)), tokens: tokenTexts(trace.vocab, trace.meta.special) };
    const judged = questions.map((q) => {
      const answer = given?.find((one) => one.q === q);
      if (answer) return { q, answer, ...judge(q, answer.slots, facts) };
      const shown = judge(q, q.kind === "evict" ? q.answer.flatMap((start) => cellsOf(q, start)) : q.answer, facts);
      return { q, answer: null, ...shown };
    });
    for (const one of judged) if (one.answer) score.note(`${nameOf(trace)}:${one.q.key}`, one.right);
    const told = given ? judged.filter((one) => one.answer) : judged;
    const words = given ? told.map((one) => one.words) : [say("predict.shown")];
    // That a page is taken is told with the slots, where these are asked for.
    const lines = told.flatMap((one) => (one.q.kind === "pages" && one.right && told.length > 1 ? [] : one.notes.map((note) => ({ ...note, mark: given ? note.mark : "" }))));
    notes.replaceChildren(...lines.map(({ mark, text }) => el("li", { class: `kvv-note-${mark || "plain"}` }, [
      el("b", { "aria-hidden": "true", text: `${SIGNS[mark]} ` }), mark ? el("span", { class: "kvv-sr", text: `${say(`predict.mark.${mark}`)}: ` }) : null, text,
    ])));
    setText(question, words.join(" "));
    setText(hint, "");
    fields.replaceChildren(...inputs.map(({ input, label }) => {
      input.readOnly = true;
      return label;
    }), goOn);
    const cells = told.find((one) => isCells(one.q))?.cells ?? null;
    asked = null;
    chosen = new Set();
    done = at;
    revealed = { at, to: lastOf(trace.frames, at), cells: cells && (given ? cells : { right: cells.right, missing: [], wrong: [] }) };
    showScore();
    view.go(at);
    view.announce([...words, ...lines.slice(0, 3).map((line) => line.text)].join(" "));
    if (inside) goOn.focus();
  }

  /** A name for a run, the same when the page is read again. */
  function nameOf(trace) {
    const facts = (one) => JSON.stringify([one.meta.page_size, one.meta.num_pages, one.meta.cache_type, one.frames[0]?.reqs]);
    if (!seen.includes(trace)) seen.push(trace);
    return [view.id, facts(trace), seen.filter((one) => facts(one) === facts(trace)).indexOf(trace)].join(":");
  }

  /** Marks stay until the step's slots are written. */
  function lastOf(frames, at) {
    let last = at;
    while (last + 1 < frames.length && frames[last + 1].turn === frames[at].turn && !frames[last].stored) last++;
    return last;
  }

  return {
    card, toggle, gate, pick,
    asking: () => asked !== null,
    /** The view stands at a frame: a question that is not the next one any more is dropped, and marks that are over. @param {number} index */
    moved(index) {
      if (asked && index !== asked.at - 1) {
        asked = null;
        showIdle();
        view.left();
      }
      if (revealed && (index < revealed.at || index > revealed.to)) {
        revealed = null;
        if (!asked) showIdle();
      }
      if (index < done - 1) done = -1;
    },
    /** Another run. */
    reset() {
      replay = null;
      if (on) set(true);
    },
    /** Cells to mark in the pool. @returns {{i: number, cls: string}[]} */
    marks() {
      if (asked) return [...chosen].map((i) => ({ i, cls: "chosen" }));
      if (!revealed?.cells) return [];
      return Object.entries(revealed.cells).flatMap(([cls, slots]) => slots.map((i) => ({ i, cls })));
    },
    /** What a cell's mark says. @param {number} slot */
    words(slot) {
      if (asked) return chosen.has(slot) ? `, ${say("predict.chosen")}` : "";
      const mark = Object.entries(revealed?.cells ?? {}).find(([, slots]) => slots.includes(slot));
      return mark ? `, ${say(`predict.mark.${mark[0]}`)}` : "";
    },
  };
}
