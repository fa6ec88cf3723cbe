// What people give to a model: a text, pictures, a sound, or a table of numbers.
import { button } from "./parts.js";
import { recorder } from "./recorder.js";
const { make } = globalThis.regard;

// A text that grows with its field. Behind it lies the same text unseen, of which parts can be marked.
export function text({ label, placeholder, value = "", spellcheck = true, actions = [] }, changed) {
  const area = make("textarea", { id: "text", placeholder, "aria-label": label, spellcheck: String(spellcheck), autocapitalize: "sentences", rows: 1 });
  const behind = make("div", { class: "behind", "aria-hidden": "true" });
  const count = make("span", { class: "hint count" });
  const clear = button("Clear", () => { area.value = ""; area.focus(); update(); }, { class: "quiet" });
  let marked = [];
  area.value = value;

  function draw() {
    const [shown, pieces] = [area.value, []];
    let at = 0;
    for (const [from, to] of marked) {
      if (from < at || to > shown.length) continue;
      pieces.push(shown.slice(at, from), make("mark", { text: shown.slice(from, to) }));
      at = to;
    }
    behind.replaceChildren(...pieces, `${shown.slice(at)}\n`);
    const length = [...shown].length;
    count.textContent = length ? `${length.toLocaleString("en")} character${length === 1 ? "" : "s"}` : "";
    clear.hidden = !length;
  }
  function update() {
    marked = [];
    draw();
    changed();
  }
  area.addEventListener("input", update);
  draw();
  return {
    element: make("div", { class: "card input" }, make("div", { class: "grow" }, behind, area),
      make("div", { class: "bar" }, ...actions.map(([title, act]) => button(title, () => { act(area); update(); area.focus(); })), count, clear)),
    value: () => area.value,
    asked: () => ({ inputs: [area.value] }),
    empty: () => !area.value.trim(),
    kept: () => ({ text: area.value }),
    mark: (ranges) => { marked = [...ranges].sort((a, b) => a[0] - b[0]); draw(); },
    focus: () => area.focus(),
  };
}

// Files that are chosen, dropped or pasted.
function files({ label, accept, many, what, fits }, changed, more = []) {
  const chooser = make("input", { type: "file", accept, id: "file", class: "hidden-file", "aria-label": label, multiple: many ? "" : null });
  const wrong = make("p", { class: "remark", role: "alert" });
  const open = button(many ? "Choose files" : "Choose a file", () => chooser.click(), { class: "primary" });
  const shown = make("div", { class: "shown" });
  const zone = make("div", { class: "card drop" }, shown, make("div", { class: "invite" }, open, ...more,
    make("span", { class: "hint", text: `or drop ${what} here, or paste ${many ? "them" : "it"}` })), wrong, chooser);
  const take = (given) => {
    const good = [...given].filter(fits);
    wrong.textContent = good.length ? "" : `This is not ${what}.`;
    if (good.length) changed(many ? good : good.slice(0, 1));
  };
  chooser.tabIndex = -1;
  chooser.addEventListener("change", () => { if (chooser.files.length) take(chooser.files); chooser.value = ""; });
  zone.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => { event.preventDefault(); zone.classList.remove("over"); take(event.dataTransfer.files); });
  const pasted = (event) => {
    if (!zone.isConnected) return document.removeEventListener("paste", pasted);
    if (event.clipboardData?.files.length) take(event.clipboardData.files);
  };
  document.addEventListener("paste", pasted);
  return { zone, shown, open };
}

const base = (chosen) => ({
  value: () => chosen(),
  asked: () => ({ files: chosen() }),
  empty: () => !chosen().length,
  kept: () => ({}),
  mark: () => {},
});

export function pictures({ many = false }, changed) {
  let chosen = [];
  const addresses = [];
  const { zone, shown, open } = files({ label: many ? "Pictures" : "Picture", accept: "image/*", many, what: many ? "pictures" : "a picture", fits: (file) => file.type.startsWith("image/") }, (found) => {
    chosen = found;
    addresses.splice(0).forEach((each) => URL.revokeObjectURL(each));
    shown.replaceChildren(...(many && found.length > 1 ? [] : found).map((file) => {
      const address = URL.createObjectURL(file);
      addresses.push(address);
      return make("img", { src: address, alt: `The picture ${file.name}` });
    }));
    if (many && found.length > 1) shown.replaceChildren(make("p", { class: "hint", text: `${found.length} pictures` }));
    changed();
  });
  return { ...base(() => chosen), element: zone, focus: () => open.focus() };
}

export function sound(_, changed) {
  let [chosen, address] = [[], null];
  const show = (found) => {
    chosen = found;
    if (address) URL.revokeObjectURL(address);
    address = URL.createObjectURL(found[0]);
    const player = make("audio", { src: address, controls: "", "aria-label": `The sound ${found[0].name}` });
    shown.replaceChildren(player);
    changed();
  };
  const record = recorder((file) => show([file]));
  const { zone, shown, open } = files({ label: "Sound", accept: "audio/*,.wav,.flac,.ogg,.mp3", what: "a sound", fits: (file) => /^audio\//.test(file.type) || /\.(wav|flac|ogg|mp3)$/i.test(file.name) }, show, [record]);
  return { ...base(() => chosen), element: zone, focus: () => open.focus(), player: () => shown.querySelector("audio") };
}

// Numbers as CSV: typed, pasted, or from a file.
export function series({ value = "" }, changed) {
  const field = text({ label: "CSV with a line of names, then one line for each step", placeholder: "date,value\n2024-01-01,3.1\n2024-01-02,2.9\n…", value, spellcheck: false }, changed);
  const { zone, open } = files({ label: "CSV file", accept: ".csv,.tsv,.txt,text/csv,text/plain", what: "a CSV file", fits: (file) => !/^(image|audio|video)\//.test(file.type) }, async ([file]) => {
    const area = field.element.querySelector("textarea");
    area.value = (await file.text()).replace(/^\ufeff/, "");
    area.dispatchEvent(new Event("input"));
  });
  zone.classList.remove("card");
  field.element.classList.add("numbers");
  field.element.append(zone);
  return { ...field, focus: () => open.focus() };
}
