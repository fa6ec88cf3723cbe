// Translations as you write: sentence by sentence, and only those that changed.
import { predict } from "./api.js";
import { alternatives } from "./alternatives.js";
import { copyButton, hint, language, remarks, roving, tint, tints, tongue } from "./parts.js";
import { sentences, words } from "./spans.js";
const { make, percent } = globalThis.regard;

const KEPT = 400; // translations that are remembered
const remembered = new Map();
const remember = (key, value) => {
  remembered.set(key, value);
  if (remembered.size > KEPT) remembered.delete(remembered.keys().next().value);
};

export const live = true;

export const title = ({ languages }) => (languages.length === 2 && languages.every(tongue) ? `${language(languages[0])} → ${language(languages[1])}` : "Translate");

export const input = ({ languages }) => ({
  kind: "text", label: "Text to be translated",
  placeholder: tongue(languages[0]) ? `Type or paste a text in ${language(languages[0])}` : "Type or paste a text",
});

export const options = () => [
  { name: "beams", label: "Beams", type: "select", value: "", choices: [["", "as the recipe says"], ["1", "1 (greedy)"], ["2", "2"], ["4", "4"], ["5", "5"], ["8", "8"]] },
  { name: "apart", label: "Sentence by sentence", type: "checkbox", value: "true" },
];

export async function run({ model, about, input: given, options: chosen, signal, busy, out, again, forced }) {
  const parts = sentences(given.value(), tongue(about.languages[0]), chosen.apart);
  const asked = { ...(chosen.beams ? { beams: Number(chosen.beams) } : {}), ...(about.options.includes("align") ? { align: true } : {}) };
  const prefix = (text) => forced.get(text) ?? "";
  const keys = parts.map(({ text }) => JSON.stringify([model, about.version, asked, text, prefix(text)]));
  const wanted = [...new Map(keys.map((key, n) => [key, parts[n].text]).filter(([key]) => !remembered.has(key)))];
  for (let at = 0; at < wanted.length; at += about.limits.items) {
    const some = wanted.slice(at, at + about.limits.items);
    const inputs = some.map(([, text]) => text);
    const forcedHere = inputs.some(prefix) ? { prefix: inputs.map(prefix) } : {};
    const { predictions } = await predict(model, { inputs, ...asked, ...forcedHere }, { signal, busy });
    some.forEach(([key], n) => remember(key, predictions[n]));
  }
  const found = keys.map((key) => remembered.get(key));
  show({ model, about, given, parts, found, out, again, forced });
  return found.map((each) => each.text).join(" ");
}

function show({ model, about, given, parts, found, out, again, forced }) {
  const whole = given.value();
  const lines = [];
  found.forEach((prediction, n) => {
    const before = n ? whole.slice(parts[n - 1].from + parts[n - 1].text.length, parts[n].from) : "";
    if (!n || before.includes("\n")) lines.push([]);
    lines.at(-1).push(sentence({ model, about, given, part: parts[n], prediction, out, again, forced }));
  });
  const text = make("div", { class: "result translation", lang: tongue(about.languages[1]), dir: "auto" },
    ...lines.map((line) => make("p", null, ...line.flatMap((each, n) => (n ? [" ", ...each] : each)))));
  out.replaceChildren(roving(text, "Words of the translation: press one for alternatives"), ...remarks(found),
    make("div", { class: "bar" }, tints(), found.length ? copyButton(() => text.innerText) : null,
      forced.size ? make("button", { type: "button", class: "quiet", text: "Undo my choices", onclick: () => { forced.clear(); again(); } }) : null));
}

// Which parts of the input a word was made from.
function origins(part, prediction, word) {
  if (!prediction.alignment) return [];
  const source = words(part.text, prediction.source ?? []);
  const looked = new Set(word.tokens.map((n) => prediction.alignment[n]));
  return source.filter((each) => each.tokens.some((n) => looked.has(n)));
}

function sentence({ model, about, given, part, prediction, out, again, forced }) {
  const prefix = forced.get(part.text) ?? "";
  const all = words(prediction.text, prediction.tokens, prediction.log_probs);
  return all.flatMap((word, place) => {
    const from = origins(part, prediction, word);
    const own = word.to <= prefix.length;
    const ranges = from.map((each) => [part.from + each.from, part.from + each.to]);
    const said = [word.p === null ? null : percent(word.p), from.length ? `from “${from.map((each) => each.text).join(" ")}”` : null].filter(Boolean).join(", ");
    const made = make("button", {
      type: "button", class: `word tint${own ? 0 : tint(word.p)}${own ? " own" : ""}`, title: own ? "as you chose" : said, "aria-label": said ? `${word.text}, ${said}` : null,
      "aria-haspopup": about.options.includes("prefix") ? "dialog" : null,
      onpointerenter: () => given.mark(ranges), onpointerleave: () => given.mark([]),
      onfocus: () => given.mark(ranges), onblur: () => given.mark([]),
      onclick: about.options.includes("prefix") ? () => alternatives(made, { model, text: part.text, prediction, word,
        choose: async (beginning) => {
          forced.set(part.text, beginning);
          await again();
          [...out.querySelectorAll(".word.own")].at(-1)?.focus();
        } }) : null,
    }, make("bdi", { text: word.text }));
    return place ? [" ", made] : [made];
  });
}

export const empty = () => hint("The translation appears here as you write. Point at a word to see where it comes from; press it for other words.");
