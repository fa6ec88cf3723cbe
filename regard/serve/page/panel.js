// Where the output of one model stands: what it says, how long it took, what went wrong.
import { isAbort, Refused } from "./api.js";
import { announce, button } from "./parts.js";
const { make } = globalThis.regard;

const QUICK = 250; // milliseconds after which waiting is shown

const ELSE = { "": "Something in this page went wrong." };

export function panel(task, model, { named, inside, askKey }) {
  const about = model.regard;
  const out = make("div", { class: "out" });
  const problem = make("p", { class: "problem", role: "alert" });
  const taken = make("span", { class: "hint taken" });
  const look = button("Look inside", () => inside(model), { class: "quiet look", hidden: "" });
  const element = make("section", { class: "card output", "aria-label": named ? `Output of ${model.id}` : "Output" },
    named ? make("h2", { class: "of" }, make("bdi", { text: model.id })) : null, problem, out,
    make("div", { class: "foot bar" }, taken, look));
  const forced = new Map();
  let [working, waiting] = [null, 0];

  function rest() {
    stop();
    problem.textContent = "";
    taken.textContent = "";
    look.hidden = true;
    task.forget?.(out);
    out.replaceChildren(task.empty(about));
  }

  function stop() {
    working?.abort();
    working = null;
    clearTimeout(waiting);
    element.classList.remove("waiting");
  }

  // Ask the model; what was asked before is of no interest any more. Gives what is to be said aloud.
  async function ask(given) {
    stop();
    const mine = (working = new AbortController());
    const began = performance.now();
    waiting = setTimeout(() => element.classList.add("waiting"), QUICK);
    let used = "";
    try {
      const said = await task.run({ ...given, model: model.id, about, signal: mine.signal, out, forced, again: () => ask(given),
        busy: (text) => { taken.textContent = text; }, set: (_, text) => { used = text; } });
      if (mine !== working) return;
      problem.textContent = "";
      const seconds = (performance.now() - began) / 1000;
      taken.textContent = [seconds < 1 ? `${Math.round(1000 * seconds)} ms` : `${seconds.toFixed(1)} s`, used].filter(Boolean).join(", ");
      look.hidden = task.turns ?? false;
      announce(named ? `${model.id}: ${said}` : said);
    } catch (error) {
      if (isAbort(error) || mine !== working) return;
      if (!(error instanceof Refused) && !(error.constructor === Error)) console.error(error);
      problem.textContent = error.message || ELSE[""];
      if (error.status === 401) askKey();
      taken.textContent = "";
    } finally {
      if (mine === working) stop();
    }
  }

  rest();
  return { element, ask, stop, rest, forced };
}
