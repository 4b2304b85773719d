// Small pieces of a page: elements, bars, the histogram of strangeness.

const SVG = "http://www.w3.org/2000/svg";

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") made.className = value;
    else if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function shape(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

export function number(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value).replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d).*/, "$1 $2");
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return String(value);
  const size = Math.abs(value);
  return size >= 1e6 || size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

export function percent(share) {
  if (share >= 1 || share <= 0) return share >= 1 ? "100 %" : "0 %";
  if (share > 0.999 || share < 0.001) return share < 0.5 ? "< 0.1 %" : "> 99.9 %";
  return `${(100 * share).toFixed(share > 0.99 || share < 0.01 ? 1 : 0)} %`;
}

// Bars of [name, share, text]; the longest is marked.
export function bars(container, entries, kind = "best") {
  const longest = Math.max(...entries.map(([, share]) => share));
  const grid = element("div", { class: "bars" });
  for (const [name, share, text] of entries) {
    const fill = element("div", { class: share === longest ? `fill ${kind}` : "fill" });
    fill.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
    grid.append(
      element("span", { class: "name", title: name }, name),
      element("div", { class: "track", ariaHidden: "true" }, fill),
      element("span", {}, text),
    );
  }
  container.replaceChildren(grid);
}

const WIDTH = 480;
const HEIGHT = 150;
const FLOOR = 118;

// Held-out rows by strangeness, the limit, and where this row lies; rows far out stand at the edge.
export function histogram(figure, strangeness, value) {
  const { counts, edges, limit } = strangeness;
  if (!counts) {
    figure.replaceChildren(element("p", { class: "note" }, "No rows were held out to compare with."));
    return;
  }
  const ends = [edges[0], edges[edges.length - 1], ...(limit === null ? [] : [limit])];
  const low = Math.min(...ends);
  const span = (Math.max(...ends) - low) * 1.15 || 1;
  const x = (s) => 12 + (WIDTH - 24) * Math.max(0, Math.min(1, (s - low) / span));
  const most = Math.max(...counts);
  const svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
  svg.append(shape("title", {}, "Strangeness of held-out rows, the limit, and this row"));
  counts.forEach((count, i) => {
    const height = (FLOOR - 24) * (count / most);
    svg.append(shape("rect", { class: "column", x: x(edges[i]), y: FLOOR - height, width: Math.max(1, x(edges[i + 1]) - x(edges[i]) - 1), height }));
  });
  svg.append(shape("line", { class: "axis", x1: 8, x2: WIDTH - 8, y1: FLOOR, y2: FLOOR }));
  if (limit !== null) {
    svg.append(shape("line", { class: "limit", x1: x(limit), x2: x(limit), y1: 8, y2: FLOOR }));
    svg.append(shape("text", { x: x(limit) - 6, y: 16, "text-anchor": "end" }, "limit"));
  }
  if (value !== null && value !== undefined) {
    const place = x(value);
    const beyond = value > low + span ? " →" : "";
    svg.append(shape("line", { class: "here", x1: place, x2: place, y1: 30, y2: FLOOR }));
    svg.append(shape("circle", { class: "here-dot", cx: place, cy: 30, r: 5 }));
    const side = place > WIDTH / 2 ? "end" : "start";
    svg.append(shape("text", { x: place, y: HEIGHT - 4, "text-anchor": side }, `here: ${number(value)}${beyond}`));
  }
  figure.replaceChildren(svg);
}

// A line through values as they came, so that one sees them change.
export function trail(figure, values, limit, name) {
  const shown = values.slice(-60);
  const ends = limit === null ? shown : [...shown, limit];
  const low = Math.min(...ends);
  const span = Math.max(...ends) - low || 1;
  const y = (v) => 70 - 60 * ((v - low) / span);
  const x = (i) => 10 + (WIDTH - 20) * (shown.length < 2 ? 1 : i / (shown.length - 1));
  const svg = shape("svg", { viewBox: `0 0 ${WIDTH} 80`, role: "img" });
  svg.append(shape("title", {}, name));
  if (limit !== null) svg.append(shape("line", { class: "limit", x1: 0, x2: WIDTH, y1: y(limit), y2: y(limit) }));
  svg.append(shape("polyline", { class: "trail", points: shown.map((v, i) => `${x(i)},${y(v)}`).join(" ") }));
  svg.append(shape("circle", { class: "trail-dot", cx: x(shown.length - 1), cy: y(shown[shown.length - 1]), r: 4 }));
  figure.replaceChildren(svg);
}
