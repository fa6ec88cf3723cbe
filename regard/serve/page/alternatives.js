// Other words for one that was chosen: the text before it is forced, and each likely next word after it.
import { isAbort, json } from "./api.js";
import { button } from "./parts.js";
const { make, percent } = globalThis.regard;

const [MANY, LEAST] = [10, 0.0005];

// Distinct next words among some outputs, the likeliest first: [{ word, beginning, rest, p }].
export function nextWords(prefix, found, most) {
  const seen = new Map();
  for (const { text, p } of found) {
    const rest = text.slice(prefix.length);
    const word = rest.trim().split(/\s+/)[0];
    // What only makes the word before longer is another word for that one.
    if (!word || p < LEAST || !text.startsWith(prefix) || (prefix && /^[\p{L}\p{N}]/u.test(rest))) continue;
    if (seen.has(word)) { seen.get(word).p += p; continue; }
    const end = text.indexOf(word, prefix.length) + word.length;
    seen.set(word, { word, beginning: text.slice(0, end), rest: text.slice(end), p });
  }
  return [...seen.values()].slice(0, most);
}

export async function alternatives(anchor, { model, text, prediction, word, choose }) {
  document.querySelector(".alternatives-box")?.remove();
  const stop = new AbortController();
  const list = make("div", { class: "list" }, make("p", { class: "hint", role: "status", text: "Looking for other words …" }));
  const box = make("div", { class: "alternatives-box", popover: "auto", role: "dialog", "aria-label": `Other words for “${word.text}”` }, list);
  box.addEventListener("toggle", (event) => {
    if (event.newState !== "closed") return;
    stop.abort();
    const inside = box.contains(document.activeElement);
    box.remove();
    if (inside && anchor.isConnected) anchor.focus();
  });
  box.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const all = [...box.querySelectorAll("button")];
    all[(all.indexOf(document.activeElement) + step + all.length) % all.length]?.focus();
  });
  document.body.append(box);
  place(box, anchor);
  box.showPopover();

  const prefix = prediction.text.slice(0, word.from).trimEnd();
  try {
    const { data } = await json("/v1/alternatives", { body: { model, input: text, prefix, top: MANY }, signal: stop.signal });
    const others = nextWords(prefix, data, MANY).filter((each) => each.word !== word.text);
    list.replaceChildren(...(others.length ? others.map((each) => button("", () => { box.hidePopover(); choose(each.beginning); }, { class: "other" }))
      : [make("p", { class: "hint", text: "The model would say nothing else here." })]));
    list.querySelectorAll("button").forEach((made, n) => made.append(make("span", { class: "saying" }, make("b", { text: others[n].word }), make("span", { class: "hint", text: others[n].rest })), make("span", { class: "figure hint", text: percent(others[n].p) })));
    list.querySelector("button")?.focus();
    place(box, anchor);
  } catch (error) {
    if (!isAbort(error)) list.replaceChildren(make("p", { class: "remark", role: "alert", text: error.message }));
  }
}

// Below the word, inside the window.
function place(box, anchor) {
  const at = anchor.getBoundingClientRect();
  const width = Math.min(420, document.documentElement.clientWidth - 24);
  Object.assign(box.style, { width: `${width}px`, left: `${Math.max(12, Math.min(at.left, document.documentElement.clientWidth - width - 12))}px`, top: `${at.bottom + 6}px` });
  const over = box.getBoundingClientRect().bottom - document.documentElement.clientHeight + 8;
  if (over > 0 && at.top > box.offsetHeight + 12) box.style.top = `${at.top - box.offsetHeight - 6}px`;
}
