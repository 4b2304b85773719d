// Strokes of a pen, and the picture of them that a model of handwriting was trained on.

const BOX = 20; // of 28 pixels: digits were scaled to fit a box of this size
const WIDTH = 2.3; // of the pen, in those pixels

export function bounds(strokes) {
  const points = strokes.flat();
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => y);
  return { left: Math.min(...xs), right: Math.max(...xs), top: Math.min(...ys), bottom: Math.max(...ys) };
}

export function paint(context, strokes, scale, width, shift = [0, 0]) {
  context.strokeStyle = "#fff";
  context.lineWidth = width;
  context.lineCap = "round";
  context.lineJoin = "round";
  for (const stroke of strokes) {
    context.beginPath();
    stroke.forEach(([x, y], i) => {
      const place = [x * scale + shift[0], y * scale + shift[1]];
      if (i) context.lineTo(...place);
      else context.moveTo(...place);
    });
    if (stroke.length === 1) context.lineTo(stroke[0][0] * scale + shift[0] + 0.01, stroke[0][1] * scale + shift[1]);
    context.stroke();
  }
}

// Bytes of an image: strokes in [0, 1]^2 scaled into a box, and moved so that their mass is in the middle.
export function pixels(strokes, height, width) {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (!strokes.length) return new Uint8Array(height * width);
  const { left, right, top, bottom } = bounds(strokes);
  const unit = Math.min(height, width) / 28;
  const size = Math.max(right - left, bottom - top, 0.12); // a dot stays a dot
  const scale = ((BOX - WIDTH) * unit) / size;
  const middle = [width / 2 - ((left + right) / 2) * scale, height / 2 - ((top + bottom) / 2) * scale];
  const render = (shift) => {
    context.fillStyle = "#000";
    context.fillRect(0, 0, width, height);
    paint(context, strokes, scale, WIDTH * unit, shift);
    const { data } = context.getImageData(0, 0, width, height);
    return Uint8Array.from({ length: height * width }, (_, i) => data[4 * i]);
  };
  const first = render(middle);
  let mass = 0;
  let x = 0;
  let y = 0;
  first.forEach((value, i) => {
    mass += value;
    x += value * (i % width);
    y += value * Math.floor(i / width);
  });
  if (!mass) return first;
  const moved = [Math.round(width / 2 - 0.5 - x / mass), Math.round(height / 2 - 0.5 - y / mass)];
  return render([middle[0] + moved[0], middle[1] + moved[1]]);
}

export function toBase64(bytes) {
  return btoa(String.fromCharCode(...bytes));
}

// Shows grey values, bytes or nested lists, in a small canvas.
export function showPixels(canvas, values, height, width) {
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  values.forEach((value, i) => image.data.set([value, value, value, 255], 4 * i));
  context.putImageData(image, 0, 0);
}
