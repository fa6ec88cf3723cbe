// What follows a series of numbers, with the interval in which it should lie.
import { predict } from "./api.js";
import { copyButton, hint, remarks } from "./parts.js";
const { make, panel } = globalThis.regard;

const PAST = 3; // as many times the forecast's length is shown of what came before

export const live = true;
export const title = () => "Forecast";
export const input = () => ({ kind: "series" });
export const options = ({ options: known }) => (known.includes("length") ? [{ name: "length", label: "Steps", type: "number", value: "", min: 1, placeholder: "as trained" }] : []);

// Cells of a line, of which some may stand in quotes.
export function cells(line, mark) {
  const found = [""];
  let quoted = false;
  for (let n = 0; n < line.length; n++) {
    if (line[n] === '"' && quoted && line[n + 1] === '"') found[found.length - 1] += line[++n];
    else if (line[n] === '"') quoted = !quoted;
    else if (line[n] === mark && !quoted) found.push("");
    else found[found.length - 1] += line[n];
  }
  return found.map((cell) => cell.trim());
}

// A table with a line of names: { names, rows }.
export function table(text) {
  const lines = text.split(/\r?\n/).filter((line) => line.trim() && !line.startsWith("#"));
  const first = lines[0] ?? "";
  const mark = [",", ";", "\t"].sort((a, b) => first.split(b).length - first.split(a).length)[0];
  const [names, ...rows] = lines.map((line) => cells(line, mark));
  return { names: names ?? [], rows };
}

const number = (cell) => {
  const plain = String(cell ?? "").trim();
  return plain === "" ? NaN : Number(/^-?\d+,\d+$/.test(plain) ? plain.replace(",", ".") : plain);
};

// One picture for each variable: { name, past, mean, low, high, times }.
export function lines(given, said) {
  const [before, after] = [table(given), table(said)];
  const variables = after.names.filter((name) => after.names.includes(`${name}.low`) && after.names.includes(`${name}.high`));
  const column = ({ names, rows }, name) => rows.map((row) => number(row[names.indexOf(name)]));
  const known = Math.min(before.rows.length, Math.max(8, PAST * after.rows.length));
  const clock = after.names[0];
  const dated = before.names.includes(clock) && !variables.includes(clock);
  const of = ({ names, rows }) => rows.map((row) => row[names.indexOf(clock)]);
  const times = dated ? [...of(before).slice(-known), ...of(after)] : null;
  return variables.map((name) => ({
    name, times, past: column(before, name).slice(-known), mean: column(after, name), low: column(after, `${name}.low`), high: column(after, `${name}.high`),
  }));
}

function drawn(out, found) {
  const width = Math.max(260, out.clientWidth);
  return found.map((each) => panel(each, width));
}

export async function run({ model, about, input: given, options: chosen, signal, busy, out }) {
  const length = chosen.length ? { length: Math.min(about.limits.new_tokens, Math.max(1, Math.round(chosen.length))) } : {};
  const { predictions: [found] } = await predict(model, { inputs: [given.value()], ...length }, { signal, busy });
  const all = lines(given.value(), found.text);
  const pictures = make("div", { class: "pictures" });
  out.replaceChildren(
    make("div", { class: "legend" }, ...[["past", "key-past"], ["expected", "key-mean"], ["interval", "key-band"]].map(([text, kind]) => make("span", { class: "group" }, make("span", { class: `dot ${kind}`, "aria-hidden": "true" }), text))),
    pictures, numbers(found.text), ...remarks([found]));
  const draw = () => pictures.replaceChildren(...drawn(out, all));
  draw();
  // Drawn again when the width or the colours change.
  let width = out.clientWidth;
  const watch = new ResizeObserver(() => {
    if (!pictures.isConnected) return watch.disconnect();
    if (out.clientWidth !== width) { width = out.clientWidth; draw(); }
    return undefined;
  });
  watch.observe(out);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (pictures.isConnected) draw(); });
  return all.map(({ name, mean }) => `${name}: ${mean.slice(0, 3).map((value) => value.toPrecision(3)).join(", ")} and so on`).join("; ");
}

// The forecast as a table, to be read or saved.
function numbers(text) {
  const { names, rows } = table(text);
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  return make("details", null, make("summary", { text: `The numbers (${rows.length} steps)` }),
    make("div", { class: "bar" }, make("a", { href: address, download: "forecast.csv", text: "Save as CSV" }), copyButton(() => text)),
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The forecast as a table" }, make("table", null,
      make("thead", null, make("tr", null, ...names.map((name) => make("th", { scope: "col", text: name })))),
      make("tbody", null, ...rows.map((row) => make("tr", null, ...row.map((cell) => make("td", { text: cell }))))))));
}

export const empty = () => hint("The forecast is drawn here, with the interval in which the values should lie.");
