// Settings of a task: [{ name, label, type, value, … }] as controls; what is as usual is not kept in the link.
const { make } = globalThis.regard;

function control({ name, label, type, value, choices, ...more }, kept, changed) {
  const id = `option-${name}`;
  const given = kept[name] ?? value;
  let element;
  if (type === "select") {
    element = make("select", { id, onchange: changed }, ...choices.map(([each, text]) => make("option", { value: each, text, selected: String(each) === String(given) ? "" : null })));
  } else if (type === "checkbox") {
    element = make("input", { id, type, onchange: changed });
    element.checked = String(given) === "true";
  } else if (type === "area") {
    element = make("textarea", { id, rows: 4, oninput: changed, ...more });
    element.value = given;
  } else {
    element = make("input", { id, type, oninput: changed, autocomplete: "off", ...more });
    element.value = given;
  }
  const shown = type === "range" ? make("output", { for: id, text: given }) : null;
  if (shown) element.addEventListener("input", () => { shown.textContent = element.value; });
  return { element, whole: make("label", { class: `option ${type}`, for: id }, make("span", { text: label }), element, shown) };
}

export function options(specs, kept, changed) {
  const made = specs.map((spec) => ({ spec, ...control(spec, kept, () => changed()) }));
  const raw = ({ spec, element }) => (spec.type === "checkbox" ? element.checked : element.value);
  const read = (each) => {
    const found = raw(each);
    return ["number", "range"].includes(each.spec.type) ? (found === "" || Number.isNaN(Number(found)) ? null : Number(found)) : found;
  };
  return {
    element: made.length ? make("div", { class: "options" }, ...made.map(({ whole }) => whole)) : null,
    values: () => Object.fromEntries(made.map((each) => [each.spec.name, read(each)])),
    set: (name, value) => { const each = made.find(({ spec }) => spec.name === name); each.element.value = value; },
    kept: () => Object.fromEntries(made.filter((each) => String(raw(each)) !== String(each.spec.value)).map((each) => [each.spec.name, String(raw(each))])),
  };
}
