// Numbers that are said: a forecast after its past, with the interval in which it should lie.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make, svg } = regard;
  const LINES = { past: ["past", "ink"], came: ["what came", "bad"], mean: ["expected", "accent"] };

  // Round places along the time axis: dates where the file has some, else steps from the last known value.
  function along(times, known, ahead, width) {
    const dated = times ? regard.dates(times, Math.max(2, Math.floor(width / 62))) : null;
    if (dated) return { name: dated.span, ticks: dated.ticks };
    const steps = regard.ticks(1 - known, ahead, Math.max(2, Math.floor(width / 70))).filter(({ value }) => Number.isInteger(value) && (known || value));
    return { name: "steps from the last known value", ticks: steps.map(({ value, text }) => ({ at: known - 1 + value, text: value > 0 ? `+${text}` : text.replace("-", "−") })) };
  }

  function panel({ name, past = [], mean, low = mean, high = mean, came = [], times = null }, room) {
    const [left, top, height] = [58, 10, 170];
    const width = room - left - 14;
    const count = past.length + mean.length;
    const all = [...past, ...low, ...high, ...came].filter(Number.isFinite);
    const [least, most] = [Math.min(...all), Math.max(...all)];
    const x = (n) => left + (width * n) / Math.max(1, count - 1);
    const y = (v) => top + height * (1 - (v - least) / (most - least || 1));
    const path = (values, start) => values.map((v, n) => `${x(start + n).toFixed(1)},${y(v).toFixed(1)}`).join(" ");
    const line = (key, values, start) => (values.length ? svg("polyline", { points: path(values, start), fill: "none",
      stroke: regard.css(LINES[key][1]), "stroke-width": key === "past" ? 1.2 : 2, "stroke-dasharray": key === "came" ? "4 3" : null }) : null);
    const now = past.length;
    const band = [...high.map((v, n) => [now + n, v]), ...low.map((v, n) => [now + n, v]).reverse()];
    const axis = along(times, now, mean.length, width);
    return make("figure", { "data-view": "numbers" }, make("figcaption", null, make("bdi", { text: regard.label(name, 40) })),
      svg("svg", { width: room, height: top + height + 44, role: "img",
        "aria-label": `${regard.label(name, 40)}: expected ${mean.slice(0, 5).map((v) => regard.number(v, 2)).join(", ")}…` },
        ...regard.ticks(least, most, 4).flatMap(({ value, text }) => [svg("line", { x1: left, x2: left + width, y1: y(value), y2: y(value), stroke: regard.css("line") }),
          svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end", class: "faint", text })]),
        svg("polygon", { points: band.map(([n, v]) => `${x(n).toFixed(1)},${y(v).toFixed(1)}`).join(" "), fill: regard.css("accent"), "fill-opacity": 0.2 }),
        past.length ? svg("line", { x1: x(now - 0.5), x2: x(now - 0.5), y1: top, y2: top + height, stroke: regard.css("faint"), "stroke-dasharray": "3 3" }) : null,
        line("past", past, 0), line("mean", mean, now), line("came", came, now),
        ...axis.ticks.flatMap(({ at, text }) => [svg("line", { x1: x(at), x2: x(at), y1: top + height, y2: top + height + 5, stroke: regard.css("faint") }),
          svg("text", { x: Math.min(x(at), room - 20), y: top + height + 18, "text-anchor": "middle", class: "faint", text })]),
        svg("text", { x: left + width / 2, y: top + height + 38, "text-anchor": "middle", class: "faint", text: axis.name })));
  }

  regard.panel = panel;

  regard.numbers = (reading) => {
    const panels = reading.numbers;
    const room = regard.room();
    const element = make("div", null, regard.findings(reading));
    if (reading.of.length) {
      element.append(regard.chart({ title: "The number of each word", labels: reading.of, marks: regard.marks(reading).said, xName: "word", yName: "value",
        lines: panels.map(({ name, mean }) => ({ name, values: mean })) }));
      return element;
    }
    const across = Math.max(1, Math.min(panels.length, Math.floor((room + 24) / (420 + 24))));
    const shown = Object.entries(LINES).filter(([key]) => panels[0][key]?.length);
    element.append(make("div", { class: "legend" }, ...shown.map(([, [text, colour]]) => make("span", { class: "group" },
      make("span", { class: "dot", style: { background: `var(--${colour})` }, "aria-hidden": "true" }), text)),
      make("span", { class: "group" }, make("span", { class: "dot", style: { background: "var(--accent)", opacity: "0.3" }, "aria-hidden": "true" }), "interval")),
      make("div", { class: "panels", style: { gridTemplateColumns: `repeat(${across}, minmax(0, 1fr))` } }, ...panels.map((each) => panel(each, Math.floor((room - 24 * (across - 1)) / across)))));
    return element;
  };
})();
