"use strict";
/* The page: its state, what keys and the pointer do. */

const data = JSON.parse(byId("data").textContent);
const tapes = data.tapes.map(readTape), planned = tapes.some(tape => tape.runs.length > 1);
const curves = []; /* the labels of the shown curve and the other */
let active = 0, queued = false, matches = [], match = -1;

/* ---- colours ---- */

/* The six names whose ops made the most bytes have a colour each, the same in every panel. */
function shareColours() {
  const made = new Map();
  for (const tape of tapes) {
    for (let storage = 0; storage < tape.bytes.length; storage++) {
      const name = tape.storageName(storage);
      if (tape.maker(storage) >= 0) made.set(name, (made.get(name) || 0) + tape.bytes[storage]);
    }
  }
  const names = [...made].sort((a, b) => b[1] - a[1]).slice(0, 6).map(entry => entry[0]);
  for (const tape of tapes) tape.colours = Uint8Array.from(tape.names, name => names.includes(name) ? names.indexOf(name) : 6);
  return names;
}

function fillLegend(names) {
  const add = (text, css, value, className = "") => {
    const item = make("li"), mark = make("i", undefined, className), label = make("span", text);
    mark.style[css] = value;
    label.title = text;
    item.append(mark, label);
    byId("legend").append(item);
    return label;
  };
  names.forEach((name, i) => add(name, "background", `var(--c${i})`));
  add("other ops", "background", "var(--c6)");
  curves.push(add("", "borderColor", "var(--text)", "curve"));
  if (planned) curves.push(add("", "borderColor", "var(--soft)", "curve"));
  if (tapes.some(tape => tape.budget !== undefined)) add("budget", "borderColor", "var(--stall)", "curve dashed");
  if (planned) add("stall", "background", "var(--stall)");
}

/* ---- what is shown ---- */

const panels = tapes.map(tape => {
  const element = byId("panel").content.firstElementChild.cloneNode(true);
  byId("panels").append(element);
  return new Panel(tape, element);
});

function redraw() {
  if (queued) return;
  queued = true;
  requestAnimationFrame(() => {
    queued = false;
    drawAll();
  });
}

/* One scale of bytes for all, so that panels compare: of the whole, budget included unless it is far above everything, or of what is
 * in the picture. */
function drawAll() {
  for (const panel of panels) panel.measure();
  const peak = Math.max(1, ...tapes.flatMap(tape => tape.runs.map(run => run.peak)));
  const budgets = tapes.map(tape => tape.budget || 0).filter(bytes => bytes < 1.6 * peak);
  const most = view.tight ? Math.max(1, ...panels.map(panel => panel.seen)) : Math.max(peak, ...budgets);
  for (const panel of panels) {
    panel.most = most * 1.04;
    panel.draw();
  }
}

/* The whole is as long as the longest step. */
const whole = () => Math.max(1, ...panels.map(panel => panel.axis.end)) * 1.002;
const narrowest = () => panels.some(panel => panel.byOp) ? 2 : 20;

function show(from, to) {
  const most = whole(), span = Math.min(most, Math.max(to - from, narrowest()));
  view.from = Math.max(0, Math.min(from, most - span));
  view.to = view.from + span;
  redraw();
}

function zoom(factor, at = (view.from + view.to) / 2) {
  const before = view.to - view.from, span = Math.min(whole(), Math.max(narrowest(), before * factor));
  const share = (at - view.from) / before;
  show(at - share * span, at - share * span + span);
}

const pan = share => show(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from));

/* Brings ops `first` to `last` into the picture, if they are not well in it. */
function reveal(panel, first, last) {
  const { begin, finish } = panel.axis, from = begin[first], to = finish[last], span = view.to - view.from;
  if (from >= view.from && to <= view.to && to - from > span / 400) return;
  const wanted = Math.max((to - from) * 1.3, Math.min(span, (to - from) * 60), narrowest());
  show((from + to) / 2 - wanted / 2, (from + to) / 2 + wanted / 2);
}

function select(panel, item, move) {
  for (const each of panels) each.selected = each === panel ? item : null;
  active = panels.indexOf(panel);
  if (move && item.kind === "op") reveal(panel, item.op, item.op);
  if (move && item.kind !== "op") {
    const { run, tape } = panel, stays = run.staysOf.of(item.storage);
    if (stays.length) reveal(panel, run.stays.first[stays[0]], Math.min(run.stays.end[stays[stays.length - 1]] - 1, tape.ops));
  }
  panels.forEach(fillDetails);
  redraw();
}

function selectNone() {
  for (const panel of panels) panel.selected = null;
  panels.forEach(fillDetails);
  redraw();
}

function stepOp(by) {
  const panel = panels[active], { tape } = panel, now = panel.selected;
  const start = now ? now.op + by : lastUpTo(panel.axis.begin, view.from);
  select(panel, { kind: "op", op: Math.max(0, Math.min(tape.ops, start)), storage: -1 }, true);
}

/* Where the other axis shows about the same. */
function otherAxis(change) {
  const panel = panels[active], place = at => lastUpTo(panel.axis.begin, at);
  const [first, last] = [place(view.from), place(view.to)], all = view.to - view.from >= whole() * .999;
  change();
  fillButtons();
  if (all) show(0, whole());
  else show(panel.axis.begin[first], panel.axis.finish[last]);
}

function toggleAxis() {
  otherAxis(() => view.byOp = !view.byOp);
}

function toggleHeight() {
  view.tight = !view.tight;
  fillButtons();
  redraw();
}

function togglePlan() {
  if (!planned) return;
  otherAxis(() => view.withPlan = !view.withPlan);
  for (const panel of panels) {
    panel.hovered = null;
    fillTables(panel);
    fillDetails(panel);
  }
}

function fillButtons() {
  const names = ["without a schedule", "with the schedule"];
  if (planned && view.withPlan) names.reverse();
  curves.forEach((label, i) => label.textContent = planned ? names[i] : "memory");
  byId("plan").hidden = !planned;
  byId("plan").setAttribute("aria-pressed", view.withPlan);
  byId("axis").hidden = !tapes.some(tape => tape.compute);
  byId("axis").setAttribute("aria-pressed", view.byOp);
  byId("height").setAttribute("aria-pressed", view.tight);
}

/* ---- search ---- */

function search() {
  const wanted = byId("search").value.toLowerCase();
  matches = [];
  match = -1;
  for (const panel of panels) {
    const { tape } = panel, hit = tape.names.map(name => wanted !== "" && name.toLowerCase().includes(wanted));
    panel.found = [];
    for (let op = 0; wanted && op < tape.ops; op++) if (hit[tape.name[op]]) panel.found.push(op);
    for (const op of panel.found) matches.push({ panel, op });
  }
  byId("found").textContent = wanted ? count(matches.length, "op") : "";
  redraw();
}

function nextMatch(by) {
  if (!matches.length) return;
  match = match < 0 ? (by > 0 ? 0 : matches.length - 1) : (match + by + matches.length) % matches.length;
  const { panel, op } = matches[match];
  byId("found").textContent = `${(match + 1).toLocaleString("en")} of ${count(matches.length, "op")}`;
  select(panel, { kind: "op", op, storage: -1 }, true);
}

/* ---- pointer and keys ---- */

const TIP_LINE = 200; /* characters */

function showTip(panel, event) {
  const tip = byId("tip");
  tip.hidden = !panel.hovered;
  if (!panel.hovered) return;
  const short = line => line.length > TIP_LINE ? line.slice(0, TIP_LINE) + "…" : line;
  tip.textContent = describe(panel, panel.hovered).map(short).join("\n");
  const { clientX: x, clientY: y } = event, width = tip.offsetWidth, height = tip.offsetHeight;
  tip.style.left = Math.max(4, x + 16 + width > innerWidth ? x - width - 12 : x + 16) + "px";
  tip.style.top = Math.max(4, y + 16 + height > innerHeight ? y - height - 12 : y + 16) + "px";
}

function hover(panel, event) {
  panel.hovered = event && panel.box ? panel.pick(event.offsetX, event.offsetY) : null;
  panel.drawOver();
  showTip(panel, event);
}

function listen(panel) {
  const canvas = panel.base;
  let grip = null, moved = false;
  canvas.addEventListener("pointerdown", event => {
    if (event.button) return;
    grip = { x: event.clientX, from: view.from, to: view.to };
    moved = false;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", event => {
    if (!grip) return hover(panel, event);
    const by = event.clientX - grip.x;
    if (Math.abs(by) > 3) moved = true;
    if (moved) {
      byId("tip").hidden = true;
      show(grip.from - by * panel.box.scale, grip.to - by * panel.box.scale);
    }
  });
  canvas.addEventListener("pointerup", event => {
    if (grip && !moved) {
      const item = panel.pick(event.offsetX, event.offsetY);
      if (item) select(panel, item, false);
      else selectNone();
    }
    grip = null;
  });
  canvas.addEventListener("pointercancel", () => grip = null);
  canvas.addEventListener("pointerleave", () => hover(panel, null));
  canvas.addEventListener("dblclick", event => zoom(.4, panel.box.at(event.offsetX)));
  canvas.addEventListener("wheel", event => {
    const across = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX, lines = event.deltaMode ? 16 : 1;
    const far = Math.max(-1, Math.min(1, event.deltaY * lines / 250));
    if (event.ctrlKey || event.metaKey) zoom(Math.exp(far), panel.box.at(event.offsetX));
    else if (across) pan(across * lines / panel.box.columns);
    else return;
    event.preventDefault();
  }, { passive: false });
  canvas.addEventListener("focus", () => active = panels.indexOf(panel));
}

const KEYS = {
  "ArrowLeft": () => pan(-.15), "ArrowRight": () => pan(.15), "+": () => zoom(.6), "=": () => zoom(.6), "-": () => zoom(1 / .6),
  "0": () => show(0, whole()), ",": () => stepOp(-1), ".": () => stepOp(1), "/": () => byId("search").select(),
  "n": () => nextMatch(1), "N": () => nextMatch(-1), "p": togglePlan, "x": toggleAxis, "y": toggleHeight, "Escape": selectNone,
  "?": () => byId("keys").showModal(),
};

addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
  if (event.target === byId("search")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (!Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  KEYS[event.key]();
});

byId("controls").addEventListener("submit", event => event.preventDefault());
byId("search").addEventListener("input", search);
byId("search").addEventListener("keydown", event => {
  if (event.key === "Enter") nextMatch(event.shiftKey ? -1 : 1);
});
for (const [id, key] of [["zoom_in", "+"], ["zoom_out", "-"], ["fit", "0"], ["plan", "p"], ["axis", "x"], ["height", "y"], ["help", "?"]])
  byId(id).addEventListener("click", KEYS[key]);

/* Paper is white: printed in the light colours, at once, since the printer waits for no frame. */
function repaint(print) {
  document.documentElement.classList.toggle("print", print);
  readPalette();
  for (const panel of panels) panel.hovered = null;
  drawAll();
}
addEventListener("beforeprint", () => repaint(true));
addEventListener("afterprint", () => repaint(false));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => repaint(false));
new ResizeObserver(redraw).observe(byId("panels"));

/* ---- start ---- */

const title = tapes.map(tape => visible(tape.title)).join(" and ");
document.title = title + " – Tapedeck";
byId("title").textContent = title;
fillLegend(shareColours());
readPalette();
view.lanes = planned ? LANES.length : 0;
fillButtons();
for (const panel of panels) {
  fillPanel(panel);
  fillTables(panel);
  listen(panel);
}
view.to = whole();
redraw();
