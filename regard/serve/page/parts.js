// Pieces that several tasks are made of.
const { make, percent } = globalThis.regard;

let timer = 0;
// Say something to who cannot see it, once nothing else has happened for a while.
export function announce(text, after = 900) {
  clearTimeout(timer);
  timer = setTimeout(() => { document.getElementById("announce").textContent = text; }, after);
}

export const button = (text, onclick, more = {}) => make("button", { type: "button", text, onclick, ...more });

export const hint = (text) => make("p", { class: "hint", text });

// Probabilities as bars, the largest first; beyond `most` they are behind a click.
export function bars(name, chances, most = 8) {
  const sorted = [...chances].sort((a, b) => b[1] - a[1]);
  const item = ([label, p], n) => make("li", { class: n ? null : "said" }, make("bdi", { text: label }),
    make("span", { class: "chance", "aria-hidden": "true" }, make("span", { style: { width: `${(100 * p).toFixed(2)}%` } })),
    make("span", { class: "figure", text: percent(p) }));
  const list = (some, first) => make("ol", { class: "chances", "aria-label": name }, ...some.map((each, n) => item(each, first + n)));
  if (sorted.length <= most + 2) return make("div", null, list(sorted, 0));
  return make("div", null, list(sorted.slice(0, most), 0), make("details", null,
    make("summary", { text: `${sorted.length - most} more` }), list(sorted.slice(most, 200), most)));
}

// What a prediction's status means to a person.
const STATUS = {
  cut: "The input is longer than the model can read: its end was left out.",
  unknown: "Some of this is unknown to the model: it has never seen it.",
  capped: "The output reached its limit of length before it came to an end.",
  unmasked: "There is no blank in the text. Write ___ where a word is to be filled in.",
};
export const remarks = (predictions, but = []) => [...new Set(predictions.map((each) => each.status))]
  .filter((status) => STATUS[status] && !but.includes(status)).map((status) => make("p", { class: "remark", text: STATUS[status] }));

// How sure the model is of a word, as one of six tints; the first is none.
const TINTS = [0.9, 0.7, 0.5, 0.3, 0.12];
export const tint = (p) => (p === null ? 0 : TINTS.filter((least) => p < least).length);
export const tints = () => make("p", { class: "legend tints" }, make("span", { text: "sure" }),
  ...TINTS.concat(0).map((_, n) => make("span", { class: `swatch tint${n}`, "aria-hidden": "true" })), make("span", { text: "unsure" }));

// Elements of which the tab key reaches one and the arrow keys the others.
export function roving(element, name) {
  const all = () => [...element.querySelectorAll("button.word")];
  element.setAttribute("role", "toolbar");
  element.setAttribute("aria-label", name);
  all().forEach((each, n) => { each.tabIndex = n ? -1 : 0; });
  element.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -1e9, End: 1e9 }[event.key];
    const now = all().indexOf(document.activeElement);
    if (!step || now < 0) return;
    event.preventDefault();
    const next = all()[Math.min(all().length - 1, Math.max(0, now + step))];
    all()[now].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  return element;
}

// What text stands between elements is kept as it is: [element or text, …].
export const copyButton = (text) => {
  const made = button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(text());
      made.textContent = "Copied";
    } catch {
      made.textContent = "Not allowed";
    }
    setTimeout(() => { made.textContent = "Copy"; }, 1500);
  }, { class: "quiet" });
  return made;
};

// The code of a language, if it is one; runs that do not say theirs have “source” and “target”.
export const tongue = (code) => (/^[a-z]{2,3}$/.test(code ?? "") ? code : null);
const names = (kind) => { try { return new Intl.DisplayNames("en", { type: kind }); } catch { return null; } };
export const language = (code) => {
  try { return names("language")?.of(code) ?? code; } catch { return code; }
};
