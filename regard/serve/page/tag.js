// Words with their tags: spans of names in colour, or each tag with its own colour.
import { predict } from "./api.js";
import { hint, remarks, roving } from "./parts.js";
const { make, percent } = globalThis.regard;

export const live = true;
export const title = () => "Tag";
export const input = () => ({ kind: "text", label: "Text whose words are to be tagged", placeholder: "Type or paste a text" });
export const options = ({ options: known }) => (known.includes("split") ? [{ name: "split", label: "Part punctuation from words", type: "checkbox", value: "true" }] : []);

const kind = (tag) => tag.replace(/^[BIESLUM]-/, "");
const spanned = (tags) => tags.every((tag) => /^(?:O|[BIESLUM]-.+)$/.test(tag)) && tags.some((tag) => tag !== "O");

// A word, a tag and a probability, as a button that says all three.
function word(text, tag, p, hue) {
  const said = p === undefined ? tag : `${tag}, ${percent(Math.exp(p))}`;
  return make("button", { type: "button", class: `word tagged ${hue}`, title: said, "aria-label": `${text}: ${said}` }, make("bdi", { text }), tag ? make("small", { text: tag }) : null);
}

function line(text, found, hue) {
  const tags = found.tokens ?? [];
  const spans = spanned(tags);
  const pieces = [];
  let [at, open] = [0, null];
  (found.source ?? []).forEach((own, n) => {
    const [from, to] = found.offsets?.[n] ?? [at, at];
    const gap = found.offsets ? [...text].slice(at, from).join("") : n ? " " : "";
    const shown = found.offsets ? [...text].slice(from, to).join("") : own;
    const tag = tags[n];
    const goes = spans && open && /^[IELM]-/.test(tag) && kind(tag) === open.kind;
    if (open && !goes) open = null;
    if (goes) {
      open.element.insertBefore(make("span", null, gap, word(shown, "", undefined, "")), open.element.lastChild);
    } else {
      pieces.push(gap);
      if (spans && tag !== "O") {
        open = { kind: kind(tag), element: make("span", { class: `entity ${hue(kind(tag))}` }, word(shown, "", undefined, ""), make("small", { text: ` ${kind(tag)}` })) };
        pieces.push(open.element);
      } else {
        pieces.push(spans ? word(shown, "", undefined, "") : word(shown, tag, found.log_probs?.[n], hue(tag)));
      }
    }
    at = to;
  });
  return make("p", null, ...pieces);
}

export async function run({ model, input: given, options: chosen, signal, busy, out }) {
  const lines = given.value().split("\n").filter((each) => each.trim());
  const { predictions } = await predict(model, { inputs: lines, ...(chosen.split ? { split: true } : {}) }, { signal, busy });
  const kinds = [...new Set(predictions.flatMap((each) => (each.tokens ?? []).filter((tag) => tag !== "O").map(spanned(each.tokens ?? []) ? kind : (tag) => tag)))];
  const hue = (tag) => `hue${kinds.indexOf(tag) % 7}`;
  const text = make("div", { class: "result tags", dir: "auto" }, ...predictions.map((each, n) => line(lines[n], each, hue)));
  const counts = kinds.map((tag) => [tag, predictions.flatMap((each) => each.tokens ?? []).filter((each) => each === tag || (/^[BSU]-/.test(each) && kind(each) === tag)).length]);
  out.replaceChildren(roving(text, "Words with their tags"),
    make("ul", { class: "legend tags-legend", "aria-label": "Tags" }, ...counts.map(([tag, count]) => make("li", null, make("span", { class: `dot ${hue(tag)}`, "aria-hidden": "true" }), make("bdi", { text: tag }), make("span", { class: "figure", text: ` ${count}` })))),
    ...remarks(predictions));
  return counts.map(([tag, count]) => `${tag} ${count}`).join(", ");
}

export const empty = () => hint("The words appear here, each coloured by its tag.");
