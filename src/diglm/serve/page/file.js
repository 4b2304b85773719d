// A CSV file, dropped or chosen: read here, asked about in pieces, given back with answers.

import { ask } from "/page/api.js";
import { decoded, parseCsv, toCsv, valueOf } from "/page/csv.js";
import { element, number } from "/page/draw.js";

const PIECE = 500;
const MOST_ROWS = 20000;
const SHOWN = 50;

export function showFile(model) {
  const section = document.getElementById("file");
  const input = element("input", { type: "file", id: "csv", accept: ".csv,.tsv,text/csv" });
  const drop = element("div", { class: "drop" }, element("label", { htmlFor: "csv" }, "Drop a CSV file here, or choose one: "), input);
  const status = element("p", { role: "status" });
  const result = element("div");
  section.hidden = false;
  section.replaceChildren(element("h2", { id: "file-title" }, "A file"), drop, status, result);

  async function read(file) {
    result.replaceChildren();
    try {
      await answerFile(model, decoded(await file.arrayBuffer()), file.name, status, result);
    } catch (error) {
      status.textContent = error.hint ? `${error.message} ${error.hint}` : error.message;
    }
  }
  input.addEventListener("click", () => { input.value = ""; }); // the same file again is a change too
  input.addEventListener("change", () => { if (input.files.length) read(input.files[0]); });
  for (const kind of ["dragenter", "dragover"]) {
    drop.addEventListener(kind, (event) => { event.preventDefault(); drop.classList.add("over"); });
  }
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    if (event.dataTransfer.files.length) read(event.dataTransfer.files[0]);
  });
}

async function answerFile(model, text, fileName, status, result) {
  const { names, rows } = parseCsv(text);
  const places = model.columns.map(({ name }) => names.indexOf(name));
  const absent = model.columns.filter((_, i) => places[i] < 0).map(({ name }) => name);
  if (absent.length) throw new Error(`The file lacks the columns ${absent.join(", ")}.`);
  if (!rows.length) throw new Error("The file has no rows below its first line.");
  if (rows.length > MOST_ROWS) throw new Error(`The file has ${rows.length} rows; this page takes ${MOST_ROWS}. Use diglm predict for more.`);
  const values = rows.map((cells) => model.columns.map((column, i) => valueOf(cells[places[i]] ?? "", column)));
  const answers = Object.fromEntries(model.answers.map((name) => [name, []]));
  for (let start = 0; start < values.length; start += PIECE) {
    status.textContent = `${start} of ${values.length} rows …`;
    const found = await ask("/assess", { model: model.name, rows: values.slice(start, start + PIECE) });
    for (const name of model.answers) answers[name].push(...found.answers[name]);
  }
  const refused = answers.rejected.filter(Boolean).length;
  status.textContent = `${values.length} rows: ${values.length - refused} answered, ${refused} refused.`;
  const table = (i) => model.answers.map((name) => answers[name][i]);
  const all = toCsv([...names, ...model.answers], rows.map((cells, i) => [...cells, ...table(i)]));
  const link = element("a", { href: URL.createObjectURL(new Blob([all], { type: "text/csv" })), download: fileName.replace(/\.\w+$/, "") + "-answers.csv" }, "Save all answers as CSV");
  const head = element("tr", {}, ...["Row", ...model.answers].map((name) => element("th", { scope: "col" }, name)));
  const lines = rows.slice(0, SHOWN).map((_, i) => element("tr", {}, element("th", { scope: "row" }, String(i + 1)), ...table(i).map((value) => element("td", {}, typeof value === "boolean" ? (value ? "refused" : "answered") : number(value)))));
  const more = rows.length > SHOWN ? `The first ${SHOWN} rows. ` : "";
  result.replaceChildren(
    element("p", {}, more, link),
    element("div", { class: "scroll", tabIndex: 0, role: "region", ariaLabel: "Answers" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines))),
  );
}
