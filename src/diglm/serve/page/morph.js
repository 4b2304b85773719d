// From what was drawn to an image of another class that the model draws, through its latent space.

import { ask } from "/page/api.js";
import { element } from "/page/draw.js";
import { showPixels, toBase64 } from "/page/strokes.js";

const STEPS = 16;
const PAUSE = 110; // milliseconds a frame
const COOL = 0.6; // below one, draws are more typical
const DRAWS = 8; // of which the one is taken that is read most surely

function surest(answers, wanted) {
  const sure = answers.probability.map((p, i) => (answers.prediction[i] === wanted && !answers.rejected[i] ? p : 0));
  return sure.indexOf(Math.max(...sure));
}

export function showMorph(model, image) {
  const section = document.getElementById("change");
  section.hidden = !model.counterfactual;
  if (!model.counterfactual) return { enable: () => {} };
  const frame = element("canvas", { class: "small-image", role: "img", ariaLabel: "The changed image" });
  const slider = element("input", { id: "frame", type: "range", min: 0, max: STEPS - 1, step: 1, value: 0, disabled: true });
  const status = element("p", { role: "status" }, "Draw something first.");
  const buttons = model.target.classes.map((name) => element("button", { type: "button", disabled: true, ariaPressed: "false" }, String(name)));
  section.replaceChildren(
    element("h2", { id: "change-title" }, "Turn it into"),
    element("div", { class: "buttons", role: "group", ariaLabel: "Class" }, ...buttons),
    element("div", { class: "morph" }, frame, element("label", {}, "From what was drawn to what was asked", slider)),
    status,
  );
  let frames = [];
  let read;
  let seed = 0;
  const show = (i) => {
    slider.value = i;
    if (!frames[i]) return;
    showPixels(frame, frames[i].flat(2), model.height, model.width);
    status.textContent = `Read as ${read.prediction[i]}; ${read.rejected[i] ? "refused" : "answered"}.`;
  };
  slider.addEventListener("input", () => show(Number(slider.value)));

  const packed = (images) => images.map((each) => toBase64(each.flat(2)));
  const assess = async (images) => (await ask("/assess", { model: model.name, images })).answers;

  async function turn(wanted) {
    const from = toBase64(image());
    status.textContent = "Drawing …";
    seed += 1;
    const drawn = await ask("/sample", { model: model.name, y: wanted, n: DRAWS, seed, temperature: COOL });
    const to = packed(drawn.images)[surest(await assess(packed(drawn.images)), wanted)];
    const way = await ask("/interpolate", { model: model.name, images: [from, to], steps: STEPS });
    read = await assess(packed(way.images));
    frames = way.images;
    slider.disabled = false;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    for (let i = 0; i < frames.length; i += 1) {
      show(i);
      if (!still) await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
  }
  buttons.forEach((button, i) => button.addEventListener("click", () => {
    buttons.forEach((each) => { each.ariaPressed = String(each === button); });
    turn(model.target.classes[i]).catch((error) => { status.textContent = error.message; });
  }));
  return {
    enable: (on) => {
      for (const button of buttons) button.disabled = !on;
      if (on && !frames.length) status.textContent = "Choose what it should turn into.";
      if (!on) {
        frames = [];
        slider.disabled = true;
        status.textContent = "Draw something first.";
        frame.getContext("2d").clearRect(0, 0, frame.width, frame.height);
      }
    },
  };
}
