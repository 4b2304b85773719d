// The card with the answer: answered or refused, the prediction with its uncertainty, the histogram.

import { bars, element, histogram, number, percent } from "/page/draw.js";

const BARS = 10;

export function clearAnswer(model, text) {
  document.getElementById("verdict").replaceChildren(element("p", { class: "note" }, text));
  document.getElementById("prediction").replaceChildren();
  document.getElementById("rank").textContent = "";
  document.getElementById("why").hidden = true;
  histogram(document.getElementById("histogram"), model.strangeness, null);
}

export function showAnswer(model, predicted, assessed) {
  const rejected = assessed.rejected[0];
  const strange = model.target.type === "nothing" ? "Strange" : "Refused";
  const familiar = model.target.type === "nothing" ? "Familiar" : "Answered";
  const verdict = element(
    "div",
    { class: `verdict ${rejected ? "refused" : "answered"}` },
    rejected ? `✕ ${strange}` : `✓ ${familiar}`,
    element("p", {}, rejected
      ? "This is unlike what the model was trained on. Do not rely on the prediction."
      : "This is like what the model was trained on."),
  );
  document.getElementById("verdict").replaceChildren(verdict);
  showPrediction(model, predicted, rejected);
  histogram(document.getElementById("histogram"), model.strangeness, assessed.strangeness[0]);
  const p = assessed.p_value[0];
  document.getElementById("rank").textContent =
    `Of familiar rows at most ${percent(p)} are as strange or stranger, as those held out in training tell. log p(x) = ${number(assessed.log_px[0])}.`;
}

function showPrediction(model, predicted, rejected) {
  const place = document.getElementById("prediction");
  const prefix = rejected ? "Would have said: " : "";
  if (model.target.type === "classes") {
    const shares = predicted.probabilities[0];
    const named = model.target.classes.map((name, i) => [String(name), shares[i], percent(shares[i])]);
    const ranked = named.length > BARS ? [...named].sort((a, b) => b[1] - a[1]).slice(0, BARS) : named;
    const chart = element("div");
    bars(chart, ranked);
    place.replaceChildren(element("p", { class: "big" }, `${prefix}${predicted.prediction[0]}`), chart);
  } else if (model.target.type === "numbers" && model.target.count === 1) {
    place.replaceChildren(
      element("p", { class: "big" }, `${prefix}${number(predicted.prediction[0])}`),
      element("p", {}, `Between ${number(predicted.low[0])} and ${number(predicted.high[0])} with probability 90 %; standard deviation ${number(predicted.sd[0])}.`),
    );
  } else if (model.target.type === "numbers") {
    const lines = predicted.low[0].map((low, t) =>
      element("li", {}, `${number(predicted[`prediction_${t}`][0])}, between ${number(low)} and ${number(predicted.high[0][t])}`));
    place.replaceChildren(element("ol", {}, ...lines));
  } else {
    place.replaceChildren();
  }
}

export function showReasons(entries) {
  const why = document.getElementById("why");
  why.hidden = entries.length === 0;
  if (entries.length) bars(document.getElementById("reasons"), entries, "bad");
}
