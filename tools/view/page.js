"use strict";
/* The page: text and tables, what keys and the pointer do. */

const byId = id => document.getElementById(id);
const make = (tag, text, className) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
};

const data = JSON.parse(byId("data").textContent);
const tapes = data.tapes.map(readTape), planned = tapes.some(tape => tape.runs.length > 1);
const curves = []; /* the labels of the shown curve and the other */
let active = 0, queued = false, matches = [], match = -1;

/* ---- colours ---- */

/* The six names whose ops made the most bytes have a colour each, the same in every panel. */
function shareColours() {
  const made = new Map();
  for (const tape of tapes)
    for (let storage = 0; storage < tape.bytes.length; storage++)
      if (tape.maker(storage) >= 0) made.set(tape.storageName(storage), (made.get(tape.storageName(storage)) || 0) + tape.bytes[storage]);
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

/* ---- text ---- */

function facts(tape) {
  const [plain, planned] = tape.runs;
  const list = [["ops", tape.ops.toLocaleString("en")], ["activations", tape.activations.toLocaleString("en")],
                ["compute", tape.compute ? timeText(tape.compute) : "not measured"], ["peak without", sizeText(plain.peak)],
                ["floor", sizeText(tape.floor)]];
  if (!planned) return list;
  list.splice(4, 0, ["peak with", sizeText(planned.peak)]);
  if (tape.budget !== undefined) list.splice(5, 0, ["budget", sizeText(tape.budget)]);
  const share = tape.compute ? ` (${(100 * planned.stalled / tape.compute).toFixed(1)}%)` : "";
  list.push(["stall", timeText(planned.stalled) + share], ["copied out", sizeText(planned.out)], ["copied in", sizeText(planned.in)],
            ["most on the host", sizeText(planned.hostPeak)]);
  return list;
}

function subtitle(tape) {
  const parts = [tape.planner === undefined ? "Without a schedule; make one with tapedeck plan"
                                            : `Schedule ${tape.schedule} by ${visible(tape.planner)}, as simulated`];
  if (!tape.complete) parts.push("the trace is unfinished");
  if (!tape.compute) parts.push("no durations: time is counted in ops");
  return parts.join("; ");
}

function fillPanel(panel) {
  const { tape, element } = panel, find = name => element.querySelector(name);
  if (tapes.length > 1) find("h2").textContent = visible(tape.title);
  else find("h2").hidden = true;
  find(".subtitle").textContent = subtitle(tape);
  for (const [name, value] of facts(tape)) {
    const group = make("div");
    group.append(make("dt", name), make("dd", value));
    find(".facts").append(group);
  }
  const { faults, nFaults } = tape;
  for (const [op, sid, what] of faults) find(".faults").append(make("li", `fault at op ${op}, SID ${sid}: ${what}`));
  if (nFaults > faults.length) find(".faults").append(make("li", `and ${(nFaults - faults.length).toLocaleString("en")} more faults`));
}

function fillTables(panel) {
  const { tape, run, element } = panel;
  const row = (table, cells, storage, op) => {
    const tr = make("tr");
    for (const [text, name] of cells) {
      const td = make("td", name ? undefined : text, name ? "name" : "");
      if (name) {
        const button = make("button", text, "link");
        button.type = "button";
        button.title = text;
        button.addEventListener("click", () => select(panel, { kind: "storage", op, storage }, true));
        td.append(button);
      }
      tr.append(td);
    }
    tr.dataset.storage = storage;
    table.append(tr);
  };
  const begin = (name, heads) => {
    const table = element.querySelector(name), tr = make("tr");
    table.replaceChildren();
    heads.forEach((head, i) => tr.append(make("th", head, i ? "" : "name")));
    table.append(tr);
    return table;
  };
  const life = storage => {
    const stays = run.staysOf.of(storage);
    return stays.length ? `${run.stays.first[stays[0]]}–${Math.min(run.stays.end[stays[stays.length - 1]] - 1, tape.ops)}` : "–";
  };
  const largest = begin(".largest", ["made by", "size", "SID", "ops", "leaves"]);
  for (const storage of best(tape.bytes.length, 20, s => tape.isActivation(s) ? tape.bytes[s] : 0))
    row(largest, [[tape.storageName(storage), true], [sizeText(tape.bytes[storage])], [tape.sids[storage]], [life(storage)],
                  [run.staysOf.of(storage).length > 1 ? count(run.staysOf.of(storage).length - 1, "time") : "–"]], storage, tape.maker(storage));
  element.querySelector(".least").textContent = `, of storages from ${sizeText(smallestShown(run))} up`;
  const gaps = begin(".gaps", ["made by", "size", "SID", "between ops", tape.compute ? "time" : "ops", "away"]);
  for (const gap of longestGaps(tape, run, 20))
    row(gaps, [[tape.storageName(gap.storage), true], [sizeText(tape.bytes[gap.storage])], [tape.sids[gap.storage]], [`${gap.from}–${gap.to}`],
               [tape.compute ? timeText(gap.length) : gap.length.toLocaleString("en")], [gap.away ? "yes" : "no"]], gap.storage, gap.from);
}

/* ---- one thing in words ---- */

const LANE_VERBS = ["copied out", "copied in"];

function moment(panel, op) {
  return panel.tape.compute ? `op ${op} (${timeText(panel.run.start[op])})` : `op ${op}`;
}

/* When a storage is on the device and when it is not, a line each. */
function lifeLines(panel, storage) {
  const { tape, run } = panel, lines = [], stays = run.staysOf.of(storage);
  stays.forEach((stay, i) => {
    const { first, end } = run.stays;
    lines.push(`${i ? "returns" : "comes"} at ${moment(panel, first[stay])}` +
               (end[stay] > tape.ops ? ", there when the step ends" : `, ${i + 1 < stays.length ? "leaves" : "goes"} before ${moment(panel, end[stay])}`));
  });
  return lines;
}

function copyLines(panel, storage) {
  const lines = [];
  panel.run.lanes.forEach((lane, number) => lane.storage.forEach((s, i) => {
    if (s === storage) lines.push([lane.start[i], `${LANE_VERBS[number]} from ${timeText(lane.start[i])} to ${timeText(lane.end[i])}`]);
  }));
  return lines.sort((a, b) => a[0] - b[0]).map(line => line[1]);
}

function describe(panel, item) {
  const { tape, run } = panel, { op, storage } = item;
  if (item.kind === "op") {
    const lines = [op < tape.ops ? `op ${op}  ${tape.opName(op)}` : "end of the step"];
    if (tape.compute) lines.push(`at ${timeText(run.start[op])}` + (op < tape.ops ? `, takes ${timeText(tape.dur[op])}` : ""));
    if (run.stall[op]) lines.push(`stalls ${timeText(run.stall[op])} before it`);
    return [...lines, `${sizeText(run.device[op])} on the device` + (run.host[op] ? `, ${sizeText(run.host[op])} on the host` : "")];
  }
  const lines = [`${tape.storageName(storage)}  SID ${tape.sids[storage]}`, sizeText(tape.bytes[storage])];
  if (item.kind === "copy") {
    const lane = run.lanes[item.lane];
    lines[1] += ` ${LANE_VERBS[item.lane]}`;
    lines.push(`from ${timeText(lane.start[item.copy])} to ${timeText(lane.end[item.copy])}, issued at op ${op}`);
    return lines;
  }
  const uses = tape.uses.of(storage), life = lifeLines(panel, storage);
  lines.push(uses.length ? `made by op ${uses[0]}, used by ${count(new Set(uses).size, "op")}, last by op ${uses[uses.length - 1]}` : "never used");
  const gap = longestGap(tape, run, storage);
  if (gap) lines.push(`longest gap: ops ${gap.from} to ${gap.to}` + (tape.compute ? `, ${timeText(gap.length)}` : ""));
  lines.push(...life.slice(0, 4));
  if (life.length > 4) lines.push(`and ${count(life.length - 4, "more stay")}`);
  return lines;
}

const SHOWN = 200; /* entries of a list */

function fillDetails(panel) {
  const { tape, selected: item, element } = panel, box = element.querySelector(".details");
  for (const tr of element.querySelectorAll("tr")) tr.setAttribute("aria-selected", item !== null && item.storage >= 0 && +tr.dataset.storage === item.storage);
  box.replaceChildren();
  if (!item) return;
  const lists = make("div", undefined, "lists");
  const list = (title, entries) => {
    if (!entries.length) return;
    const ol = make("ol");
    for (const entry of entries.slice(0, SHOWN)) {
      const li = make("li");
      li.append(entry);
      ol.append(li);
    }
    if (entries.length > SHOWN) ol.append(make("li", `and ${(entries.length - SHOWN).toLocaleString("en")} more`));
    const part = make("div");
    part.append(make("p", title), ol);
    lists.append(part);
  };
  const link = (text, target) => {
    const button = make("button", text, "link");
    button.type = "button";
    button.addEventListener("click", () => select(panel, target, true));
    return button;
  };
  const shown = item.kind === "copy" ? { ...item, kind: "storage" } : item;
  const [head, ...lines] = describe(panel, shown);
  box.append(make("h3", head));
  if (item.kind === "op") {
    for (const line of lines) box.append(make("p", line));
    const from = item.op ? tape.accessEnd[item.op - 1] : 0;
    list("touches", Array.from(item.op < tape.ops ? tape.access.subarray(from, tape.accessEnd[item.op]) : [], access =>
      link(`${access & 1 ? "writes" : "reads"} SID ${tape.sids[access >> 1]}, ${sizeText(tape.bytes[access >> 1])}, ${tape.storageName(access >> 1)}`,
        { kind: "storage", op: item.op, storage: access >> 1 })));
    box.append(lists);
    return;
  }
  const { storage } = item, uses = tape.uses.of(storage), kinds = tape.kinds.of(storage), life = lifeLines(panel, storage);
  for (const line of lines.filter(line => !life.includes(line))) box.append(make("p", line));
  if (tape.isRetained(storage)) box.append(make("p", "retained: still held when the step ends"));
  else if (tape.freed[storage]) box.append(make("p", `freed by the program before op ${tape.freed[storage] - 1}`));
  list("on the device", life);
  list("copies", copyLines(panel, storage));
  list("uses", Array.from(uses, (op, i) => link(`${kinds[i] ? "written" : "read"} by op ${op}, ${tape.opName(op)}`, { kind: "op", op, storage: -1 })));
  box.append(lists);
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
  const span = Math.min(whole(), Math.max(narrowest(), (view.to - view.from) * factor)), share = (at - view.from) / (view.to - view.from);
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
  tip.textContent = describe(panel, panel.hovered).map(line => line.length > TIP_LINE ? line.slice(0, TIP_LINE) + "…" : line).join("\n");
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
    if (event.ctrlKey || event.metaKey) zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * lines / 250))), panel.box.at(event.offsetX));
    else if (across) pan(across * lines / panel.box.columns);
    else return;
    event.preventDefault();
  }, { passive: false });
  canvas.addEventListener("focus", () => active = panels.indexOf(panel));
}

const KEYS = {
  "ArrowLeft": () => pan(-.15), "ArrowRight": () => pan(.15), "+": () => zoom(.6), "=": () => zoom(.6), "-": () => zoom(1 / .6),
  "0": () => show(0, whole()), "/": () => byId("search").select(), "n": () => nextMatch(1), "N": () => nextMatch(-1), "p": togglePlan,
  "x": toggleAxis, "y": toggleHeight, ",": () => stepOp(-1), ".": () => stepOp(1), "Escape": selectNone, "?": () => byId("keys").showModal(),
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
for (const [id, action] of [["zoom_in", KEYS["+"]], ["zoom_out", KEYS["-"]], ["fit", KEYS["0"]], ["plan", togglePlan], ["axis", toggleAxis], ["height", toggleHeight], ["help", KEYS["?"]]])
  byId(id).addEventListener("click", action);

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
