// The page that looks inside, live: it asks the server for the views of an input, then is the page that
// `regard inspect` writes. Another input, or heads that are switched off, are asked for anew.
import { json } from "./api.js";
import * as link from "./link.js";
const { make } = globalThis.regard;

// The viewer puts the name of a view into the address: what is looked at is kept in this tab as well.
const KEPT = "regard.inside";
const given = link.read();
const asked = given.model || given.text ? given : JSON.parse(sessionStorage.getItem(KEPT) ?? "{}");
sessionStorage.setItem(KEPT, JSON.stringify(asked));
const without = new Set((asked.without ?? "").split(",").filter(Boolean));
const $ = (id) => document.getElementById(id);

// A file as base64, without what stands before it.
const base64 = (file) => new Promise((done, stop) => {
  const reader = new FileReader();
  reader.onload = () => done(reader.result.slice(reader.result.indexOf(",") + 1));
  reader.onerror = () => stop(new Error("The file cannot be read any more. Choose it again."));
  reader.readAsDataURL(file);
});

// The input: of the address, or a file that the page which opened this one holds.
async function input() {
  if (asked.text) return asked.text;
  const file = globalThis.opener?.regardGiven?.asked.files?.[0];
  if (file) return { base64: await base64(file) };
  throw new Error("There is no input to look at. Open this page by “Look inside”, or write a text below.");
}

function again(change) {
  link.write({ ...asked, without: [...without].join(","), ...change });
  location.reload();
}

function controls(heads) {
  const text = make("textarea", { rows: 2, id: "again", spellcheck: "false" });
  text.value = asked.text ?? "";
  const switches = heads.map(({ kind, layer, heads: count }) => make("div", null, make("span", { class: "name", text: `${kind} ${layer}` }),
    ...Array.from({ length: count }, (_, n) => `${kind}.${layer}.${n}`).map((name, n) => {
      const each = make("button", { type: "button", text: String(n), "aria-label": `Head ${name}`, title: name, "aria-pressed": String(without.has(name)), onclick: () => {
        without.has(name) ? without.delete(name) : without.add(name);
        each.setAttribute("aria-pressed", String(without.has(name)));
      } });
      return each;
    })));
  const form = make("form", null, asked.text || !heads.length ? make("label", { for: "again" }, "Input", text) : null,
    switches.length ? make("fieldset", { class: "switches" }, make("legend", { text: "Heads that are switched off: press to change" }), ...switches) : null,
    make("div", { class: "bar" }, make("button", { type: "submit", text: "Read again" }), make("a", { href: `/#${new URLSearchParams({ model: asked.model ?? "", text: asked.text ?? "" })}`, text: "Back to the model" })));
  form.addEventListener("submit", (event) => { event.preventDefault(); again(asked.text || text.value ? { text: text.value } : {}); });
  const off = without.size ? `, without ${[...without].join(", ")}` : "";
  $("live").replaceChildren(make("details", { open: without.size ? "" : null }, make("summary", { text: `Change the input or switch heads off${off}` }), form));
}

// The viewer's own scripts, in their order.
const load = (name) => new Promise((done, stop) => {
  const script = make("script", { src: `/page/inside/${name}` });
  script.addEventListener("load", done);
  script.addEventListener("error", () => stop(new Error("The server cannot be reached.")));
  document.head.append(script);
});

async function start() {
  const wait = (text) => $("views").replaceChildren(make("p", { class: "waits", role: "status", text }));
  wait("The model reads, and everything in it is written down. This takes some seconds.");
  try {
    const body = { input: await input(), ...(asked.model ? { model: asked.model } : {}), ...(without.size ? { without_heads: [...without] } : {}) };
    const found = await json("/v1/inspect", { body, busy: wait });
    controls(found.heads);
    globalThis.regard.tree = found.content;
    for (const [number, text] of Object.entries(found.blocks)) document.body.append(make("script", { type: "text/plain", id: `block-${number}`, text }));
    $("views").replaceChildren();
    for (const name of found.scripts) await load(name);
  } catch (error) {
    $("views").replaceChildren(make("p", { class: "problem", role: "alert", text: error.message }));
    controls([]);
  }
}

start();
