// Axes with round ticks, also of times, and lines over positions.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make, svg } = regard;
  const [SECOND, MINUTE, HOUR, DAY] = [1e3, 6e4, 36e5, 864e5];
  const STEPS = [SECOND, 5 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR,
    6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY];
  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

  // About `count` round numbers from `low` to `high`: multiples of 1, 2 or 5 times a power of ten.
  regard.ticks = (low, high, count = 5) => {
    const rough = (high - low || 1) / count;
    const unit = 10 ** Math.floor(Math.log10(rough));
    const step = unit * [1, 2, 5, 10].find((factor) => factor * unit >= rough * 0.999);
    const first = Math.ceil(low / step - 1e-9);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const values = Array.from({ length: Math.max(0, Math.floor(high / step + 1e-9) - first + 1) }, (_, n) => (first + n) * step);
    return values.map((value) => ({ value, text: (Math.abs(value) < step / 2 ? 0 : value).toLocaleString("en", { minimumFractionDigits: Math.min(digits, 12), maximumFractionDigits: Math.min(digits, 12) }) }));
  };

  // Milliseconds since 1970 of a time as files write it; NaN of anything else.
  const moment = (text) => {
    if (!/^\d{4}-\d{2}/.test(text)) return NaN;
    const whole = text.trim().replace(" ", "T");
    return Date.parse(/T.*(Z|[+-]\d{2}:?\d{2})$/.test(whole) || !whole.includes("T") ? whole : `${whole}Z`);
  };

  const written = (date, step) => {
    const [day, month, year] = [date.getUTCDate(), MONTHS[date.getUTCMonth()], date.getUTCFullYear()];
    if (step >= 300 * DAY) return String(year);
    if (step >= 28 * DAY) return `${month} ${year}`;
    const midnight = date.getTime() % DAY === 0;
    if (step >= DAY || midnight) return `${day} ${month}`;
    return date.toISOString().slice(11, step < MINUTE ? 19 : 16);
  };

  const months = (date) => 12 * date.getUTCFullYear() + date.getUTCMonth();

  // At most `most` round times among some that follow each other: [{ at, text }], and the span in words;
  // null where they are no dates.
  regard.dates = (times, most) => {
    const at = times.map(moment);
    if (at.length < 2 || at.some(Number.isNaN)) return null;
    const span = at.at(-1) - at[0];
    const step = STEPS.find((each) => span / each <= most);
    const long = [1, 3, 6, 12, 24, 60, 120, 240, 600].find((count) => span / (count * 30 * DAY) <= most) ?? 1200;
    const turn = (time) => (step ? Math.floor((time + (step === 7 * DAY ? 3 * DAY : 0)) / step) : Math.floor(months(new Date(time)) / long));
    const found = [];
    for (let n = 0; n < at.length; n++) {
      const aligned = step ? at[n] % Math.min(step, DAY) === 0 : true;
      if ((n ? turn(at[n]) !== turn(at[n - 1]) : step && at[n] % step === 0) && aligned) found.push({ at: n, text: written(new Date(at[n]), step ?? long * 30 * DAY) });
    }
    const [first, last] = [at[0], at.at(-1)].map((time) => `${new Date(time).getUTCDate()} ${MONTHS[new Date(time).getUTCMonth()]} ${new Date(time).getUTCFullYear()}`);
    return { ticks: found, span: first === last ? first : `${first} to ${last}` };
  };

  const power = (exponent) => exponent < -3 || exponent > 3
    ? `10${[...String(exponent)].map((glyph) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[glyph] ?? "⁻").join("")}`
    : String(Number((10 ** exponent).toFixed(3)));

  regard.hues = () => (regard.dark()
    ? ["#7cbcff", "#ffa86b", "#6fd6a0", "#f0a6d0", "#e6d36c", "#c3b5ff", "#ffffff"]
    : ["#0b5cad", "#b24700", "#0b6b3a", "#9a2f72", "#6b5900", "#5a43b8", "#000000"]);
  const DASHES = ["", "6 3", "2 3"];

  // The vertical axis: its ends, its ticks, and where a value stands from 0 (below) to 1.
  function vertical(lines, log, range) {
    const all = lines.flatMap((line) => line.values).filter((v) => Number.isFinite(v) && (!log || v > 0));
    let [low, high] = range ?? (all.length ? [Math.min(...all), Math.max(...all)] : [log ? 1e-3 : 0, 1]);
    if (log) {
      high = Math.ceil(Math.log10(high));
      low = Math.max(Math.floor(Math.log10(low)), high - 12);
      if (low === high) low -= 1;
      const every = Math.ceil((high - low) / 6);
      const ticks = Array.from({ length: Math.floor((high - low) / every) + 1 }, (_, n) => ({ value: low + n * every, text: power(low + n * every) }));
      return { ticks: ticks.map((tick) => ({ ...tick, at: (tick.value - low) / (high - low) })), share: (v) => (Math.max(low, Math.log10(v || 1e-99)) - low) / (high - low) };
    }
    if (low === high) [low, high] = [low - 1, high + 1];
    const share = (v) => (v - low) / (high - low);
    return { ticks: regard.ticks(low, high).map((tick) => ({ ...tick, at: share(tick.value) })), share };
  }

  const legend = (lines) => make("div", { class: "legend" }, ...lines.map((line, n) => make("span", { class: "group" },
    svg("svg", { width: 28, height: 10, "aria-hidden": "true" }, svg("line", {
      x1: 0, x2: 28, y1: 5, y2: 5, stroke: regard.hues()[n % 7], "stroke-width": 3, "stroke-dasharray": DASHES[Math.floor(n / 7) % 3] })),
    line.name)));

  // A part of a chart: positions from `from` up to `to`, below `top`.
  function band({ lines, labels, marks, axis, from, to, left, top, step, height }) {
    const x = (n) => left + (n - from) * step;
    const y = (share) => top + height * (1 - share);
    const width = Math.max(1, to - from - 1) * step;
    const every = Math.max(1, Math.ceil(14 / step));
    const dots = to - from < 40;
    return [
      ...axis.ticks.flatMap((tick) => [
        svg("line", { x1: left, x2: left + width, y1: y(tick.at), y2: y(tick.at), stroke: regard.css("line") }),
        svg("text", { x: left - 6, y: y(tick.at) + 4, "text-anchor": "end", class: "faint", text: tick.text })]),
      ...labels.slice(from, to).map((label, n) => n % every ? null : svg("text", {
        transform: `translate(${x(from + n) + 4} ${top + height + 10}) rotate(-60)`, "text-anchor": "end",
        "data-marks": marks?.[from + n] || null, text: regard.label(label, 12) })),
      ...lines.map((line, n) => svg("polyline", { fill: "none", stroke: regard.hues()[n % 7], "stroke-width": 2, "stroke-dasharray": DASHES[Math.floor(n / 7) % 3],
        points: line.values.slice(from, to).map((v, t) => `${x(from + t).toFixed(1)},${y(axis.share(v)).toFixed(1)}`).join(" ") })),
      ...(dots ? lines.flatMap((line, n) => line.values.slice(from, to).map((v, t) => svg("circle", { cx: x(from + t), cy: y(axis.share(v)), r: to - from > 1 ? 2.5 : 4,
        fill: regard.hues()[n % 7], "data-marks": marks?.[from + t] || null }, svg("title", { text: `${regard.plain(labels[from + t])}, ${line.name}: ${regard.number(v)}` })))) : []),
    ];
  }

  // Lines over positions: [{ name, values }], on a logarithmic axis if asked for. Where the names have no
  // room side by side, the chart goes on below, as a text does.
  regard.chart = ({ title, lines, labels, marks, xName, yName, log = false, range = null, room = regard.room() }) => {
    const [left, top, height] = [74, 12, 170];
    const axis = vertical(lines, log, range);
    const fits = Math.max(6, Math.floor((room - left - 14) / 14));
    const count = labels.length;
    const bands = count <= 128 ? Math.ceil(count / fits) : 1;
    const per = Math.ceil(count / bands);
    const step = Math.min(110, (room - left - 14) / Math.max(1, per - 1));
    const longest = Math.max(...labels.map((label) => Math.min(12, String(label).length)));
    const whole = height + 34 + 6.3 * longest;
    const starts = Array.from({ length: bands }, (_, n) => n * per);
    const size = { width: room, height: top + bands * whole + 18 };
    const picture = svg("svg", { ...size, viewBox: `0 0 ${size.width} ${size.height}`, role: "img",
      "aria-label": `${title}: ${lines.map((line) => line.name).join(", ")}` },
      ...starts.flatMap((from, n) => band({ lines, labels, marks, axis, from, to: Math.min(count, from + per), left, top: top + n * whole, step, height })),
      svg("text", { transform: `translate(14 ${top + height / 2}) rotate(-90)`, "text-anchor": "middle", class: "faint", text: yName }),
      svg("text", { x: left, y: size.height - 4, class: "faint", text: `${xName} →` }));
    return make("figure", { "data-view": "chart" }, make("figcaption", { text: title }), lines.length > 1 ? legend(lines) : null, picture);
  };
})();
