// A picture in words.
import { predict } from "./api.js";
import { copyButton, hint, remarks, tint, tints } from "./parts.js";
import { words } from "./spans.js";
const { make, percent } = globalThis.regard;

export const live = true;
export const title = () => "Describe a picture";
export const input = () => ({ kind: "picture" });
export const options = ({ limits }) => [{ name: "nbest", label: "Captions", type: "number", value: "3", min: 1, max: Math.min(8, limits.nbest) }];

export async function run({ model, about, input: given, options: chosen, signal, busy, out }) {
  const nbest = Math.min(about.limits.nbest, 8, Math.max(1, Math.round(chosen.nbest || 1)));
  const { predictions: [found] } = await predict(model, { ...given.asked(), ...(nbest > 1 ? { nbest, beams: Math.max(5, nbest) } : {}) }, { signal, busy });
  const text = make("p", { class: "result", dir: "auto" }, ...words(found.text, found.tokens, found.log_probs).flatMap((word, n) => [n ? " " : "",
    make("span", { class: `token tint${tint(word.p)}`, title: word.p === null ? null : percent(word.p), text: word.text })]));
  const others = (found.alternatives ?? []).slice(1).map((each) => each.text);
  out.replaceChildren(text, make("div", { class: "bar" }, tints(), copyButton(() => found.text)),
    ...(others.length ? [make("h3", { text: "It could also say" }), make("ol", { class: "others" }, ...others.map((each) => make("li", { text: each })))] : []), ...remarks([found]));
  return found.text;
}

export const empty = () => hint("The caption appears here.");
