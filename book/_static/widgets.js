/* Mounts the anywidgets of a built page straight from the widget state in the page: no kernel, no
   network, no html-manager. It offers a widget's module what anywidget offers it in a notebook:
   `initialize({ model })` once, `render({ model, el })` for each place. `model.static` is true. */
(() => {
  "use strict";
  const STATE = "application/vnd.jupyter.widget-state+json";
  const VIEW = "application/vnd.jupyter.widget-view+json";

  /** A model without a kernel behind it: `set` changes this page only, `send` goes nowhere. */
  class Model {
    static = true;
    widget_manager = null;
    #state;
    #listeners = []; // { event, callback }

    constructor(state) {
      this.#state = { ...state };
    }

    get(name) {
      return this.#state[name];
    }

    set(nameOrValues, value) {
      const values = typeof nameOrValues === "string" ? { [nameOrValues]: value } : nameOrValues;
      const changed = Object.keys(values).filter((name) => this.#state[name] !== values[name]);
      Object.assign(this.#state, values);
      for (const name of changed) this.#emit(`change:${name}`, values[name]);
      if (changed.length) this.#emit("change");
      return this;
    }

    save_changes() {}

    send() {}

    on(events, callback) {
      for (const event of events.split(/\s+/)) this.#listeners.push({ event, callback });
      return this;
    }

    off(events, callback) {
      const names = events ? events.split(/\s+/) : null;
      this.#listeners = this.#listeners.filter(
        (l) => (names && !names.includes(l.event)) || (callback && callback !== l.callback),
      );
      return this;
    }

    #emit(event, ...details) {
      for (const l of [...this.#listeners]) if (l.event === event) l.callback(this, ...details);
    }
  }

  const experimental = {
    invoke: () => Promise.reject(new Error("There is no kernel behind a built page.")),
  };
  const modules = new Map(); // source key -> promise of the widget's definition
  const models = new Map(); // model id -> promise of { model, definition }
  const signals = new AbortController();

  /** @param {string} source text of an ES module; @returns its default export, called if it is a function */
  async function define(source) {
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    try {
      const exported = (await import(url)).default;
      return typeof exported === "function" ? await exported() : exported;
    } finally {
      URL.revokeObjectURL(url);
    }
  }

  function once(map, key, make) {
    if (!map.has(key)) map.set(key, make());
    return map.get(key);
  }

  function addStyle(css, key) {
    if (!css || document.querySelector(`style[data-widget="${key}"]`)) return;
    const style = document.createElement("style");
    style.dataset.widget = key;
    style.textContent = css;
    document.head.append(style);
  }

  /** Cleanups run when the page goes for good, not when the browser keeps it to come back to. */
  function keep(cleanup) {
    if (typeof cleanup === "function") signals.signal.addEventListener("abort", () => cleanup());
  }

  async function open(page, id) {
    const { state } = page.state[id];
    const definition = await once(modules, state._esm, () => define(page.sources[state._esm]));
    addStyle(page.sources[state._css], state._css);
    const model = new Model(state);
    keep(await definition.initialize?.({ model, experimental, signal: signals.signal }));
    return { model, definition };
  }

  async function mount(page, script) {
    const el = document.createElement("div");
    el.className = "static-widget";
    script.replaceWith(el);
    try {
      const id = JSON.parse(script.textContent).model_id;
      const { model, definition } = await once(models, id, () => open(page, id));
      keep(await definition.render?.({ model, el, experimental, signal: signals.signal }));
    } catch (error) {
      el.textContent = `This picture could not be drawn: ${error.message}`;
      console.error(error);
    }
  }

  const script = document.querySelector(`script[type="${STATE}"]`);
  if (script) {
    const page = JSON.parse(script.textContent);
    for (const view of document.querySelectorAll(`script[type="${VIEW}"]`)) mount(page, view);
    window.addEventListener("pagehide", (event) => event.persisted || signals.abort());
  }
})();
