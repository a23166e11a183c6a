"use strict";
(() => {
  const all = (where, what) => [...where.querySelectorAll(what)];
  const root = document.documentElement;

  // Light or dark: the system's choice until the button is used; remembered where the browser allows it.
  const button = document.getElementById("theme");
  const dark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const remember = (value) => {
    try { return value ? localStorage.setItem("glocalfair-theme", value) : localStorage.getItem("glocalfair-theme"); }
    catch { return null; }
  };
  const name = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Use ${dark() ? "light" : "dark"} colours`);
  };
  const stored = remember();
  if (stored === "dark" || stored === "light") root.dataset.theme = stored;
  name();
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    remember(root.dataset.theme);
    name();
  });

  // Tooltips, by pointer and by keyboard: one stop for a panel, arrows go from mark to mark.
  const tip = document.getElementById("tip");
  let shown = null;
  const show = (mark) => {
    shown = mark;
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    const at = mark.getBoundingClientRect(), own = tip.getBoundingClientRect();
    const left = Math.min(Math.max(at.left + at.width / 2 - own.width / 2, 4), innerWidth - own.width - 4);
    const above = at.top - own.height - 8;
    tip.style.left = `${left}px`;
    tip.style.top = `${above > 4 ? above : at.bottom + 8}px`;
  };
  const hide = () => { tip.hidden = true; shown = null; };
  const markOf = (event) => (event.target.closest ? event.target.closest("[data-tip]") : null);
  for (const kind of ["pointerover", "focusin"]) {
    document.addEventListener(kind, (event) => { const mark = markOf(event); if (mark) show(mark); });
  }
  for (const kind of ["pointerout", "focusout"]) {
    document.addEventListener(kind, (event) => { if (markOf(event)) hide(); });
  }
  // Focus may scroll the page or a panel: the tooltip stays with its mark.
  addEventListener("scroll", () => { if (shown) show(shown); }, { passive: true, capture: true });
  for (const panel of all(document, "svg.panel")) {
    all(panel, "[data-tip]").forEach((mark, i) => {
      mark.setAttribute("tabindex", i ? "-1" : "0");
      mark.setAttribute("role", "img");
      mark.setAttribute("aria-label", mark.dataset.tip.replaceAll("\n", ", "));
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
    const mark = markOf(event);
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!mark || !step) return;
    const marks = all(mark.closest("svg"), "[data-tip]");
    const next = marks[(marks.indexOf(mark) + step + marks.length) % marks.length];
    mark.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
    event.preventDefault();
  });

  // Selects: the choices together are the key of a view; a series is brought to the front by fading the others.
  for (const figure of all(document, "figure.chart")) {
    const views = all(figure, ".view"), choices = all(figure, "select[data-choice]");
    const series = figure.querySelector("select[data-series]");
    const fade = () => {
      for (const part of all(figure, "[data-s]")) {
        const chosen = Boolean(series && series.value);
        part.classList.toggle("off", chosen && part.dataset.s !== series.value);
        part.classList.toggle("on", chosen && part.dataset.s === series.value);
      }
    };
    const choose = (changed) => {
      const wanted = choices.map((choice) => choice.value);
      const near = (view) => {
        const key = view.dataset.key.split("-");
        return key[changed] === wanted[changed] ? key.filter((part, i) => part === wanted[i]).length : -1;
      };
      // Not every method has every client or round: then the nearest view, and the selects tell which.
      const best = views.reduce((a, b) => (near(b) > near(a) ? b : a));
      views.forEach((view) => { view.hidden = view !== best; });
      best.dataset.key.split("-").forEach((part, i) => { if (choices[i]) choices[i].value = part; });
      fade();
    };
    choices.forEach((choice, i) => choice.addEventListener("change", () => choose(i)));
    if (series) series.addEventListener("change", fade);
    figure.querySelector(".save").addEventListener("click", () => save(figure));
  }

  // What is seen, as one SVG file in light colours: the legend above, the panels side by side.
  function save(figure) {
    const space = "http:" + "//www.w3.org/2000/svg";
    const make = (kind, attributes) => {
      const node = document.createElementNS(space, kind);
      Object.entries(attributes).forEach(([key, value]) => node.setAttribute(key, value));
      return node;
    };
    const view = figure.querySelector(".view:not([hidden])");
    const parts = [];
    const place = (panel, x, y) => {
      const copy = panel.cloneNode(true);
      copy.setAttribute("x", x);
      copy.setAttribute("y", y);
      parts.push(copy);
      return panel.viewBox.baseVal;
    };
    const panels = all(view, ".panels svg"), entries = all(view, ".key svg");
    const width = panels.reduce((sum, panel) => sum + panel.viewBox.baseVal.width + 16, -16);
    let x = 0, top = 0, height = 0;
    for (const entry of entries) {
      if (x && x + entry.viewBox.baseVal.width > width) [x, top] = [0, top + 20];
      x += place(entry, x, top).width;
    }
    [x, top] = [0, entries.length ? top + 28 : 0];
    for (const panel of panels) {
      const box = place(panel, x, top);
      x += box.width + 16;
      height = Math.max(height, top + box.height);
    }
    const whole = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height });
    const style = make("style", {});
    style.textContent = document.body.dataset.figureStyle;
    whole.append(style, make("rect", { width: "100%", height: "100%", fill: "#fff" }), ...parts);
    for (const mark of all(whole, "[data-tip]")) {
      ["data-tip", "tabindex", "role", "aria-label"].forEach((attribute) => mark.removeAttribute(attribute));
    }
    const link = document.createElement("a");
    const text = new XMLSerializer().serializeToString(whole);
    link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    link.download = `${figure.dataset.name}.svg`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
})();
