// The catalogue of words. Every word a reader sees comes from text/en.json by its key.

/** @type {Object<string, string>} */
let catalogue = {};

/** Set the catalogue; assembled modules do it once, tests do it from the file. @param {Object<string, string>} words */
export function useWords(words) {
  catalogue = words;
}

/**
 * The text of a key with its {names} filled in. A missing key shows as itself, so that it is seen.
 * @param {string} key
 * @param {Object<string, string|number>} [values]
 * @returns {string}
 */
export function say(key, values = {}) {
  const text = catalogue[key];
  if (text === undefined) return `[${key}]`;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
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
  return String(n).replace(/\B(?=(\d{3})+$)/g, ",");
}
