// What the page around a view tells it: width, theme, forced colours; and the keys that move the whole view.

import { followTheme } from "./theme.js";

/** Boxes that take the focus, so that the keyboard can scroll them. */
const REGIONS = ".kvv-release, .kvv-reqbox, .kvv-selected, .kvv-why, .kvv-verdict, .kvv-tables";

/** Whether a key scrolls what has the focus, which holds more than it shows. @param {HTMLElement} target @param {string} key */
function scrolls(target, key) {
  if (!target.matches(REGIONS)) return false;
  if (key === "ArrowLeft" || key === "ArrowRight") return target.scrollWidth > target.clientWidth + 1;
  return key !== " " && target.scrollHeight > target.clientHeight + 1;
}

/**
 * @param {HTMLElement} root
 * @param {{resized: (width: number) => void, themed: () => void, forced: () => void, key: (event: KeyboardEvent) => boolean}} tell
 *   `key`: true when the key was used
 * @returns {() => void} stops following
 */
export function followHost(root, { resized, themed, forced, key }) {
  root.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const target = /** @type {HTMLElement} */ (event.target);
    if (target.matches("input:not([type=range]), select, textarea, summary") || scrolls(target, event.key)) return;
    if (event.key === " " && target.matches("button")) return;
    if (!key(event)) return;
    event.preventDefault();
    event.stopPropagation();
  });
  let width = 0;
  const resize = new ResizeObserver(([{ contentRect }]) => {
    const next = root.clientWidth;
    if (!next || next === width) return;
    width = next;
    root.style.setProperty("--kvv-width", `${contentRect.width}px`); // on paper the view is scaled by it
    root.toggleAttribute("data-broad", contentRect.width >= 880); // a container query would make each font set on a canvas lay the page out
    resized(width);
  });
  resize.observe(root);
  const unfollow = followTheme(root, themed);
  const colours = matchMedia("(forced-colors: active)");
  const force = () => colours.matches && forced();
  colours.addEventListener("change", force);
  force();
  return () => {
    resize.disconnect();
    unfollow();
    colours.removeEventListener("change", force);
  };
}
