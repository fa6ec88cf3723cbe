// Numbers that are said: a forecast after its past, with the interval in which it should lie.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make, svg } = regard;
  const LINES = { past: ["past", "ink"], came: ["what came", "bad"], mean: ["expected", "accent"] };

  function panel({ name, past = [], mean, low = mean, high = mean, came = [] }) {
    const [left, top, width, height] = [64, 12, 430, 150];
    const count = past.length + mean.length;
    const all = [...past, ...low, ...high, ...came].filter(Number.isFinite);
    const [least, most] = [Math.min(...all), Math.max(...all)];
    const x = (n) => left + (width * n) / Math.max(1, count - 1);
    const y = (v) => top + height * (1 - (v - least) / (most - least || 1));
    const path = (values, start) => values.map((v, n) => `${x(start + n).toFixed(1)},${y(v).toFixed(1)}`).join(" ");
    const line = (key, values, start) => values.length ? svg("polyline", { points: path(values, start), fill: "none",
      stroke: regard.css(LINES[key][1]), "stroke-width": key === "past" ? 1.2 : 2, "stroke-dasharray": key === "came" ? "4 3" : null }) : null;
    const now = past.length;
    const band = [...high.map((v, n) => [now + n, v]), ...low.map((v, n) => [now + n, v]).reverse()];
    const ticks = [0, 0.5, 1].map((share) => least + share * (most - least));
    const steps = [...new Set([1 - past.length, 0, mean.length].filter((step) => past.length || step))];
    return make("figure", { "data-view": "numbers" },
      make("figcaption", null, make("bdi", { text: regard.label(name, 40) })),
      regard.region(`Numbers of ${regard.label(name, 40)}`, svg("svg", { width: left + width + 20, height: top + height + 44, role: "img",
        "aria-label": `${regard.label(name, 40)}: expected ${mean.slice(0, 5).map((v) => regard.number(v, 2)).join(", ")}…` },
        ...ticks.flatMap((tick) => [svg("line", { x1: left, x2: left + width, y1: y(tick), y2: y(tick), stroke: regard.css("line") }),
          svg("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end", class: "faint", text: regard.number(tick, 2) })]),
        svg("polygon", { points: band.map(([n, v]) => `${x(n).toFixed(1)},${y(v).toFixed(1)}`).join(" "), fill: regard.css("accent"), "fill-opacity": 0.2 }),
        past.length ? svg("line", { x1: x(now - 0.5), x2: x(now - 0.5), y1: top, y2: top + height, stroke: regard.css("faint"), "stroke-dasharray": "3 3" }) : null,
        line("past", past, 0), line("mean", mean, now), line("came", came, now),
        ...steps.map((step) => svg("text", { x: x(now - 1 + step), y: top + height + 18, "text-anchor": "middle", class: "faint", text: step > 0 ? `+${step}` : step })),
        svg("text", { x: left + width / 2, y: top + height + 38, "text-anchor": "middle", class: "faint", text: "steps from the last known value" }))));
  }

  regard.numbers = (reading) => {
    const panels = reading.numbers;
    const element = make("div", null, make("p", null, "Input: ", make("bdi", { text: regard.label(reading.text, 400) })),
      make("p", null, "Output: ", make("strong", null, make("bdi", { text: regard.label(reading.output, 400) }))));
    if (reading.of.length) {
      element.append(regard.chart({ title: "The number of each word", labels: reading.of, xName: "word", yName: "value",
        lines: panels.map(({ name, mean }) => ({ name, values: mean })) }));
      return element;
    }
    const shown = Object.entries(LINES).filter(([key]) => panels[0][key]?.length);
    element.append(make("div", { class: "legend" }, ...shown.map(([, [text, colour]]) => make("span", { class: "group" },
      make("span", { class: "dot", style: { background: `var(--${colour})` }, "aria-hidden": "true" }), text)),
      make("span", { class: "group" }, make("span", { class: "dot", style: { background: "var(--accent)", opacity: "0.3" }, "aria-hidden": "true" }), "interval")),
      make("div", { class: "panels" }, ...panels.map(panel)));
    return element;
  };
})();
