// A sound in words, each with its time.
import { predict } from "./api.js";
import { copyButton, hint, remarks, roving, tint, tints } from "./parts.js";
import { words } from "./spans.js";
const { make, percent } = globalThis.regard;

export const live = true;
export const title = () => "Transcribe";
export const input = () => ({ kind: "sound" });
export const options = () => [];

const clock = (seconds) => `${Math.floor(seconds / 60)}:${(seconds % 60).toFixed(2).padStart(5, "0")}`;

export async function run({ model, input: given, signal, busy, out }) {
  const { predictions: [found] } = await predict(model, given.asked(), { signal, busy });
  const all = words(found.text, found.tokens, found.log_probs).map((word) => {
    const times = word.tokens.map((n) => found.times?.[n]).filter(Boolean);
    return { ...word, from: times[0]?.[0], to: times.at(-1)?.[1] };
  });
  const player = given.player?.();
  const play = ({ from }) => { if (player && from !== undefined) { player.currentTime = from; player.play(); } };
  const text = make("p", { class: "result heard", dir: "auto" }, ...all.flatMap((word, n) => [n ? " " : "", make("button", {
    type: "button", class: `word tint${tint(word.p)}`, onclick: () => play(word),
    title: [word.p === null ? null : percent(word.p), word.from === undefined ? null : `${clock(word.from)} to ${clock(word.to)}; press to hear it`].filter(Boolean).join(", ") },
    make("bdi", { text: word.text }), word.from === undefined ? null : make("small", { text: clock(word.from) }))]));
  out.replaceChildren(all.length ? roving(text, "Words that were heard: press one to play from there") : hint("No word was heard."),
    make("div", { class: "bar" }, tints(), copyButton(() => found.text)), ...remarks([found]));
  const lit = () => {
    if (!text.isConnected) return player.removeEventListener("timeupdate", lit);
    [...text.querySelectorAll(".word")].forEach((each, n) => each.classList.toggle("lit", !player.paused && all[n].from <= player.currentTime && player.currentTime < all[n].to));
    return undefined;
  };
  player?.addEventListener("timeupdate", lit);
  return found.text;
}

export const empty = () => hint("What is said appears here, with the time of each word.");
