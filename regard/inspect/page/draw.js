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

  regard.piece = (text) => regard.make("bdi", { class: "piece", text: regard.label(text, 40) });

  // A row of buttons of which one is pressed.
  regard.choice = (name, options, chosen, pick) => {
    const buttons = options.map(([value, title]) =>
      regard.make("button", {
        type: "button", text: title, "aria-pressed": String(value === chosen), "data-value": value,
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
    const select = regard.make("select", { onchange: () => pick(select.value) },
      ...options.map(([value, title]) =>
        regard.make("option", { value, text: title, selected: String(value) === String(chosen) ? "" : null })));
    return regard.make("label", null, name, select);
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

  const power = (exponent) => exponent < -3 || exponent > 3
    ? `10${[...String(exponent)].map((glyph) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[glyph] ?? "⁻").join("")}`
    : String(Number((10 ** exponent).toFixed(3)));

  // Lines over positions: [{ name, values }], on a logarithmic axis if asked for.
  regard.chart = ({ title, lines, labels, xName, yName, log = false, range = null }) => {
    const colours = regard.dark()
      ? ["#7cbcff", "#ffa86b", "#6fd6a0", "#f0a6d0", "#e6d36c", "#c3b5ff", "#ffffff"]
      : ["#0b5cad", "#b24700", "#0b6b3a", "#9a2f72", "#6b5900", "#5a43b8", "#000000"];
    const dashes = ["", "6 3", "2 3"];
    const count = labels.length;
    const [left, top, step] = [84, 14, Math.max(count > 100 ? 3 : 16, Math.min(46, 760 / count))];
    const [width, height] = [Math.max(1, count - 1) * step, 190];
    const all = lines.flatMap((line) => line.values).filter((v) => Number.isFinite(v) && (!log || v > 0));
    let [low, high] = range ?? [Math.min(...all), Math.max(...all)];
    if (!all.length) [low, high] = [log ? 1e-3 : 0, 1];
    if (log) {
      [low, high] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
      low = Math.max(low, high - 12);
    }
    if (low === high) [low, high] = [low - 1, high + 1];
    const y = (v) => top + height * (1 - ((log ? Math.max(low, Math.log10(v || 1e-99)) : v) - low) / (high - low));
    const x = (n) => left + n * step;
    const between = log ? Math.ceil((high - low) / 6) : (high - low) / 4;
    const ticks = Array.from({ length: Math.floor((high - low) / between + 1.001) }, (_, n) => low + between * n);
    const marks = ticks.flatMap((tick) => {
      const at = top + height * (1 - (tick - low) / (high - low));
      return [
        regard.svg("line", { x1: left, x2: left + width, y1: at, y2: at, stroke: regard.css("line") }),
        regard.svg("text", { x: left - 6, y: at + 4, "text-anchor": "end", class: "faint",
          text: log ? power(tick) : regard.number(tick, 2) }),
      ];
    });
    const every = Math.ceil(16 / step);
    const names = labels.map((label, n) => n % every ? null : regard.svg("text", {
      transform: `translate(${x(n) + 4} ${top + height + 10}) rotate(-55)`, "text-anchor": "end",
      text: regard.label(label, 12) }));
    const paths = lines.map((line, n) => regard.svg("polyline", {
      fill: "none", stroke: colours[n % 7], "stroke-width": 2, "stroke-dasharray": dashes[Math.floor(n / 7) % 3],
      points: line.values.map((v, t) => `${x(t).toFixed(1)},${y(v).toFixed(1)}`).join(" ") }));
    const dots = count > 1 ? [] : lines.map((line, n) =>
      regard.svg("circle", { cx: x(0), cy: y(line.values[0]), r: 4, fill: colours[n % 7] }));
    const total = { width: left + width + 30, height: top + height + 92 };
    const picture = regard.svg("svg", { ...total, viewBox: `0 0 ${total.width} ${total.height}`, role: "img",
      "aria-label": `${title}: ${lines.map((line) => line.name).join(", ")}` },
      ...marks, ...names, ...paths, ...dots,
      regard.svg("text", { transform: `translate(14 ${top + height / 2}) rotate(-90)`, "text-anchor": "middle", class: "faint", text: yName }),
      regard.svg("text", { x: left + width / 2, y: total.height - 4, "text-anchor": "middle", class: "faint", text: xName }));
    const legend = regard.make("div", { class: "legend" }, ...lines.map((line, n) =>
      regard.make("span", { class: "group" },
        regard.svg("svg", { width: 28, height: 10, "aria-hidden": "true" }, regard.svg("line", {
          x1: 0, x2: 28, y1: 5, y2: 5, stroke: colours[n % 7], "stroke-width": 3, "stroke-dasharray": dashes[Math.floor(n / 7) % 3] })),
        line.name)));
    return regard.make("figure", { "data-view": "chart" }, regard.make("figcaption", { text: title }), legend,
      regard.make("div", { class: "scroll wide", tabindex: "0", role: "region", "aria-label": title }, picture));
  };

  regard.region = (name, ...children) =>
    regard.make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, ...children);
})();
