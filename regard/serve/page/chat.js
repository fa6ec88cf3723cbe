// A conversation with a model that has a template for it.
import { isAbort, stream } from "./api.js";
import { manner, options as usual, tinted } from "./generate.js";
import { hint } from "./parts.js";
const { make } = globalThis.regard;

export const live = false;
export const action = "Send";
export const turns = true; // the input is emptied when it is sent, and Enter sends it
export const title = () => "Talk";
export const input = () => ({ kind: "text", label: "Your message", placeholder: "Write a message; Enter sends it" });
export const options = (about) => usual(about);

// The conversation so far belongs to the place where it is shown: two models have one each.
const conversations = new WeakMap();

function say(log, role, text) {
  const bubble = make("div", { class: `turn ${role}` }, make("span", { class: "who", text: role === "user" ? "You" : "Model" }), make("div", { class: "words", dir: "auto", text }));
  log.append(bubble);
  bubble.scrollIntoView({ block: "nearest" });
  return bubble.lastChild;
}

export async function run({ model, about, text, options: chosen, signal, busy, out }) {
  const past = conversations.get(out) ?? conversations.set(out, []).get(out);
  if (!past.length) out.replaceChildren(make("div", { class: "talk", role: "log", "aria-label": "Conversation" }));
  const log = out.querySelector(".talk");
  const said = [...past, { role: "user", content: text }];
  say(log, "user", text);
  const words = say(log, "assistant", "");
  let so_far = "";
  try {
    const found = await stream(model, { inputs: [said], ...manner(chosen, about) }, { signal, busy, piece: (piece) => { so_far += piece; words.append(piece); } });
    so_far = found.text;
    words.replaceChildren(...tinted(found));
  } catch (error) {
    if (!isAbort(error) && !so_far) {
      log.lastChild.remove();
      log.lastChild.remove();
      throw error;
    }
    words.append(isAbort(error) ? " (stopped)" : ` (${error.message})`);
  }
  past.splice(0, past.length, ...said, { role: "assistant", content: so_far || "…" });
  return so_far;
}

export const forget = (out) => conversations.delete(out);
export const empty = () => hint("The conversation appears here. It is kept in this tab alone.");
