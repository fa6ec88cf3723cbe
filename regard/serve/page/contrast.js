// Which text belongs to a picture, and which picture to a text.
import { json, predict } from "./api.js";
import { bars, hint, remarks } from "./parts.js";
const { make } = globalThis.regard;

export const live = true;
export const title = ({ reads }) => (reads === "image" ? "Match pictures and texts" : "Match texts");
export const input = ({ reads }) => (reads === "image" ? { kind: "picture", many: true } : { kind: "text", label: "Text to be matched", placeholder: "Type or paste a text" });
export const options = () => [{ name: "choices", label: "Texts to choose from, one on each line", type: "area", value: "", placeholder: "a red square\na blue circle\n…" }];

const dot = (a, b) => a.reduce((sum, each, n) => sum + each * b[n], 0);

// Several pictures: for each text, the pictures in the order of their likeness.
async function searched({ model, files, queries, found, signal, busy, out }) {
  const { data } = await json("/v1/embeddings", { body: { model, input: queries }, signal, busy });
  const addresses = files.map((file) => URL.createObjectURL(file));
  out.replaceChildren(...queries.map((query, k) => {
    const ranked = found.map((each, n) => [n, each.vector ? dot(each.vector, data[k].embedding) : -2]).sort((a, b) => b[1] - a[1]);
    return make("section", { class: "found" }, make("h3", null, make("bdi", { text: query })), make("ol", { class: "thumbs", "aria-label": `Pictures for “${query}”, the most similar first` },
      ...ranked.slice(0, 12).map(([n, likeness], place) => make("li", { class: place ? null : "said" }, make("img", { src: addresses[n], alt: files[n].name }), make("span", { class: "figure", text: likeness < -1 ? "unreadable" : likeness.toFixed(3) })))));
  }), hint("The numbers are cosines: 1 is the same direction, 0 nothing in common."));
  return queries.map((query) => `pictures for ${query} are ranked`).join("; ");
}

export async function run({ model, about, input: given, options: chosen, signal, busy, out }) {
  const choices = [...new Set(chosen.choices.split("\n").map((line) => line.trim()).filter(Boolean))];
  const { predictions } = await predict(model, { ...given.asked(), ...(choices.length ? { choices } : {}) }, { signal, busy });
  const files = about.reads === "image" ? given.value() : [];
  if (files.length > 1 && choices.length) return searched({ model, files, queries: choices.slice(0, 12), found: predictions, signal, busy, out });
  const [found] = predictions;
  if (found.status === "broken") throw new Error(`This file cannot be read: ${found.problem}.`);
  out.replaceChildren(make("p", { class: "verdict" }, make("bdi", { text: found.text })), bars("How well each text fits", Object.entries(found.probabilities)),
    ...(files.length > 1 ? [hint("This is the first picture. To search all of them, write what you look for below “Options”.")] : []), ...remarks([found]));
  return found.text;
}

export const empty = ({ reads }) => hint(reads === "image" ? "Choose a picture to see which text fits it; choose several, and write texts below “Options”, to search among them." : "The text that fits best appears here.");
