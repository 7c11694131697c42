// The catalogue, as the views read it, and the run that Python's replay has explained.
import { readFileSync } from "node:fs";
import { useWords } from "../../minisgl_lite/viz/static/words.js";

const read = (path) => JSON.parse(readFileSync(new URL(path, import.meta.url), "utf8"));
export const catalogue = read("../../minisgl_lite/text/en.json");
export const runs = read("./run.json");
export const pairs = read("./pairs.json");
export const decisions = read("./decisions.json");
useWords(catalogue);
