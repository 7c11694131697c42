/* Sends ipywidgets' html-manager to the vendored files instead of a CDN. It stands after require.js
   and before embed-amd.js on pages that hold widgets other than our own. */
(() => {
  "use strict";
  const me = document.currentScript;
  const npm = new URL("vendor/npm/", me.src).href; // absolute, whatever the page's depth or scheme
  const dist = npm + "@jupyter-widgets/html-manager/dist/";
  me.setAttribute("data-jupyter-widgets-cdn", npm); // html-manager looks for this on every script
  window.__jupyter_widgets_assets_path__ = dist;
  window.require.config({
    baseUrl: npm,
    paths: {
      anywidget: "anywidget/index",
      // Both are defined inside embed-amd.js; the paths only tell it where its fonts lie.
      "@jupyter-widgets/html-manager": dist + "embed-amd",
      "@jupyter-widgets/html-manager/dist/libembed-amd": dist + "libembed-amd",
    },
  });
})();
