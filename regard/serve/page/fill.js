// Blanks of a text, and the words that may stand there.
import { predict } from "./api.js";
import { bars, hint, remarks } from "./parts.js";
const { make } = globalThis.regard;

const BLANK = /_{2,}|\[MASK\]/g;

export const read = (text) => text.replace(BLANK, "[MASK]");

export const live = true;
export const title = () => "Fill in the blank";
export const input = () => ({
  kind: "text", label: "Text with blanks", placeholder: "Write ___ for each word that is to be filled in",
  actions: [["Insert a blank", (area) => area.setRangeText("___", area.selectionStart, area.selectionEnd, "end")]],
});
export const options = ({ options: known }) => (known.includes("top") ? [{ name: "top", label: "Words for each blank", type: "number", value: "8", min: 1, max: 100 }] : []);

export async function run({ model, input: given, options: chosen, signal, busy, out }) {
  const text = given.value();
  if (!BLANK.test(text)) {
    out.replaceChildren(hint("Write ___ where a word is to be filled in, or use the button."));
    return "There is no blank yet.";
  }
  BLANK.lastIndex = 0;
  const top = Math.min(100, Math.max(1, Math.round(chosen.top || 8)));
  const { predictions: [found] } = await predict(model, { inputs: [read(text)], top }, { signal, busy });
  const masks = found.masks ?? [];
  let blank = 0;
  const pieces = text.split(BLANK).flatMap((piece, n) => (n && masks[n - 1] ? [make("mark", { class: "blank" }, make("bdi", { text: masks[blank++][0]?.word ?? "?" }), masks.length > 1 ? make("sub", { text: String(n) }) : null), piece] : [piece]));
  out.replaceChildren(make("p", { class: "result filled", dir: "auto" }, ...pieces),
    make("div", { class: "panels blanks" }, ...masks.map((words, n) => make("section", { "aria-label": `Blank ${n + 1}` },
      masks.length > 1 ? make("h3", { text: `Blank ${n + 1}` }) : null, bars(`Words for blank ${n + 1}`, words.map(({ word, p }) => [word, p]), 100)))),
    ...remarks([found]));
  return masks.map((words) => words[0]?.word).join(", ");
}

export const empty = () => hint("The likeliest words appear here. Each blank is filled by itself.");
