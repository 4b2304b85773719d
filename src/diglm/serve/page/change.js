// What would have to change for another answer: sliders that ask, and a table that tells.

import { ask, newest } from "/page/api.js";
import { element, number } from "/page/draw.js";

export function showChange(model, row, take) {
  const section = document.getElementById("change");
  section.hidden = !model.counterfactual;
  if (!model.counterfactual) return { update: async () => {} };
  const controls = CONTROLS[model.target.type](model);
  const result = element("div", { ariaLive: "polite" });
  const fixed = new Set();
  section.replaceChildren(
    element("h2", { id: "change-title" }, "What would have to change?"),
    element("p", { class: "note" }, "The nearest row, for the model, that would be answered as you ask."),
    ...controls.parts,
    result,
  );

  const update = newest(async (values, isNewest) => {
    if (!result.childElementCount) result.replaceChildren(element("p", { class: "note" }, "Looking for such a row …"));
    const body = { model: model.name, rows: [values], fixed: [...fixed], ...controls.read() };
    try {
      const found = await ask("/counterfactual", body);
      if (isNewest()) showFound(model, values, found, result, take, fixed);
    } catch (error) {
      result.replaceChildren(element("p", { class: "note" }, error.message));
    }
  });
  for (const part of controls.parts) part.addEventListener("input", () => update(row()));
  result.addEventListener("change", ({ target: { name, checked } }) => {
    if (checked) fixed.add(name);
    else fixed.delete(name);
    update(row());
  });
  return {
    update: (values, predicted) => {
      controls.start(predicted.prediction[0]);
      return update(values);
    },
  };
}

function labelled(text, control) {
  return element("label", { class: "field" }, element("span", {}, text), control);
}

function classControls(model) {
  const { classes } = model.target;
  const select = element("select", { class: "wide", id: "wanted" }, ...classes.map((name, i) => element("option", { value: String(i) }, String(name))));
  const margin = element("input", { class: "wide", id: "margin", type: "range", min: 0, max: 6, step: 0.1, value: 1 });
  let chosen = false;
  select.addEventListener("input", () => { chosen = true; });
  return {
    parts: [labelled("Wanted answer", select), labelled("How surely", margin)],
    read: () => ({ target: classes[Number(select.value)], margin: Number(margin.value) }),
    start: (prediction) => {
      if (!chosen) select.value = String(classes.findIndex((name) => name !== prediction));
    },
  };
}

function numberControls(model) {
  const { mean, sd } = model.target;
  const slider = element("input", { class: "wide", id: "wanted", type: "range", step: "any" });
  slider.min = mean - 2 * sd;
  slider.max = mean + 2 * sd;
  slider.value = mean;
  const shown = element("output", { htmlFor: "wanted" }, number(mean));
  slider.addEventListener("input", () => { shown.textContent = number(Number(slider.value)); });
  const label = element("label", { class: "field" }, element("span", {}, "Wanted answer ", shown), slider);
  return { parts: [label], read: () => ({ target: Number(slider.value) }), start: () => {} };
}

const CONTROLS = { classes: classControls, numbers: numberControls };

function showFound(model, values, found, result, take, fixed) {
  const changed = model.columns.map(({ name }) => found.columns[name][0]);
  const spread = model.columns.map(({ low, high }) => (typeof low === "number" ? (high - low) / 200 : 0));
  const lines = model.columns.map(({ name }, i) => {
    const numeric = typeof changed[i] === "number" && typeof values[i] === "number";
    const moved = numeric ? Math.abs(changed[i] - values[i]) > spread[i] : changed[i] !== values[i];
    const keep = element("input", { type: "checkbox", name, checked: fixed.has(name), ariaLabel: `Keep ${name}` });
    return element("tr", { class: moved ? "changed" : "" }, element("th", { scope: "row" }, name), element("td", {}, number(values[i])), element("td", {}, moved ? `→ ${number(changed[i])}` : "stays"), element("td", {}, keep));
  });
  const valid = found.valid[0];
  const verdict = valid
    ? `✓ It would be answered with ${number(found.prediction[0])}.`
    : "✕ No familiar row with that answer was found; the nearest miss is below.";
  const focused = document.activeElement?.name;
  const button = element("button", { type: "button" }, "Take these values");
  button.addEventListener("click", () => take(changed));
  const head = element("thead", {}, element("tr", {}, ...["Column", "Now", "Then", "Keep"].map((text) => element("th", { scope: "col" }, text))));
  result.replaceChildren(
    element("div", { class: `verdict ${valid ? "answered" : "refused"}` }, verdict),
    element("div", { class: "scroll" }, element("table", {}, head, element("tbody", {}, ...lines))),
    element("div", { class: "buttons" }, button),
  );
  if (focused) result.querySelector(`[name="${CSS.escape(focused)}"]`)?.focus();
}
