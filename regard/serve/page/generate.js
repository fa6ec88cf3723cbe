// What a language model writes after a beginning, shown as it is written.
import { predict, stream } from "./api.js";
import { copyButton, hint, remarks, tint, tints } from "./parts.js";
const { make, percent } = globalThis.regard;

export const live = false;
export const action = "Continue the text";
export const title = () => "Write on";
export const input = () => ({ kind: "text", label: "Beginning of a text", placeholder: "Write a beginning; the model goes on" });

export const options = ({ limits }) => [
  { name: "temperature", label: "Temperature", type: "range", value: "0.8", min: 0, max: 2, step: 0.1 },
  { name: "top_p", label: "Top-p", type: "range", value: "0.95", min: 0.05, max: 1, step: 0.05 },
  { name: "length", label: "At most … tokens", type: "number", value: String(Math.min(100, limits.new_tokens)), min: 1, max: limits.new_tokens },
  { name: "seed", label: "Seed", type: "number", value: "", min: 0, placeholder: "any" },
];

// How the next token is chosen; a temperature of 0 takes the likeliest.
export function manner(chosen, about) {
  const length = Math.min(about.limits.new_tokens, Math.max(1, Math.round(chosen.length || 100)));
  if (!chosen.temperature) return { search: "greedy", length };
  const seed = chosen.seed ?? Math.floor(Math.random() * 1e9);
  return { search: "sample", temperature: chosen.temperature, top_p: chosen.top_p ?? 1, seed: Math.max(0, Math.round(seed)), length };
}

// Tokens in their tints, where they spell the text; else the text alone.
export function tinted(found) {
  const pieces = [];
  let at = 0;
  for (const [n, token] of (found.tokens ?? []).entries()) {
    const spelt = token.replaceAll("▁", " ");
    const from = found.text.indexOf(spelt.trim(), at);
    if (/^<.+>$/.test(token) || !spelt.trim() || from < 0 || from > at + 2) continue;
    const p = Math.exp(found.log_probs?.[n] ?? NaN);
    pieces.push(found.text.slice(at, from), make("span", { class: `token tint${tint(Number.isFinite(p) ? p : null)}`, title: Number.isFinite(p) ? percent(p) : null, text: spelt.trim() }));
    at = from + spelt.trim().length;
  }
  return [...pieces, found.text.slice(at)];
}

export async function run({ model, about, input: given, options: chosen, signal, busy, out, set }) {
  const how = manner(chosen, about);
  if (how.seed !== undefined && chosen.seed === null) set("used", `seed ${how.seed}`);
  const written = make("span", { class: "written" });
  const text = make("p", { class: "result prose", dir: "auto", "aria-busy": "true" }, make("span", { class: "given", text: given.value() }), written);
  out.replaceChildren(text);
  try {
    const found = about.streams
      ? await stream(model, { inputs: [given.value()], ...how }, { signal, busy, piece: (piece) => written.append(piece) })
      : (await predict(model, { inputs: [given.value()], ...how }, { signal, busy })).predictions[0];
    written.replaceChildren(...tinted(found));
    out.append(...remarks([found], ["unknown"]), make("div", { class: "bar" }, tints(), copyButton(() => text.innerText)));
    return found.text;
  } finally {
    text.removeAttribute("aria-busy");
  }
}

export const empty = () => hint("What the model writes appears here, piece by piece.");
