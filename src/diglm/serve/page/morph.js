// From what was drawn to the nearest image of another class, along a great circle of the latents.

import { ask } from "/page/api.js";
import { element } from "/page/draw.js";
import { showPixels, toBase64 } from "/page/strokes.js";

const STEPS = 16;
const PAUSE = 110; // milliseconds a frame

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
  const show = (i) => {
    slider.value = i;
    if (frames[i]) showPixels(frame, frames[i].flat(2), model.height, model.width);
  };
  slider.addEventListener("input", () => show(Number(slider.value)));

  async function turn(wanted) {
    const asked = { model: model.name, images: [toBase64(image())], target: wanted, steps: STEPS };
    const found = await ask("/counterfactual", asked);
    frames = found.path.images;
    slider.disabled = false;
    const verdict = found.rejected[0] ? "it would be refused" : "it would be answered";
    status.textContent = `Read as ${found.prediction[0]}; ${verdict}.`;
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
      if (!on) {
        frames = [];
        slider.disabled = true;
        status.textContent = "Draw something first.";
        frame.getContext("2d").clearRect(0, 0, frame.width, frame.height);
      }
    },
  };
}
