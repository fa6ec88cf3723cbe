// The label of a text or of a picture, with the probability of each.
import { predict } from "./api.js";
import { bars, hint, remarks } from "./parts.js";
const { make, percent } = globalThis.regard;

export const live = true;
export const title = () => "Classify";
export const input = ({ reads }) => (reads === "image" ? { kind: "picture" } : { kind: "text", label: "Text to be classified", placeholder: "Type or paste a text" });
export const options = () => [];

export async function run({ model, input: given, signal, busy, out }) {
  const { predictions: [found] } = await predict(model, given.asked(), { signal, busy });
  const chances = Object.entries(found.probabilities ?? { [found.text]: Math.exp(found.score) });
  out.replaceChildren(make("p", { class: "verdict" }, make("bdi", { text: found.text })), bars("Probabilities of the labels", chances), ...remarks([found]));
  return `${found.text}, ${percent(Math.max(...chances.map(([, p]) => p)))}`;
}

export const empty = () => hint("The label appears here, with the probability of every other.");
