// The calculator: fields, what follows from them, and a table over page sizes.

import { freeBytes, sizes } from "./formula.js";

/** The fields: name, label, step, hint. */
const FIELDS = [
  ["layers", "layers L", 1],
  ["kv_heads", "KV heads", 1],
  ["head_dim", "head_dim D", 1],
  ["billions", "parameters, 10⁹", "any"],
  ["memory_gib", "memory of one GPU, GiB", "any"],
  ["memory_ratio", "part of what is free", "any"],
  ["ranks", "ranks (tensor parallel)", 1],
  ["page_size", "page size P", 1],
  ["input_len", "prompt tokens", 1],
  ["output_len", "output tokens", 1],
  ["rows", "max_running_req", 1],
];
const OWN = "your numbers";
const ITEMSIZES = [[4, "fp32, 4 bytes"], [2, "bf16 or fp16, 2 bytes"], [1, "fp8, 1 byte"]];
const PAGE_SIZES = [1, 4, 16, 64, 256];

const whole = (/** @type {number} */ n) => n.toLocaleString("en-US");

/** Bytes in the largest unit that leaves a number of 1 or more. @param {number} n */
function bytes(n) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let k = 0;
  while (k < units.length - 1 && n >= 1024) {
    n /= 1024;
    k += 1;
  }
  return `${k === 0 ? n : Number(n.toFixed(1)).toLocaleString("en-US")} ${units[k]}`;
}

/** @param {string} tag @param {Record<string, any>} [properties] @param {(Node|string)[]} children */
function make(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

/** What `sizes` takes, from the values of the fields. @param {Record<string, number>} values */
function asked(values, page_size = values.page_size) {
  const { billions, memory_gib, ...rest } = values;
  return { ...rest, page_size, free: freeBytes(memory_gib, billions, values.itemsize, values.ranks) };
}

/** The list of results. @param {Record<string, number>} values */
function results(values) {
  const found = sizes(asked(values));
  const rows = [
    ["KV heads on one rank", whole(found.heads)],
    ["K and V of one token", `${whole(found.bytes_per_token)} bytes`],
    ["one page", bytes(found.bytes_per_page)],
    ["pages N", whole(found.num_pages)],
    ["tokens on one GPU", whole(found.tokens)],
    ["pages of one request", `${whole(found.pages_per_request)} (${whole(found.waste)} slots empty)`],
    ["requests at once", `${whole(found.admitted)}${found.admitted === values.rows ? " (as many as rows)" : ""}`],
  ];
  return rows.flatMap(([term, text]) => [make("dt", {}, term), make("dd", {}, text)]);
}

/** A row per page size. @param {Record<string, number>} values */
function table(values) {
  const all = [...new Set([...PAGE_SIZES, values.page_size])].sort((a, b) => a - b);
  const head = ["P", "pages N", "of one request", "slots empty", "requests at once"];
  const body = all.map((page_size) => {
    const found = sizes(asked(values, page_size));
    const cells = [found.num_pages, found.pages_per_request, found.waste, found.admitted].map((n) => make("td", {}, whole(n)));
    const row = make("tr", {}, make("th", { scope: "row" }, whole(page_size)), ...cells);
    if (page_size === values.page_size) row.setAttribute("aria-current", "true");
    return row;
  });
  return [
    make("thead", {}, make("tr", {}, ...head.map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, ...body),
  ];
}

/** @param {{ model: any, el: HTMLElement }} context @returns {() => void} */
function render({ model, el }) {
  const presets = JSON.parse(model.get("models"));
  const stop = new AbortController();
  /** @type {Record<string, HTMLInputElement|HTMLSelectElement>} */
  const inputs = {};
  const id = `kvs-${Math.random().toString(36).slice(2)}`;
  const label = (/** @type {string} */ text, /** @type {HTMLElement} */ input) => {
    input.id = `${id}-${text.replace(/\W+/g, "-")}`;
    return make("div", { className: "kvs-field" }, make("label", { htmlFor: input.id }, text), input);
  };

  const name = make("select", {}, ...[...presets.map((/** @type {any} */ p) => p.name), OWN].map((text) => make("option", { value: text }, text)));
  inputs.itemsize = make("select", {}, ...ITEMSIZES.map(([value, text]) => make("option", { value }, text)));
  const fields = FIELDS.map(([field, text, step]) => {
    inputs[field] = make("input", { type: "number", min: step === 1 ? 1 : 0, step, inputMode: "decimal", required: true });
    return label(text, inputs[field]);
  });
  const form = make("form", { className: "kvs-form" }, label("model", name), label("one number", inputs.itemsize), ...fields);
  const problem = make("p", { className: "kvs-problem" });
  problem.setAttribute("role", "status");
  const list = make("dl", { className: "kvs-results" });
  const grid = make("table", { className: "kvs-table" });
  const scroll = make("div", { className: "kvs-scroll", tabIndex: 0 }, grid);
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", "Over page sizes");
  const answer = make("div", { className: "kvs-answer" }, problem, list, scroll);
  const root = make("section", { className: "kvs" }, form, answer);
  root.setAttribute("aria-label", "Size of the KV cache");

  const read = () => Object.fromEntries(Object.entries(inputs).map(([field, input]) => [field, input.value === "" ? NaN : Number(input.value)]));

  function show() {
    const values = read();
    problem.textContent = "";
    const bad = Object.entries(inputs).find(([, input]) => !input.checkValidity());
    try {
      if (bad) throw new RangeError(`${bad[0]}: ${bad[1].validationMessage}`);
      list.replaceChildren(...results(values));
      grid.replaceChildren(...table(values));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      problem.textContent = error.message;
      list.replaceChildren();
      grid.replaceChildren();
    }
  }

  function fill() {
    const values = JSON.parse(model.get("values"));
    name.value = values.model;
    for (const [field, input] of Object.entries(inputs)) input.value = String(values[field]);
    show();
  }

  function keep() {
    model.set("values", JSON.stringify({ model: name.value, ...read() }));
    model.save_changes();
  }

  const on = (/** @type {EventTarget} */ target, /** @type {string} */ event, /** @type {(e: any) => void} */ act) =>
    target.addEventListener(event, act, { signal: stop.signal });
  on(form, "submit", (event) => event.preventDefault());
  on(name, "change", () => {
    const preset = presets.find((/** @type {any} */ p) => p.name === name.value);
    for (const field of ["layers", "kv_heads", "head_dim", "billions"]) if (preset) inputs[field].value = String(preset[field]);
    show();
    keep();
  });
  on(form, "input", (event) => {
    if (["layers", "kv_heads", "head_dim", "billions"].some((field) => inputs[field] === event.target)) name.value = OWN;
    show();
  });
  on(form, "change", keep);
  // Keys belong to the fields here, not to the notebook around them.
  on(root, "keydown", (event) => event.stopPropagation());
  model.on("change:values", fill);
  fill();
  el.append(root);
  return () => {
    stop.abort();
    model.off("change:values", fill);
    root.remove();
  };
}

export default { render };
