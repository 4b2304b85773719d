// A table's model: a form made from its columns, and what the model says of the row in it.

import { clearAnswer, showAnswer, showReasons } from "/page/answer.js";
import { ask, newest } from "/page/api.js";
import { showChange } from "/page/change.js";
import { element, number } from "/page/draw.js";
import { showFile } from "/page/file.js";

const MISSING = "";
const MOST_REASONS = 6;
const COOL = 0.8; // below one, draws are more typical

// One field of the form: how a value is shown, and how it is read.
function numberField(column, id) {
  const box = element("input", { id, type: "number", step: "any", placeholder: "missing", inputMode: "decimal" });
  const slider = element("input", { type: "range", step: "any", ariaLabel: `${column.name}, slider` });
  slider.min = column.low;
  slider.max = column.high;
  if (column.step) slider.step = column.step;
  slider.addEventListener("input", () => { box.value = Number(Number(slider.value).toPrecision(6)); });
  box.addEventListener("input", () => { if (box.value !== "") slider.value = box.value; });
  return {
    parts: [slider, box],
    read: () => (box.value.trim() === "" ? null : Number(box.value)),
    write: (value) => {
      box.value = value === null ? "" : Number(value.toPrecision(6));
      if (value !== null) slider.value = value;
    },
  };
}

function categoryField(column, id) {
  const options = column.categories.map((level, i) => element("option", { value: String(i) }, String(level)));
  const select = element("select", { id, class: "wide" }, ...options, element("option", { value: MISSING }, "(missing)"));
  return {
    parts: [select],
    read: () => (select.value === MISSING ? null : column.categories[Number(select.value)]),
    write: (value) => {
      const place = column.categories.indexOf(value);
      select.value = place < 0 ? MISSING : String(place);
    },
  };
}

function textField(column, id) {
  const box = element("input", { id, class: "wide", type: "text", placeholder: "missing", title: `${column.low} to ${column.high}` });
  return {
    parts: [box],
    read: () => (box.value.trim() === "" ? null : box.value.trim()),
    write: (value) => { box.value = (value ?? "").slice(0, 19); }, // to the second
  };
}

const FIELDS = { number: numberField, duration: numberField, category: categoryField, date: textField };

export async function showTable(model) {
  const fields = model.columns.map((column, i) => ({ column, ...FIELDS[column.type](column, `field-${i}`) }));
  const draw = element("button", { type: "button" }, "Draw a likely row");
  const lines = fields.map(({ column, parts }, i) =>
    element("div", { class: "field" }, element("label", { htmlFor: `field-${i}` }, column.name), ...parts));
  const note = element("p", { class: "note", role: "alert" });
  const form = element("form", {}, ...lines);
  form.addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("input").replaceChildren(
    element("h2", { id: "input-title" }, "A row"),
    element("p", { class: "note" }, "An empty field is a missing value."),
    element("div", { class: "buttons" }, draw),
    form,
    note,
  );

  const row = () => fields.map(({ read }) => read());
  const asked = (values) => ({ model: model.name, rows: [values] });
  const change = showChange(model, row, (values) => { fill(values); });

  const update = newest(async (values, isNewest) => {
    try {
      const [predicted, assessed] = await Promise.all([ask("/predict", asked(values)), ask("/assess", asked(values))]);
      if (!isNewest()) return;
      note.textContent = "";
      showAnswer(model, predicted.answers, assessed.answers);
      explain(values); // both take longer, and the next answer does not wait for them
      change.update(values, predicted.answers);
    } catch (error) {
      note.textContent = error.hint ? `${error.message} ${error.hint}` : error.message;
      clearAnswer(model, "There is no answer.");
    }
  });

  const explain = newest(async (values, isNewest) => {
    if (!model.explains) return;
    let found;
    try {
      found = await ask("/explain", asked(values));
    } catch {
      showReasons([]); // why there is no answer is said beside the answer
      return;
    }
    if (!isNewest()) return;
    const { columns, strangeness } = found;
    const parts = columns.map((name, i) => [name, strangeness[0][i]]).filter(([, part]) => part > 0);
    parts.sort((a, b) => b[1] - a[1]);
    const most = Math.max(1, parts[0]?.[1] ?? 0); // less than a nat is not worth a long bar
    showReasons(parts.slice(0, MOST_REASONS).map(([name, part]) => [name, part / most, `+${number(part)}`]));
  });

  function fill(values) {
    fields.forEach(({ write }, i) => write(values[i]));
    return update(row());
  }

  form.addEventListener("input", () => update(row()));
  let seed = 0;
  async function drawRow() {
    const { columns } = await ask("/sample", { model: model.name, n: 1, seed, temperature: COOL });
    seed += 1;
    await fill(model.columns.map(({ name }) => columns[name][0]));
  }
  draw.addEventListener("click", () => drawRow().catch((error) => { note.textContent = error.message; }));
  showFile(model);
  await drawRow();
}
