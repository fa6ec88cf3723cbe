// Small builders of elements. Text is only ever put in as text.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const SVG = "http://www.w3.org/2000/svg";

  function filled(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes ?? {})) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (name === "style") Object.assign(element.style, value);
      else if (name === "text") element.textContent = value;
      else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  regard.make = (tag, attributes, ...children) =>
    filled(document.createElement(tag), attributes, children);
  regard.svg = (tag, attributes, ...children) =>
    filled(document.createElementNS(SVG, tag), attributes, children);

  // A token; a hairline before it says that it begins a word.
  regard.piece = (text, marks) => regard.make("bdi", { class: regard.starts(text) ? "piece starts" : "piece", "data-marks": marks || null, text: regard.plain(text) });

  // A row of buttons of which one is pressed.
  regard.choice = (name, options, chosen, pick) => {
    const buttons = options.map(([value, title]) =>
      regard.make("button", {
        type: "button", text: title, "aria-pressed": String(value === chosen), "data-value": value, "data-control": `${name} ${value}`,
        onclick: () => { mark(value); pick(value); },
      }));
    const mark = (value) => buttons.forEach((button, n) =>
      button.setAttribute("aria-pressed", String(options[n][0] === value)));
    const group = regard.make("span", { class: "group", role: "group", "aria-label": name },
      regard.make("span", { class: "hint", text: `${name}:` }), ...buttons);
    group.mark = mark;
    return group;
  };

  regard.dropdown = (name, options, chosen, pick) => {
    const select = regard.make("select", { "data-control": name, onchange: () => pick(select.value) },
      ...options.map(([value, title]) =>
        regard.make("option", { value, text: title, selected: String(value) === String(chosen) ? "" : null })));
    return regard.make("label", null, name, select);
  };

  // Controls that are made again when something is chosen: what had the focus has it again.
  regard.controls = (element, build) => {
    const focused = element.contains(document.activeElement) ? document.activeElement.dataset.control : null;
    element.replaceChildren(...build());
    if (focused) [...element.querySelectorAll("[data-control]")].find((each) => each.dataset.control === focused)?.focus();
  };

  // A canvas as large as asked for in CSS pixels, sharp on any screen.
  regard.canvas = (width, height, attributes) => {
    const most = Math.sqrt(64e6 / Math.max(1, width * height)); // browsers limit a canvas's area
    const ratio = Math.min(globalThis.devicePixelRatio || 1, most, 16000 / Math.max(width, height));
    const canvas = regard.make("canvas", {
      width: Math.ceil(width * ratio), height: Math.ceil(height * ratio),
      style: { width: `${width}px`, height: `${height}px` }, ...attributes,
    });
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    return [canvas, pen];
  };

  regard.meter = (share) =>
    regard.make("span", { class: "meter", "aria-hidden": "true" },
      regard.make("span", { style: { width: `${(100 * share).toFixed(1)}%` } }));

  // What a heat map's colours mean; `power` ½: the colours run with the root of the numbers.
  regard.legend = (scale, most, name, power = 1) => {
    const [canvas, pen] = regard.canvas(160, 12, { "aria-hidden": "true" });
    for (let x = 0; x < 160; x++) {
      pen.fillStyle = regard.colour(scale, x / 159).ground;
      pen.fillRect(x, 0, 1, 12);
    }
    const [low, high] = scale === "weight" ? ["0", "1"] : [regard.number(-most, 2), regard.number(most, 2)];
    const half = { weight: "; the middle is 0.25", signed: `; halfway is ±${regard.number(most / 4, 2)}` };
    return regard.make("div", { class: "legend" }, regard.make("span", { text: `${name}:` }),
      regard.make("span", { text: low }), canvas, regard.make("span", { text: high + (power < 1 ? half[scale] : "") }));
  };

  // A table; where it has no room, each row becomes a card in which every value has its name. Each of `rows`
  // is { cells, marks }; `key` is the column that names a row.
  regard.table = (name, head, rows, { key = 0, need = 640, room = regard.room() } = {}) => {
    const { make } = regard;
    const cell = (content, n) => {
      const { attributes = {}, children = [] } = content instanceof Node || typeof content === "string" ? { children: [content] } : content;
      return make(n === key ? "th" : "td", { scope: n === key ? "row" : null, role: n === key ? "rowheader" : "cell",
        "data-name": head[n] || null, ...attributes }, ...children);
    };
    return make("table", { class: room < need ? "cards" : null, role: "table", "aria-label": name },
      make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...head.map((text) =>
        text ? make("th", { scope: "col", role: "columnheader", text }) : make("td", { role: "cell", "aria-hidden": "true" })))),
      make("tbody", { role: "rowgroup" }, ...rows.map(({ cells, marks }) => make("tr", { role: "row", "data-marks": marks || null }, ...cells.map(cell)))));
  };

  // How wide the page is inside its margins.
  regard.inner = () => {
    const views = document.getElementById("views");
    const style = getComputedStyle(views);
    return views.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  };

  // How many runs stand side by side, and how wide the column of one is.
  regard.beside = () => (regard.inner() >= 960 ? regard.content().runs.length : 1);
  regard.room = () => Math.floor((regard.inner() - 20 * (regard.beside() - 1)) / regard.beside());
})();
