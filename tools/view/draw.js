"use strict";
/* Drawing, by the column of pixels: a column shows the moment of its highest memory, so that its bands add up to its curve, and no
 * peak is lost however much is seen at once. The cost grows with the width of the picture and with what is alive, hardly with the
 * number of ops. */

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

let palette;

function readPalette() {
  palette = { names: [] };
  for (const name of ["back", "text", "soft", "line", "stall", "found", "edge", "shade", "focus"]) palette[name] = css("--" + name);
  for (let i = 0; i < 7; i++) palette.names.push(css("--c" + i));
  const [edge, back] = [mix(palette.names, .25), palette.back];
  palette.pixels = palette.names.map(pixel);
  palette.edges = edge.map(pixel);
  palette.onName = palette.names.map(colour => luminance(colour) > .18 ? "#000000" : "#ffffff");
  palette.dark = luminance(back) < .5;
}

const channels = colour => [1, 3, 5].map(i => parseInt(colour.slice(i, i + 2), 16));
const luminance = colour => channels(colour).reduce((sum, c, i) => sum + (c / 255) ** 2.2 * [.2126, .7152, .0722][i], 0);
const mix = (colours, black) => colours.map(colour =>
  "#" + channels(colour).map(c => Math.round(c * (1 - black)).toString(16).padStart(2, "0")).join(""));

/* As ImageData holds it, on a little-endian machine. */
function pixel(colour) {
  const [r, g, b] = channels(colour);
  return (255 << 24 | b << 16 | g << 8 | r) >>> 0;
}

/* Steps of 1, 2 or 5 times a power of ten, or of powers of two, about `count` of them up to `limit`. */
function tick(limit, count, binary) {
  if (!(limit > 0)) return 1;
  if (binary) return 2 ** Math.max(0, Math.ceil(Math.log2(limit / count)));
  const ten = 10 ** Math.floor(Math.log10(limit / count));
  return [1, 2, 5, 10].find(k => k * ten * count >= limit) * ten;
}

/* ---- columns ---- */

/* For each column from `from` on, `scale` wide: the op of its highest memory (-1 where there is none), and the most of both runs. */
function sample(tape, run, other, axis, from, scale, width) {
  const { begin } = axis, n = tape.ops, at = new Int32Array(width).fill(-1);
  const most = new Float64Array(width), others = new Float64Array(width);
  for (let c = 0, op = lastUpTo(begin, from); c < width; c++) {
    const left = from + c * scale, right = left + scale;
    if (right <= 0) continue;
    if (left > axis.end) break;
    let high = op, otherHigh = other.device[op];
    while (op < n && begin[op + 1] < right) {
      op++;
      if (run.device[op] > run.device[high]) high = op;
      if (other.device[op] > otherHigh) otherHigh = other.device[op];
    }
    at[c] = high;
    most[c] = run.device[high];
    others[c] = otherHigh;
  }
  return { at, most, others };
}

/* Paints the stays of each column, the oldest at the bottom, into `image`. `scale` is pixels a byte. What is alive is kept side by
 * side, with its end and size, since it is walked for every column. */
function paintBands(image, at, stays, pixels, edges, sizes, scale) {
  const { width, height } = image, to = new Uint32Array(image.data.buffer), { first, end } = stays, n = first.length;
  const live = new Uint32Array(n), ends = new Uint32Array(n), heights = new Float64Array(n);
  let alive = 0, next = 0;
  for (let c = 0; c < width; c++) {
    const op = at[c];
    if (op < 0) continue;
    if (c && at[c - 1] === op) {
      for (let p = c; p < to.length; p += width) to[p] = to[p - 1];
      continue;
    }
    for (; next < n && first[next] <= op; next++) {
      if (end[next] <= op || !sizes[next]) continue;
      live[alive] = next;
      ends[alive] = end[next];
      heights[alive++] = sizes[next] * scale;
    }
    let kept = 0, sum = .5, low = 0, p = (height - 1) * width + c;
    for (let i = 0; i < alive; i++) {
      if (ends[i] <= op) continue;
      const stay = live[i];
      if (kept < i) {
        live[kept] = stay;
        ends[kept] = ends[i];
        heights[kept] = heights[i];
      }
      sum += heights[kept++];
      if (sum < low + 1) continue;
      const top = Math.min(height, sum | 0), colour = pixels[stay], edge = top - low > 2 ? edges[stay] : colour;
      for (; low < top - 1; low++, p -= width) to[p] = colour;
      if (low < top) to[p] = edge;
      if (low < top) p -= width;
      low = top;
    }
    alive = kept;
  }
}

/* The stay at `bytes` from the bottom while op number `op` runs; -1 above them all. */
function stayAt(stays, sizes, op, bytes) {
  let sum = 0;
  for (let i = 0; i < stays.first.length && stays.first[i] <= op; i++) {
    if (stays.end[i] <= op) continue;
    sum += sizes[i];
    if (bytes < sum) return i;
  }
  return -1;
}

/* ---- shapes ---- */

/* A curve of one value a column, as steps. */
function traceCurve(pen, values, at, xOf, yOf) {
  pen.beginPath();
  let drawing = false;
  for (let c = 0; c < values.length; c++) {
    if (at[c] < 0) continue;
    const y = yOf(values[c]);
    if (drawing) pen.lineTo(xOf(c), y);
    else pen.moveTo(xOf(c), y);
    pen.lineTo(xOf(c + 1), y);
    drawing = true;
  }
}

/* Boxes from left to right, where several fall into one pixel the longest. */
function drawBoxes(pen, n, first, left, right, colourOf, y, height, limit, label) {
  let pendingAt = -1e9, pendingWidth = 0, pendingItem = -1;
  const flush = () => {
    if (pendingItem < 0) return;
    pen.fillStyle = colourOf(pendingItem);
    pen.fillRect(pendingAt, y, 1, height);
    pendingItem = -1;
  };
  for (let i = first; i < n; i++) {
    const a = left(i), b = right(i);
    if (a > limit) break;
    if (b < 0) continue;
    if (b - a >= 1.5) {
      flush();
      const from = Math.max(a, 0), to = Math.min(b, limit), gap = b - a > 4 ? 1 : 0;
      pen.fillStyle = colourOf(i);
      pen.fillRect(from, y, to - from - gap, height);
      if (label && to - from > 34) label(i, from, to);
      continue;
    }
    const at = Math.floor(a);
    if (at !== pendingAt) {
      flush();
      [pendingAt, pendingWidth, pendingItem] = [at, b - a, i];
    } else if (pendingItem < 0 || b - a > pendingWidth) {
      [pendingWidth, pendingItem] = [b - a, i];
    }
  }
  flush();
}

/* A name as it fits: whole, without PyTorch's "aten." and ".default", or cut; none of it where too little would be left. */
function fitName(pen, name, width) {
  if (pen.measureText(name).width <= width) return name;
  const text = name.replace(/^aten\.(.+?)(\.default)?$/, "$1");
  if (pen.measureText(text).width <= width) return text;
  let low = 0, high = Math.min(text.length, 200);
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(text.slice(0, middle) + "…").width <= width) low = middle;
    else high = middle - 1;
  }
  return low > 3 ? text.slice(0, low) + "…" : "";
}
