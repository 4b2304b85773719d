// A model of images: draw, watch the answer change with every stroke, and turn it into another class.

import { clearAnswer, showAnswer } from "/page/answer.js";
import { ask, newest } from "/page/api.js";
import { element, trail } from "/page/draw.js";
import { showMorph } from "/page/morph.js";
import { paint, pixels, showPixels, toBase64 } from "/page/strokes.js";

const SIZE = 320;
const STEP = 0.03; // of the canvas, that a key moves the pen
const MOVES = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] };

export async function showImages(model) {
  if (model.channels !== 1) {
    document.getElementById("input").replaceChildren(element("h2", { id: "input-title" }, "Images in colour"), element("p", {}, "This page draws grey images; ask /assess about others."));
    return;
  }
  const canvas = element("canvas", { id: "canvas", width: SIZE, height: SIZE, tabIndex: 0, role: "application" });
  canvas.setAttribute("aria-label", "Drawing area. Arrow keys move the pen, space puts it down or lifts it, Backspace takes back a stroke, Escape clears.");
  const seen = element("canvas", { class: "small-image", role: "img", ariaLabel: "What the model sees" });
  const undo = element("button", { type: "button" }, "Undo");
  const clear = element("button", { type: "button" }, "Clear");
  const history = element("figure", { id: "history" });
  document.getElementById("input").replaceChildren(
    element("h2", { id: "input-title" }, "Draw a digit"),
    element("div", { class: "pad" }, canvas, element("div", {}, element("p", { class: "note" }, "What the model sees"), seen)),
    element("div", { class: "buttons" }, undo, clear),
    element("p", { class: "note" }, "By keyboard: arrow keys move the pen, space puts it down or lifts it, Backspace takes back a stroke, Escape clears."),
    element("h3", {}, "Strangeness, stroke by stroke"),
    history,
  );

  let strokes = [];
  let past = [];
  const pen = { place: [0.5, 0.5], down: false, shown: false };
  const context = canvas.getContext("2d");
  const image = () => pixels(strokes, model.height, model.width);
  const morph = showMorph(model, image);

  function repaint() {
    context.fillStyle = "#000";
    context.fillRect(0, 0, SIZE, SIZE);
    paint(context, strokes, SIZE, SIZE * 0.07);
    if (pen.shown) {
      context.lineWidth = 2;
      context.strokeStyle = pen.down ? "#ffb300" : "#90caf9";
      context.beginPath();
      context.arc(pen.place[0] * SIZE, pen.place[1] * SIZE, 9, 0, 2 * Math.PI);
      context.stroke();
    }
  }

  const update = newest(async (bytes) => {
    const asked = { model: model.name, images: [toBase64(bytes)] };
    try {
      const [predicted, assessed] = await Promise.all([ask("/predict", asked), ask("/assess", asked)]);
      showAnswer(model, predicted.answers, assessed.answers);
      if (strokes.length) past.push(assessed.answers.strangeness[0]);
      if (past.length) trail(history, past, model.strangeness.limit, "Strangeness as the drawing grew, and the limit");
    } catch (error) {
      clearAnswer(model, error.message);
    }
  });

  function changed() {
    repaint();
    const bytes = image();
    showPixels(seen, bytes, model.height, model.width);
    morph.enable(strokes.length > 0);
    return update(bytes);
  }

  function clearAll() {
    strokes = [];
    past = [];
    pen.down = false;
    history.replaceChildren(element("p", { class: "note" }, "Nothing is drawn yet."));
    return changed();
  }

  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pen.shown = false;
    strokes.push([place(event)]);
    changed();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!canvas.hasPointerCapture(event.pointerId)) return;
    strokes[strokes.length - 1].push(place(event));
    changed();
  });
  canvas.addEventListener("focus", () => { pen.shown = canvas.matches(":focus-visible"); repaint(); });
  canvas.addEventListener("blur", () => { pen.shown = false; pen.down = false; repaint(); });
  canvas.addEventListener("keydown", (event) => {
    const handle = keys(event.key);
    if (!handle) return;
    event.preventDefault();
    handle();
  });

  function keys(key) {
    if (key in MOVES) return () => {
      pen.shown = true;
      pen.place = pen.place.map((at, i) => Math.max(0.03, Math.min(0.97, at + MOVES[key][i])));
      if (!pen.down) return repaint();
      strokes[strokes.length - 1].push([...pen.place]);
      return changed();
    };
    return { " ": penDown, Backspace: takeBack, Delete: takeBack, Escape: clearAll }[key];
  }

  function penDown() {
    pen.shown = true;
    pen.down = !pen.down;
    if (pen.down) strokes.push([[...pen.place]]);
    return pen.down ? changed() : repaint();
  }

  function takeBack() {
    strokes.pop();
    pen.down = false;
    return strokes.length ? changed() : clearAll();
  }

  undo.addEventListener("click", takeBack);
  clear.addEventListener("click", clearAll);
  await clearAll();
}
