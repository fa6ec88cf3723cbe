// Runs while they train: curves of every figure, and what the model makes of a few examples.
import { key, records } from "./api.js";
import { curve } from "./curve.js";
const { make } = globalThis.regard;

const EVERY = 2000; // milliseconds between two looks
const NAMES = { nll: "Loss (nll)", smoothed: "Loss, smoothed", norm: "Gradient norm", rate: "Learning rate", tokens_per_second: "Tokens per second" };
const ORDER = ["loss", "validation", "norm", "rate", "tokens_per_second"];
const LEFT_OUT = new Set(["kind", "update", "tokens", "seconds", "cpu_seconds", "lowered", "ids", "text"]);

const $ = (id) => document.getElementById(id);
const runs = new Map(); // name → { tag, finished, records }

// The figures of all runs: [{ title, lines: [{ name, points }] }], one picture for each.
function figures() {
  const found = new Map();
  const put = (title, line, update, value) => {
    if (!Number.isFinite(value)) return;
    const lines = found.get(title) ?? found.set(title, new Map()).get(title);
    (lines.get(line) ?? lines.set(line, []).get(line)).push([update, value]);
  };
  for (const [name, { records: all }] of runs) {
    const own = runs.size > 1 ? `${name}, ` : "";
    for (const record of all) {
      for (const [figure, value] of Object.entries(record)) {
        if (LEFT_OUT.has(figure) || typeof value !== "number") continue;
        if (record.kind === "train") put(figure === "nll" || figure === "smoothed" ? "loss" : figure, figure === "nll" ? `${own}training` : figure === "smoothed" ? `${own}training, smoothed` : own.slice(0, -2) || figure, record.update, value);
        if (record.kind === "validation") put(figure === "nll" ? "loss" : `validation ${figure}`, figure === "nll" ? `${own}validation` : own.slice(0, -2) || figure, record.update, value);
      }
    }
  }
  const rank = (title) => { const at = ORDER.findIndex((each) => title.startsWith(each)); return at < 0 ? ORDER.length : at; };
  const title = (text) => (text === "loss" ? "Loss: −log p of a target token" : NAMES[text] ?? text[0].toUpperCase() + text.slice(1));
  return [...found].sort(([a], [b]) => rank(a) - rank(b)).map(([text, lines]) => ({ title: title(text), log: text === "norm", lines: [...lines].map(([name, points]) => ({ name, points })) }));
}

// What was wanted and what came, of the last validation; older ones behind a click.
function samples(name, all) {
  const rows = all.filter(({ kind }) => kind === "samples");
  if (!rows.length) return null;
  const examples = (record) => Object.keys(record).filter((each) => /^got_\d+$/.test(each)).map((each) => each.slice(4));
  const last = rows.at(-1);
  return make("section", { class: "samples" }, make("h2", null, "What it makes of a few examples", runs.size > 1 ? make("bdi", { text: `: ${name}` }) : null),
    ...examples(last).map((n) => make("article", { class: "card sample" },
      last[`input_${n}`] ? make("p", { class: "hint", dir: "auto", text: last[`input_${n}`] }) : null,
      last[`wanted_${n}`] ? make("p", { dir: "auto" }, make("span", { class: "hint", text: "wanted " }), make("span", { text: last[`wanted_${n}`] })) : null,
      make("p", { class: "got", dir: "auto" }, make("span", { class: "hint", text: `update ${last.update.toLocaleString("en")} ` }), make("b", { text: last[`got_${n}`] })),
      rows.length > 1 ? make("details", { "data-open": `${name} ${n}` }, make("summary", { text: "as it learnt" }), make("ol", { class: "replay", reversed: "" }, ...rows.slice(0, -1).reverse().map((row) => make("li", { dir: "auto" }, make("span", { class: "hint", text: `${row.update.toLocaleString("en")} ` }), row[`got_${n}`] ?? "")))) : null)));
}

function draw() {
  const work = $("work");
  const open = new Set([...work.querySelectorAll("details[open]")].map((each) => each.dataset.open));
  const width = Math.floor(work.clientWidth - 2 * parseFloat(getComputedStyle(work).paddingLeft));
  const across = width > 760 ? 2 : 1;
  const room = Math.floor((width - 24 * (across - 1)) / across);
  const all = figures();
  if (!all.length) {
    work.replaceChildren(make("p", { class: "hint", text: "Nothing has been recorded yet. This page looks again every two seconds." }));
    return;
  }
  work.replaceChildren(make("div", { class: "curves" }, ...all.map((each) => curve({ ...each, room }))), ...[...runs].map(([name, { records: some }]) => samples(name, some)).filter(Boolean));
  work.querySelectorAll("details").forEach((each) => { each.open = open.has(each.dataset.open); });
}

function state() {
  const said = [...runs].map(([name, { finished, records: all }]) => {
    const last = all.findLast(({ kind }) => kind === "train");
    const far = last ? `update ${last.update.toLocaleString("en")}` : "nothing recorded yet";
    return `${runs.size > 1 ? `${name}: ` : ""}${far}${finished ? ", finished" : ""}`;
  });
  $("state").textContent = said.join(" · ");
}

async function look() {
  try {
    let news = false;
    for (const [name, known] of runs) {
      const found = await records(name, known.tag);
      if (!found) continue;
      runs.set(name, found);
      news = true;
    }
    if (news) { draw(); state(); }
    document.documentElement.dataset.ready = "";
  } catch (error) {
    $("state").textContent = error.message;
    if (error.status === 401) return;
  }
  setTimeout(look, document.hidden ? 5 * EVERY : EVERY);
}

async function start() {
  try {
    const { data } = await records.list();
    for (const { id } of data) runs.set(id, { tag: "", finished: false, records: [] });
    $("models").replaceChildren(make("b", { text: data.map(({ id }) => id).join(", ") }));
    document.title = `${data.map(({ id }) => id).join(", ")} · regard`;
    look();
  } catch (error) {
    const wanted = error.status === 401 ? prompt("This server wants an API key:") : null;
    if (wanted) { key.set(wanted.trim()); return start(); }
    $("work").replaceChildren(make("p", { class: "problem", role: "alert", text: error.message }));
  }
  return undefined;
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
let [wide, waiting] = [innerWidth, 0];
addEventListener("resize", () => {
  if (innerWidth === wide) return;
  wide = innerWidth;
  clearTimeout(waiting);
  waiting = setTimeout(draw, 120);
});
start();
