// The page: which model, which other beside it, which input; the rest belongs to the tasks.
import * as caption from "./caption.js";
import * as chat from "./chat.js";
import * as classify from "./classify.js";
import * as contrast from "./contrast.js";
import * as fill from "./fill.js";
import * as forecast from "./forecast.js";
import * as generate from "./generate.js";
import * as tag from "./tag.js";
import * as transcribe from "./transcribe.js";
import * as translate from "./translate.js";
import { json, key } from "./api.js";
import * as inputs from "./inputs.js";
import * as link from "./link.js";
import { options } from "./options.js";
import { panel } from "./panel.js";
import { button, hint } from "./parts.js";
const { make } = globalThis.regard;

const TASKS = { translate, classify, tag, masked_language_model: fill, bidirectional_language_model: fill, forecast, caption, contrast, transcribe };
const INPUTS = { text: inputs.text, picture: inputs.pictures, sound: inputs.sound, series: inputs.series };
const PAUSE = 180; // milliseconds without a key before the model is asked
const NAMES = { translate: "Translate", classify: "Classify", tag: "Tag", masked_language_model: "Fill in", bidirectional_language_model: "Fill in", language_model: "Write",
  forecast: "Forecast", caption: "Describe pictures", contrast: "Match", transcribe: "Transcribe" };

const $ = (id) => document.getElementById(id);
const taskOf = ({ regard: about }) => (about.task === "language_model" ? (about.chat ? chat : generate) : TASKS[about.task]);
const alike = (a, b) => a.regard.task === b.regard.task && a.regard.reads === b.regard.reads;

let models = [];
let [first, second, now] = [null, null, null];

// API key

function keyForm() {
  const field = make("input", { type: "password", id: "key", autocomplete: "off", "aria-describedby": "key-hint", required: "" });
  const form = make("form", { class: "card key" }, make("label", { for: "key", text: "API key" }), field, make("button", { type: "submit", class: "primary", text: "Use it" }),
    make("p", { class: "hint", id: "key-hint", text: "This server wants a key. It is kept in this tab until you close it, and sent to this server alone." }));
  form.addEventListener("submit", (event) => { event.preventDefault(); key.set(field.value.trim()); start(); });
  return { form, field };
}

function askKey(text = "") {
  const { form, field } = keyForm();
  $("models").replaceChildren();
  $("tools").replaceChildren();
  $("work").replaceChildren(...(text ? [make("p", { class: "problem", role: "alert", text })] : []), form);
  field.focus();
}

// Header

function chooser(id, label, some, chosen, pick) {
  const kinds = [...new Set(some.map((each) => each.regard.task))];
  const option = (each) => make("option", { value: each.id, text: each.id + (each.regard.unfinished ? " (in training)" : ""), selected: each === chosen ? "" : null });
  const select = make("select", { id, onchange: () => pick(models.find((each) => each.id === select.value)) },
    ...(kinds.length > 1 ? kinds.map((kind) => make("optgroup", { label: NAMES[kind] ?? kind }, ...some.filter((each) => each.regard.task === kind).map(option))) : some.map(option)));
  return make("label", { class: "model", for: id }, make("span", { text: label }), select);
}

// It stays while all else changes: a name that is typed into it would begin anew with each key.
let picker = null;

function header() {
  const others = models.filter((each) => each !== first && alike(each, first));
  const beside = second
    ? [chooser("other", "beside", others, second, (each) => open(first, each)), button("One model", () => open(first, null), { class: "quiet" })]
    : others.length ? [button("Compare", () => open(first, others[0]), { class: "quiet", title: "Put another model beside this one" })] : [];
  if (!picker?.isConnected) {
    picker = models.length > 1 ? chooser("model", "Model", models, first, (each) => open(each, second && each !== second && alike(each, second) ? second : null))
      : make("span", { class: "model one" }, make("bdi", { text: first.id }));
    $("models").replaceChildren(picker);
  }
  if (models.length > 1) $("model").value = first.id;
  while (picker.nextSibling) picker.nextSibling.remove();
  picker.after(...beside);
  const copy = button("Copy link", async () => {
    now.keep();
    try {
      await navigator.clipboard.writeText(location.href);
      copy.textContent = "Link copied";
    } catch {
      copy.textContent = "It is in the address bar";
    }
    setTimeout(() => { copy.textContent = "Copy link"; }, 1800);
  }, { class: "quiet", title: "A link with the model and the input; the input stays in the part of the address that is sent to no server" });
  $("tools").replaceChildren(copy, ...(key.get() ? [button("Forget key", () => { key.set(""); askKey(); }, { class: "quiet" })] : []));
}

const large = (count) => (count >= 1e6 ? `${(count / 1e6).toFixed(count < 1e7 ? 1 : 0)} million` : count.toLocaleString("en"));

function footer() {
  const facts = [first, second].filter(Boolean).map(({ id, regard: about }) => `${id}: ${large(about.parameters)} parameters${about.engine === "ctranslate2" ? ", by CTranslate2" : ""}${about.unfinished ? ", still in training" : ""}`);
  $("foot").replaceChildren(make("span", { text: facts.join(" · ") }), make("a", { href: "/openapi.json", text: "API" }));
}

// The work itself

function build(kept) {
  const task = taskOf(first);
  const about = first.regard;
  const spec = task.input(about);
  const announced = make("div", { id: "announce", class: "unseen", "aria-live": "polite" });
  let timer = 0;

  const ask = (more = {}) => {
    clearTimeout(timer);
    keep();
    if (given.empty() && !more.text) return panels.forEach((each) => each.rest());
    if (!task.live) running(true);
    return Promise.all(panels.map((each) => each.ask({ input: given, options: chosen.values(), ...more }))).then(() => running(false));
  };
  const changed = () => {
    clearTimeout(timer);
    panels.forEach((each) => each.forced.clear());
    if (!task.live) return undefined;
    timer = setTimeout(ask, spec.kind === "text" || spec.kind === "series" ? PAUSE : 0);
    return undefined;
  };
  const keep = () => link.write({ model: models.length > 1 ? first.id : "", with: second?.id ?? "", ...(task.turns ? {} : given.kept()), ...chosen.kept() });

  const given = INPUTS[spec.kind]({ ...spec, value: kept.text ?? "" }, changed);
  const chosen = options(task.options(about), kept, () => (task.live ? changed() : keep()));
  const panels = [first, second].filter(Boolean).map((model) => panel(task, model, { named: Boolean(second), inside: (each) => inside(each, given, chosen.values()), askKey: () => askKey("This key is not known.") }));

  const send = () => {
    const area = given.element.querySelector("textarea");
    const text = area.value.trim();
    if (!text) return area.focus();
    if (!task.turns) return ask();
    area.value = "";
    area.dispatchEvent(new Event("input"));
    return ask({ text });
  };
  const go = task.live ? null : button(task.action, send, { class: "primary" });
  const halt = task.live ? null : button("Stop", () => { panels.forEach((each) => each.stop()); running(false); }, { hidden: "" });
  const running = (yes) => {
    if (!go) return;
    const focused = [go, halt].includes(document.activeElement);
    [go.hidden, halt.hidden] = [yes, !yes];
    if (focused) (yes ? halt : go).focus();
  };
  if (go) {
    given.element.querySelector(".bar").prepend(go, halt);
    given.element.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.isComposing || event.shiftKey || !(task.turns || event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      if (!go.hidden) send();
    });
  }
  const folded = chosen.element ? make("details", { class: "settings", open: task === contrast || Object.keys(chosen.kept()).length ? "" : null }, make("summary", { text: "Options" }), chosen.element) : null;
  const outputs = make("div", { class: second ? "outputs two" : "outputs" }, ...panels.map((each) => each.element));
  const side = make("div", { class: "side" }, given.element, folded);
  const whole = make("div", { class: `task ${second ? "compare" : "single"} ${task.turns ? "turns" : task.live ? "" : "writes"}` }, ...(task.turns ? [outputs, side] : [side, outputs]));
  $("work").replaceChildren(make("h2", { class: "title", text: task.title(about) }), whole, announced);
  document.title = `${first.id} · regard`;
  return { ask: () => { if (task.live && !given.empty()) ask(); }, keep, stop: () => { clearTimeout(timer); panels.forEach((each) => each.stop()); }, given, focus: () => given.focus() };
}

function inside(model, given, chosen) {
  globalThis.regardGiven = { model: model.id, asked: given.asked(), options: chosen };
  const { text: plain } = given.kept();
  const asked = plain ? { text: taskOf(model).read?.(plain) ?? plain } : {};
  const text = new URLSearchParams({ model: model.id, ...asked }).toString().replaceAll("+", "%20");
  window.open(`/page/inside.html#${text}`, "_blank");
}

// Another model keeps the input where it can.
function open(one, other, kept = null) {
  const before = now && alike(one, first) ? { ...link.read() } : null;
  const text = now?.given.kept().text;
  const focused = document.activeElement?.id;
  now?.stop();
  [first, second] = [one, other];
  header();
  footer();
  now = build(kept ?? before ?? (text ? { text } : {}));
  now.keep();
  now.ask();
  if (focused) $(focused)?.focus();
}

function fromLink() {
  const kept = link.read();
  const one = models.find((each) => each.id === kept.model) ?? models[0];
  const other = models.find((each) => each.id === kept.with && each !== one && alike(each, one)) ?? null;
  open(one, other, kept);
}

async function start() {
  try {
    models = (await json("/v1/models", { busy: (text) => $("work").replaceChildren(hint(text)) })).data.filter(taskOf);
  } catch (error) {
    if (error.status === 401) return askKey(key.get() ? "This key is not known here." : "");
    if (error.status === 503) {
      $("work").replaceChildren(make("p", { class: "hint", role: "status", text: error.message }));
      return setTimeout(start, 1500);
    }
    $("work").replaceChildren(make("p", { class: "problem", role: "alert", text: error.message }), button("Try again", start));
    return undefined;
  }
  if (!models.length) return $("work").replaceChildren(hint("This server has no model that this page can show."));
  fromLink();
  if (matchMedia("(pointer: fine)").matches) now.focus();
  addEventListener("hashchange", fromLink);
  // What stands after “#” is the input: the way to it must not change it.
  document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); now.focus(); });
  document.documentElement.dataset.ready = "";
  return undefined;
}

start();
