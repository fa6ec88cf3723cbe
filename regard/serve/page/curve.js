// Lines over updates, with a reading of the place that is pointed at.
const { make, svg } = globalThis.regard;

const [LEFT, RIGHT, TOP, HEIGHT, BELOW] = [60, 12, 8, 190, 24];

export function curve({ title, lines, log = false, room }) {
  const points = lines.flatMap((line) => line.points);
  const scaled = (value) => (log ? Math.log10(Math.max(value, 1e-12)) : value);
  const [first, last] = [Math.min(...points.map(([at]) => at)), Math.max(...points.map(([at]) => at))];
  const values = points.map(([, value]) => scaled(value));
  let [low, high] = [Math.min(...values), Math.max(...values)];
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const width = room - LEFT - RIGHT;
  const x = (at) => LEFT + (width * (at - first)) / (last - first || 1);
  const y = (value) => TOP + HEIGHT * (1 - (scaled(value) - low) / (high - low));
  const short = (value) => (Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : value !== 0 && Math.abs(value) < 0.001 ? value.toExponential(1) : String(Number(value.toPrecision(3))));
  const hues = globalThis.regard.hues();
  const ticks = globalThis.regard.ticks(low, high, 4).map(({ value }) => ({ at: TOP + HEIGHT * (1 - (value - low) / (high - low)), text: short(log ? 10 ** value : value) }));
  const readout = make("p", { class: "readout hint" });
  const newest = lines.map(({ name, points: own }) => `${name} ${short(own.at(-1)[1])}`).join(", ");
  const cursor = svg("line", { y1: TOP, y2: TOP + HEIGHT, x1: -9, x2: -9, stroke: globalThis.regard.css("mid") });
  const picture = svg("svg", { width: room, height: TOP + HEIGHT + BELOW, viewBox: `0 0 ${room} ${TOP + HEIGHT + BELOW}`, role: "img", "aria-label": `${title}: now ${newest}` },
    ...ticks.flatMap(({ at, text }) => [svg("line", { x1: LEFT, x2: LEFT + width, y1: at, y2: at, stroke: globalThis.regard.css("line"), "stroke-width": 0.7 }), svg("text", { x: LEFT - 8, y: at + 4, "text-anchor": "end", class: "faint", text })]),
    ...globalThis.regard.ticks(first, last, Math.max(2, Math.floor(width / 90))).filter(({ value }) => Number.isInteger(value)).map(({ value, text }) => svg("text", { x: Math.min(x(value), room - 20), y: TOP + HEIGHT + 18, "text-anchor": "middle", class: "faint", text })),
    cursor,
    ...lines.map(({ points: own }, n) => (own.length > 1
      ? svg("polyline", { points: own.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" "), fill: "none", stroke: hues[n % 7], "stroke-width": 2, "stroke-linejoin": "round" })
      : svg("circle", { cx: x(own[0][0]), cy: y(own[0][1]), r: 4, fill: hues[n % 7] }))));
  const rest = () => { readout.textContent = `now: ${newest}`; cursor.setAttribute("x1", -9); cursor.setAttribute("x2", -9); };
  picture.addEventListener("pointermove", (event) => {
    const at = first + ((event.offsetX - LEFT) / width) * (last - first);
    const near = lines.map(({ name, points: own }) => [name, own.reduce((a, b) => (Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a))]);
    const place = near[0][1][0];
    for (const side of ["x1", "x2"]) cursor.setAttribute(side, x(place));
    readout.textContent = `update ${place.toLocaleString("en")}: ${near.map(([name, [, value]]) => `${name} ${short(value)}`).join(", ")}`;
  });
  picture.addEventListener("pointerleave", rest);
  rest();
  const keys = lines.length > 1 ? make("div", { class: "legend" }, ...lines.map(({ name }, n) => make("span", { class: "group" }, make("span", { class: "dot", style: { background: hues[n % 7] }, "aria-hidden": "true" }), name))) : null;
  return make("figure", { class: "curve" }, make("figcaption", { text: title }), keys, picture, readout);
}
