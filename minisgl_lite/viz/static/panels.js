// The panels under their row of buttons: which are open, how wide each is. Two runs that are compared have each panel
// twice, side by side, under one button.

import { balancePanel } from "./balance.js";
import { button, el, freshId, setAttr } from "./dom.js";
import { queuePanel } from "./free_slots.js";
import { eventsPanel } from "./lanes.js";
import { outLocPanel } from "./out_loc.js";
import { tablePanel } from "./page_table.js";
import { poolPanel } from "./pool.js";
import { releasePanel } from "./release.js";
import { requestsPanel } from "./requests.js";
import { selectedPanel } from "./selected.js";
import { treePanel } from "./tree.js";
import { whyPanel } from "./why_panel.js";
import { say } from "./words.js";

const PANELS = {
  why: whyPanel, requests: requestsPanel, page_table: tablePanel, pool: poolPanel, out_loc: outLocPanel, free_slots: queuePanel,
  tree: treePanel, release: releasePanel, events: eventsPanel, selected: selectedPanel, balance: balancePanel,
};
const DEFAULT_PANELS = ["requests", "page_table", "pool"];
const NARROW = 560;
const WIDE = 960;

/** @param {number} width of the whole view */
export function shapeOf(width) {
  return width < NARROW ? "narrow" : width < WIDE ? "middle" : "wide";
}

/**
 * @param {HTMLElement} root gets the shape
 * @param {any[]} apps one per run
 * @param {{options: any, storeKey: string, labels?: string[], changed: () => void}} how `labels`: the runs' names
 */
export function createPanels(root, apps, { options, storeKey, labels = [], changed }) {
  let shape = "";
  const open = new Set(remembered() ?? options.panels ?? DEFAULT_PANELS);
  let tab = [...open][0] ?? "requests";
  const tabs = el("div", { class: "kvv-tabs" });
  const box = el("div", { class: "kvv-panels" });
  const panels = Object.keys(PANELS).map(makePanel);

  function makePanel(name) {
    const parts = apps.map((app, side) => makePart(name, app, labels[side]));
    const tabNode = button(say(`panel.${name}`), () => toggle(name), { cls: "kvv-tab" });
    setAttr(tabNode, "aria-controls", parts.map((part) => part.section.id).join(" "));
    tabs.append(tabNode);
    box.append(...parts.map((part) => part.section));
    return { name, parts, tab: tabNode };
  }

  function makePart(name, app, label = "") {
    const id = freshId(name);
    const panel = PANELS[name](app);
    const title = el("span", { class: "kvv-name", id: `${id}-name`, text: [label, say(`panel.${name}`)].filter(Boolean).join(" · ") });
    const section = el("div", { class: `kvv-panel kvv-panel-${name}`, id, role: "group", "aria-labelledby": `${id}-name` }, [
      el("div", { class: "kvv-panelhead" }, [title, ...panel.head]), panel.body,
    ]);
    return { panel, section };
  }

  function remembered() {
    try {
      const names = JSON.parse(sessionStorage.getItem(storeKey));
      return Array.isArray(names) ? names.filter((name) => name in PANELS) : null;
    } catch {
      return null; // no storage here
    }
  }

  /** @param {string} name @param {boolean} [on] */
  function toggle(name, on) {
    if (!(name in PANELS)) return;
    if (shape === "narrow") tab = name;
    else {
      if (on ?? !open.has(name)) open.add(name);
      else open.delete(name);
      try {
        sessionStorage.setItem(storeKey, JSON.stringify([...open]));
      } catch {
        // not remembered, then
      }
    }
    arrange();
  }

  const isOpen = (name) => (shape === "narrow" && !options.small ? name === tab : open.has(name));

  /** Which panels show, what their buttons say, how wide each is. @param {string} [next] the shape, where it changes */
  function arrange(next = shape) {
    shape = next;
    const narrow = shape === "narrow";
    setAttr(root, "data-shape", shape);
    setAttr(tabs, "role", narrow ? "tablist" : "group");
    setAttr(tabs, "aria-label", say("panels"));
    tabs.hidden = !!options.small;
    for (const { name, parts, tab: node } of panels) {
      for (const { section } of parts) {
        section.hidden = !isOpen(name);
        setAttr(section, "role", narrow ? "tabpanel" : "group");
      }
      if (narrow) setAttr(node, "role", "tab");
      else node.removeAttribute("role");
      setAttr(node, narrow ? "aria-selected" : "aria-pressed", isOpen(name));
      node.removeAttribute(narrow ? "aria-pressed" : "aria-selected");
      setAttr(node, "tabindex", narrow && name !== tab ? "-1" : "0");
    }
    apps.forEach((_, side) => shown(side).forEach((panel) => panel.layout(panel.body.clientWidth)));
    changed();
  }

  /** Make the panels anew: they show another run now. */
  function renew() {
    for (const { name, parts } of panels) {
      parts.forEach((part, side) => {
        part.panel.stop?.();
        part.panel = PANELS[name](apps[side]);
        part.section.firstChild.replaceChildren(part.section.firstChild.firstChild, ...part.panel.head);
        part.section.lastChild.replaceWith(part.panel.body);
      });
    }
    arrange();
  }

  const shown = (side) => panels.filter(({ name }) => isOpen(name)).map(({ parts }) => parts[side].panel);

  tabs.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by || shape !== "narrow") return;
    const i = panels.findIndex((p) => p.name === tab);
    const next = panels[(i + by + panels.length) % panels.length];
    toggle(next.name);
    next.tab.focus();
    event.preventDefault();
    event.stopPropagation();
  });

  return {
    tabs, box, toggle, arrange, isOpen, renew,
    shape: () => shape,
    /** @param {import("./slots.js").View} view @param {number} [side] */
    update(view, side = 0) {
      for (const { parts, tab: node } of panels) if (parts[side].panel.news && !side) node.toggleAttribute("data-news", parts[side].panel.news(view));
      shown(side).forEach((panel) => panel.update(view));
    },
    /** @param {number} hover @param {number} pin @param {number} [side] */
    link: (hover, pin, side = 0) => shown(side).forEach((panel) => panel.link(hover, pin)),
    stop: () => panels.forEach(({ parts }) => parts.forEach(({ panel }) => panel.stop?.())),
  };
}
