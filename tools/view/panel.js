"use strict";
/* One tape's chart: memory as bands, and below it, on the same axis, compute, the copies each way, and the life of one storage. */

const view = { from: 0, to: 1, byOp: false, withPlan: true, tight: false, lanes: 0 }; /* what all panels show */
const PAD = { top: 18, right: 10, axis: 24, lane: 18, compute: 26, gap: 5 };
const FONT = "12px system-ui, sans-serif";
const LANES = ["D2H", "H2D"];

class Panel {
  constructor(tape, element) {
    Object.assign(this, { tape, element, selected: null, hovered: null, found: [] });
    this.base = element.querySelector(".base");
    this.over = element.querySelector(".over");
    this.base.setAttribute("aria-label", `Memory of ${visible(tape.title)} over the step; ` +
                                         "arrow keys move, + and - zoom, comma and full stop select ops");
  }

  get run() { return this.tape.runs[view.withPlan ? this.tape.runs.length - 1 : 0]; }
  get other() { return this.tape.runs[view.withPlan ? 0 : this.tape.runs.length - 1]; }
  get byOp() { return view.byOp || !this.tape.compute; }
  get axis() { return this.byOp ? this.run.byOp : this.run.byTime; }

  /* Where the parts are, in CSS pixels. */
  layout() {
    const width = this.base.clientWidth, height = this.base.clientHeight, left = width < 560 ? 62 : 84;
    const { lanes } = view, below = PAD.axis + PAD.compute + 8 + (lanes + 1) * (PAD.lane + PAD.gap);
    const box = { width, left, right: width - PAD.right, top: PAD.top, bottom: height - below - PAD.gap, lanes: [] };
    box.compute = box.bottom + PAD.axis + 8;
    for (let i = 0; i < lanes; i++) box.lanes.push(box.compute + PAD.compute + PAD.gap + i * (PAD.lane + PAD.gap));
    box.life = box.compute + PAD.compute + PAD.gap + lanes * (PAD.lane + PAD.gap);
    box.columns = Math.max(1, Math.floor(box.right - box.left));
    box.scale = (view.to - view.from) / box.columns;
    box.x = at => box.left + (at - view.from) / box.scale;
    box.at = x => view.from + (x - box.left) * box.scale;
    box.y = bytes => box.bottom - bytes * (box.bottom - box.top) / this.most;
    return box;
  }

  pen(canvas) {
    const ratio = window.devicePixelRatio || 1;
    const width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    pen.font = FONT;
    pen.textBaseline = "middle";
    return pen;
  }

  /* What there is to draw; the highest memory of it is this.seen. */
  measure() {
    const box = this.box = this.layout();
    this.columns = sample(this.tape, this.run, this.other, this.axis, view.from, box.scale, box.columns);
    this.seen = [this.columns.most, this.columns.others].reduce((high, list) => list.reduce((a, b) => Math.max(a, b), high), 0);
  }

  draw() {
    const { box } = this, pen = this.pen(this.base);
    if (box.bottom - box.top < 10) return;
    this.drawGrid(pen, box);
    this.drawBands(pen, box);
    this.drawCurves(pen, box);
    this.drawMarks(pen, box);
    this.drawCompute(pen, box);
    box.lanes.forEach((y, i) => this.drawCopies(pen, box, y, i));
    this.drawOver();
  }

  drawGrid(pen, box) {
    pen.strokeStyle = palette.line;
    pen.fillStyle = palette.soft;
    pen.textAlign = "right";
    const step = tick(this.most, (box.bottom - box.top) / 55, true);
    for (let bytes = 0; bytes <= this.most; bytes += step) {
      const y = Math.round(box.y(bytes)) + .5;
      pen.beginPath();
      pen.moveTo(box.left, y);
      pen.lineTo(box.right, y);
      pen.stroke();
      pen.fillText(sizeText(bytes), box.left - 7, y);
    }
    pen.textAlign = "center";
    const span = view.to - view.from, across = this.byOp ? Math.max(1, tick(span, box.columns / 90)) : tick(span, box.columns / 90);
    for (let at = Math.ceil(view.from / across) * across; at <= view.to; at += across) {
      const x = box.x(at);
      pen.fillRect(x, box.bottom, 1, 4);
      if (x > box.left + 12 || at === 0)
        pen.fillText(this.byOp ? at.toLocaleString("en") : at ? timeText(at) : "0", Math.min(x, box.right - 20), box.bottom + 14);
    }
    pen.textAlign = "right";
    pen.fillText(this.byOp ? "op" : "time", box.left - 7, box.bottom + 14);
    const lanes = [["compute", box.compute + PAD.compute / 2], ...box.lanes.map((y, i) => [LANES[i], y + PAD.lane / 2]),
                   ["storage", box.life + PAD.lane / 2]];
    for (const [name, y] of lanes) {
      pen.fillText(name, box.left - 7, y);
      pen.globalAlpha = .5;
      pen.fillRect(box.left, y, box.columns, .5);
      pen.globalAlpha = 1;
    }
  }

  drawBands(pen, box) {
    const width = box.columns, height = Math.round(box.bottom - box.top), { stays } = this.run;
    const image = new ImageData(width, height);
    this.tint();
    paintBands(image, this.columns.at, stays, this.pixels, this.edges, this.run.sizes, height / this.most);
    this.canvas ||= document.createElement("canvas");
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    this.canvas.getContext("2d").putImageData(image, 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(this.canvas, box.left, box.bottom - height);
  }

  /* The colour of each stay, for as long as neither the run nor the palette changes. */
  tint() {
    if (this.tinted === palette && this.tintedRun === this.run) return;
    const colour = Array.from(this.run.stays.storage, storage => this.colourOf(storage));
    this.pixels = Uint32Array.from(colour, c => palette.pixels[c]);
    this.edges = Uint32Array.from(colour, c => palette.edges[c]);
    [this.tinted, this.tintedRun] = [palette, this.run];
  }

  colourOf(storage) {
    const maker = this.tape.maker(storage);
    return maker < 0 ? 6 : this.tape.colours[this.tape.name[maker]];
  }

  drawCurves(pen, box) {
    const { at, most, others } = this.columns, x = c => box.left + c;
    pen.lineJoin = "round";
    if (this.run !== this.other) {
      traceCurve(pen, others, at, x, box.y);
      pen.strokeStyle = palette.soft;
      pen.lineWidth = 1.25;
      pen.stroke();
    }
    traceCurve(pen, most, at, x, box.y);
    pen.strokeStyle = palette.text;
    pen.lineWidth = 1.5;
    pen.stroke();
    pen.lineWidth = 1;
    const { budget } = this.tape;
    if (budget === undefined) return;
    const y = Math.max(box.y(budget), box.top - 6);
    pen.setLineDash([7, 5]);
    pen.strokeStyle = palette.stall;
    pen.lineWidth = 1.75;
    pen.beginPath();
    pen.moveTo(box.left, y);
    pen.lineTo(box.right, y);
    pen.stroke();
    pen.setLineDash([]);
    pen.lineWidth = 1;
    const text = (budget > this.most ? "↑ " : "") + "budget " + sizeText(budget);
    this.tag(pen, text, box.right - 4, Math.max(y - 10, 8), palette.stall, "right");
  }

  /* Text on a ground of its own, so that it can be read on bands. */
  tag(pen, text, x, y, colour, align = "left") {
    const width = pen.measureText(text).width, left = align === "right" ? x - width : x;
    pen.textAlign = "left";
    pen.globalAlpha = .85;
    pen.fillStyle = palette.back;
    pen.fillRect(left - 3, y - 8, width + 6, 16);
    pen.globalAlpha = 1;
    pen.fillStyle = colour;
    pen.fillText(text, left, y);
  }

  drawMarks(pen, box) {
    let free = box.left;
    const { begin } = this.axis, seen = this.tape.marks.filter(([, op]) => begin[op] >= view.from && begin[op] <= view.to);
    const dense = seen.length > box.columns / 100;
    for (const [name, op] of seen) {
      const x = box.x(begin[op]);
      pen.fillStyle = palette.soft;
      pen.globalAlpha = dense ? .25 : .6;
      pen.fillRect(Math.round(x), box.top, 1, box.bottom - box.top);
      pen.globalAlpha = 1;
      const text = visible(name), width = pen.measureText(text).width + 8;
      if (x < free || x + width > box.right - 130) continue;
      this.tag(pen, text, x + 5, 9, palette.soft);
      free = x + width + 6;
    }
  }

  clip(pen, box, y, height, draw) {
    pen.save();
    pen.beginPath();
    pen.rect(box.left, y, box.columns, height);
    pen.clip();
    pen.translate(box.left, 0);
    draw();
    pen.restore();
  }

  drawCompute(pen, box) {
    const { begin, finish } = this.axis, { stall } = this.run, { tape } = this, n = tape.ops, y = box.compute;
    const x = at => (at - view.from) / box.scale, first = lastUpTo(begin, view.from);
    const colour = op => tape.colours[tape.name[op]];
    this.clip(pen, box, y - 7, PAD.compute + 14, () => {
      pen.textAlign = "left";
      drawBoxes(pen, n, first, op => x(begin[op]), op => x(finish[op]), op => palette.names[colour(op)], y, PAD.compute, box.columns,
        (op, from, to) => {
          pen.fillStyle = palette.onName[colour(op)];
          pen.fillText(fitName(pen, tape.opName(op), to - from - 8), from + 4, y + PAD.compute / 2);
        });
      let last = -1;
      pen.fillStyle = palette.stall;
      for (let op = first; op <= n; op++) {
        const to = x(begin[op]), from = this.byOp ? to : x(begin[op] - stall[op]);
        if (from > box.columns) break;
        if (!stall[op] || (to - from < 1 && Math.floor(from) === last)) continue;
        last = Math.floor(from);
        pen.fillRect(Math.min(from, box.columns - 1), y - 5, Math.max(1, to - from), PAD.compute + 10);
      }
      this.drawFound(pen, x, y, box);
    });
  }

  drawFound(pen, x, y, box) {
    const { begin, finish } = this.axis;
    let last = -1;
    pen.fillStyle = palette.found;
    for (const op of this.found) {
      const from = x(begin[op]), width = x(finish[op]) - from;
      if (from > box.columns) break;
      if (from + width < 0 || (width < 1 && Math.floor(from) === last)) continue;
      last = Math.floor(from);
      pen.fillRect(from, y - 6, Math.max(1.5, width - 1), 5);
    }
  }

  drawCopies(pen, box, y, number) {
    const lane = this.run.lanes[number];
    if (!lane) return;
    const { at } = this.axis, x = ns => (at(ns) - view.from) / box.scale;
    let first = 0, high = lane.end.length;
    while (first < high) {
      const middle = (first + high) >> 1;
      if (at(lane.end[middle]) < view.from) first = middle + 1;
      else high = middle;
    }
    this.clip(pen, box, y, PAD.lane, () =>
      drawBoxes(pen, lane.end.length, first, i => x(lane.start[i]), i => x(lane.end[i]),
        i => palette.names[this.colourOf(lane.storage[i])], y, PAD.lane, box.columns));
  }

  /* ---- what is pointed at, and what is selected ---- */

  drawOver() {
    const pen = this.pen(this.over), { box } = this;
    if (!box) return;
    if (this.selected) this.outline(pen, box, this.selected, palette.text);
    if (this.hovered) this.outline(pen, box, this.hovered, palette.soft);
    const item = this.hovered && this.hovered.storage >= 0 ? this.hovered : this.selected;
    if (item && item.storage >= 0) this.drawLife(pen, box, item.storage);
  }

  outline(pen, box, item, colour) {
    pen.strokeStyle = pen.fillStyle = colour;
    if (item.op >= 0 && item.kind === "op") {
      const from = box.x(this.axis.begin[item.op]), to = Math.max(from + 1, box.x(this.axis.finish[item.op]));
      if (to < box.left || from > box.right) return;
      pen.fillRect(Math.max(box.left, from), box.top, 1, box.bottom - box.top);
      pen.lineWidth = 2;
      pen.strokeRect(Math.max(box.left, from), box.compute - 1, Math.min(to, box.right) - Math.max(box.left, from), PAD.compute + 2);
    }
    if (item.storage >= 0) this.outlineBand(pen, box, item.storage, colour);
  }

  /* The storage's band: from its bottom to its top in each column. */
  outlineBand(pen, box, storage, colour) {
    const { stays, staysOf } = this.run, { at } = this.columns, mine = staysOf.of(storage);
    const scale = (box.bottom - box.top) / this.most, low = new Float64Array(box.columns).fill(-1);
    if (!mine.length || !this.tape.bytes[storage]) return;
    /* What lies under it: only stays that began before it. */
    for (const stay of mine) {
      const changes = new Map();
      for (let i = 0; i < stay; i++) {
        if (stays.end[i] <= stays.first[stay]) continue;
        changes.set(stays.end[i], (changes.get(stays.end[i]) || 0) + this.tape.bytes[stays.storage[i]]);
      }
      const ends = Float64Array.from(changes.keys()).sort();
      let under = 0, next = 0;
      for (const bytes of changes.values()) under += bytes;
      for (let c = 0; c < box.columns; c++) {
        if (at[c] < stays.first[stay]) continue;
        if (at[c] >= stays.end[stay]) break;
        while (next < ends.length && ends[next] <= at[c]) under -= changes.get(ends[next++]);
        low[c] = under;
      }
    }
    const height = Math.max(2, this.tape.bytes[storage] * scale);
    pen.fillStyle = colour;
    for (let c = 0; c < box.columns; c++) {
      if (low[c] < 0) continue;
      const y = box.bottom - low[c] * scale, edge = !c || low[c - 1] < 0 || c + 1 === box.columns || low[c + 1] < 0;
      pen.fillRect(box.left + c, y - height, 1, edge ? height : 1.5);
      if (!edge) pen.fillRect(box.left + c, y - 1.5, 1, 1.5);
      pen.globalAlpha = .22;
      pen.fillRect(box.left + c, y - height, 1, height);
      pen.globalAlpha = 1;
    }
  }

  drawLife(pen, box, storage) {
    const { stays, staysOf } = this.run, { begin, end } = this.axis, n = this.tape.ops, y = box.life;
    const x = at => Math.max(0, Math.min(box.columns, (at - view.from) / box.scale));
    const mine = staysOf.of(storage), uses = this.tape.uses.of(storage), kinds = this.tape.kinds.of(storage);
    const stop = stay => stays.end[stay] > n ? end : begin[stays.end[stay]];
    this.clip(pen, box, y - 3, PAD.lane + 6, () => {
      pen.fillStyle = palette.back;
      pen.fillRect(0, y - 3, box.columns, PAD.lane + 6);
      pen.strokeStyle = palette.text;
      pen.setLineDash([3, 4]);
      pen.beginPath();
      for (let i = 1; i < mine.length; i++) {
        pen.moveTo(x(stop(mine[i - 1])), y + PAD.lane / 2);
        pen.lineTo(x(begin[stays.first[mine[i]]]), y + PAD.lane / 2);
      }
      pen.stroke();
      pen.setLineDash([]);
      pen.fillStyle = palette.names[this.colourOf(storage)];
      for (const stay of mine) {
        const from = x(begin[stays.first[stay]]);
        pen.fillRect(from, y + 4, Math.max(1.5, x(stop(stay)) - from), PAD.lane - 8);
      }
      pen.fillStyle = palette.text;
      uses.forEach((op, i) => pen.fillRect(x(begin[op]) - .5, kinds[i] ? y - 2 : y + 1, 1.5, kinds[i] ? PAD.lane + 4 : PAD.lane - 2));
    });
  }

  /* What lies at a point of the canvas: {kind, op, storage, ...} or null. */
  pick(px, py) {
    const { box, tape, run } = this, column = Math.floor(px - box.left), at = box.at(px);
    if (column < 0 || column >= box.columns || at > this.axis.end) return null;
    if (py >= box.top && py <= box.bottom) return this.pickBand(column, py);
    if (py >= box.compute - 6 && py <= box.compute + PAD.compute + 3) {
      let op = lastUpTo(this.axis.begin, at);
      const { begin, finish } = this.axis, { stall } = run;
      if (!this.byOp && op < tape.ops && at > finish[op] && stall[op + 1]) op++; /* the stall before it */
      const near = this.found.find(o => Math.abs(box.x(begin[o]) - px) < 2);
      return { kind: "op", op: py < box.compute && near !== undefined ? near : op, storage: -1 };
    }
    for (let i = 0; i < box.lanes.length; i++)
      if (py >= box.lanes[i] && py <= box.lanes[i] + PAD.lane) return this.pickCopy(i, px);
    return null;
  }

  pickBand(column, py) {
    const { box, run } = this, op = this.columns.at[column];
    if (op < 0) return null;
    const stay = stayAt(run.stays, run.sizes, op, (box.bottom - py) * this.most / (box.bottom - box.top));
    return stay < 0 ? { kind: "op", op, storage: -1 } : { kind: "storage", op, storage: run.stays.storage[stay] };
  }

  pickCopy(number, px) {
    const lane = this.run.lanes[number];
    let found = null, close = 3;
    for (let i = 0; lane && i < lane.end.length; i++) {
      const from = this.box.x(this.axis.at(lane.start[i])), to = this.box.x(this.axis.at(lane.end[i]));
      const away = Math.max(from - px, px - to, 0);
      if (away < close) [close, found] = [away, { kind: "copy", op: lane.op[i], storage: lane.storage[i], lane: number, copy: i }];
      if (from > px + 3) break;
    }
    return found;
  }
}
