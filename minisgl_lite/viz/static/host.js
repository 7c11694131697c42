// What the page around a view tells it: width, theme, forced colours; and the keys that move the whole view.

import { followTheme } from "./theme.js";

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
    if (target.matches("input:not([type=range]), select, textarea, summary, .kvv-release")) return;
    if (event.key === " " && target.matches("button")) return;
    if (!key(event)) return;
    event.preventDefault();
    event.stopPropagation();
  });
  let width = 0;
  const resize = new ResizeObserver(() => {
    const next = root.clientWidth;
    if (!next || next === width) return;
    width = next;
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
