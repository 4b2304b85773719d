// Finds the models, and gives each kind its view.

import { ask, untilReady } from "/page/api.js";
import { element } from "/page/draw.js";
import { showImages } from "/page/digits.js";
import { showTable } from "/page/table.js";

const VIEWS = { table: showTable, image: showImages };
const message = document.getElementById("message");
const main = document.getElementById("main");
const view = document.getElementById("view");

export function tell(text) {
  message.textContent = text;
  message.hidden = !text;
}

async function show(name) {
  main.setAttribute("aria-busy", "true");
  const model = await ask(`/models/${encodeURIComponent(name)}`);
  document.title = `${model.name} – diglm`;
  for (const id of ["change", "file"]) {
    document.getElementById(id).hidden = true;
    document.getElementById(id).replaceChildren();
  }
  document.getElementById("input").replaceChildren();
  view.hidden = false;
  tell("");
  await VIEWS[model.kind](model);
  main.setAttribute("aria-busy", "false");
}

function complain(error) {
  tell(error.hint ? `${error.message} ${error.hint}` : error.message);
  main.setAttribute("aria-busy", "false");
}

async function start() {
  await untilReady(tell);
  const { models } = await ask("/models");
  if (models.length === 0) {
    tell("No model is loaded yet.");
    return;
  }
  const select = document.getElementById("model");
  select.replaceChildren(...models.map(({ name }) => element("option", { value: name }, name)));
  const wanted = decodeURIComponent(location.hash.slice(1));
  if (models.some(({ name }) => name === wanted)) select.value = wanted;
  document.getElementById("choose").hidden = models.length < 2;
  select.addEventListener("change", () => {
    history.replaceState(null, "", `#${encodeURIComponent(select.value)}`);
    show(select.value).catch(complain);
  });
  await show(select.value);
}

start().catch(complain);
