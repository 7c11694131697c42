// Variants of a run: the reader chooses page size, prefix cache, prompts, … and the recorded run changes at once.

import { el, freshId, setAttr, setText } from "./dom.js";
import { say } from "./words.js";

/**
 * @typedef {Object} Grid
 * @property {{name: string, values: any[]}[]} axes
 * @property {(place: number[]) => any} trace the run at a place, an index per axis
 * @property {(digest: string) => number[]|null} find where the run with a digest stands
 */

/**
 * The number of a place, the last axis fastest; and back.
 * @param {number[]} sizes @param {number[]} place
 */
export function placeToNumber(sizes, place) {
  return place.reduce((number, i, axis) => number * sizes[axis] + i, 0);
}

/** @param {number[]} sizes @param {number} number @returns {number[]} */
export function numberToPlace(sizes, number) {
  const place = [];
  for (let axis = sizes.length - 1; axis >= 0; axis--) {
    place.unshift(number % sizes[axis]);
    number = Math.floor(number / sizes[axis]);
  }
  return place;
}

/** What an axis is called. @param {string} name */
function axisWords(name) {
  const text = say(`variants.${name}`);
  return text.startsWith("[") ? name.replaceAll("_", " ") : text;
}

/**
 * The row of choices.
 * @param {Grid} grid
 * @param {number[]} at the place to begin with
 * @param {(place: number[]) => void} chosen
 */
export function createChooser(grid, at, chosen) {
  const place = [...at];
  const controls = grid.axes.map(makeControl);
  const root = el("div", { class: "kvv-variants", role: "group", "aria-label": say("variants"),
    // Arrows choose here; they would move the timeline, too.
    on: { keydown: (event) => event.key !== "Escape" && event.stopPropagation() },
  }, controls.map((control) => control.root));

  function makeControl({ name, values }, axis) {
    const id = freshId("variant");
    const label = el("label", { for: id, text: axisWords(name) });
    const choose = (i) => {
      if (i === place[axis]) return;
      place[axis] = i;
      show();
      chosen([...place]);
    };
    if (values.length < 3 || !values.every((value) => typeof value === "number")) {
      const input = el("select", { id, class: "kvv-select", on: { change: () => choose(Number(input.value)) } },
        values.map((value, i) => el("option", { value: i, text: String(value) })));
      return { root: el("span", { class: "kvv-choice" }, [label, input]), show: () => (input.value = String(place[axis])) };
    }
    const input = el("input", { type: "range", id, min: 0, max: values.length - 1, step: 1, class: "kvv-axis", on: { input: () => choose(Number(input.value)) } });
    const value = el("b", { class: "kvv-value", "aria-hidden": "true" });
    return {
      root: el("span", { class: "kvv-choice" }, [label, input, value]),
      show() {
        input.value = String(place[axis]);
        setAttr(input, "aria-valuetext", values[place[axis]]);
        setText(value, String(values[place[axis]]));
      },
    };
  }

  function show() {
    for (const control of controls) control.show();
  }
  show();

  return {
    root,
    /** Show another place as the chosen one. @param {number[]} to */
    set(to) {
      to.forEach((i, axis) => (place[axis] = i));
      show();
    },
  };
}
