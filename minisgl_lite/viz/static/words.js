// The catalogue of words. Every word a reader sees comes from text/en.json by its key.

/** @type {Object<string, string>} */
let catalogue = {};
/** Texts cut at their names once: every second part is a name. @type {Map<string, string[]>} */
const cutTexts = new Map();

/** Set the catalogue; assembled modules do it once, tests do it from the file. @param {Object<string, string>} words */
export function useWords(words) {
  catalogue = words;
  cutTexts.clear();
}

/**
 * The text of a key with its {names} filled in. A missing key shows as itself, so that it is seen.
 * @param {string} key
 * @param {Object<string, string|number>} [values]
 * @returns {string}
 */
export function say(key, values = {}) {
  let parts = cutTexts.get(key);
  if (!parts) {
    if (catalogue[key] === undefined) return `[${key}]`;
    cutTexts.set(key, (parts = catalogue[key].split(/\{(\w+)\}/)));
  }
  let text = parts[0];
  for (let i = 1; i < parts.length; i += 2) text += (parts[i] in values ? values[parts[i]] : `{${parts[i]}}`) + parts[i + 1];
  return text;
}

/**
 * Singular or plural: `key.one` or `key.many`, with {n}.
 * @param {string} key
 * @param {number} n
 * @param {Object<string, string|number>} [values]
 */
export function count(key, n, values = {}) {
  return say(`${key}.${n === 1 ? "one" : "many"}`, { n: number(n), ...values });
}

/** A number for people: 4,096. @param {number} n */
export function number(n) {
  return Math.abs(n) < 1000 ? String(n) : String(n).replace(/\B(?=(\d{3})+$)/g, ",");
}
