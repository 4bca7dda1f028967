"use strict";
/* The page in words: facts, tables, and what is told of an op, a storage or a copy. */

const byId = id => document.getElementById(id);
const make = (tag, text, className) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
};

/* ---- facts and tables ---- */

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

function beginTable(panel, name, heads) {
  const table = panel.element.querySelector(name), tr = make("tr");
  heads.forEach((head, i) => tr.append(make("th", head, i ? "" : "name")));
  table.replaceChildren(tr);
  return table;
}

/* A storage's row: its maker's name, to select it with, and its size; then `cells`. */
function addRow(panel, table, storage, op, cells) {
  const { tape } = panel, tr = make("tr"), td = make("td", undefined, "name"), name = make("button", tape.storageName(storage), "link");
  name.type = "button";
  name.title = name.textContent;
  name.addEventListener("click", () => select(panel, { kind: "storage", op, storage }, true));
  td.append(name);
  tr.append(td);
  for (const text of [sizeText(tape.bytes[storage]), tape.sids[storage], ...cells]) tr.append(make("td", text));
  tr.dataset.storage = storage;
  table.append(tr);
}

function fillTables(panel) {
  const { tape, run, element } = panel, { first, end } = run.stays;
  const largest = beginTable(panel, ".largest", ["made by", "size", "SID", "ops", "leaves"]);
  for (const storage of best(tape.bytes.length, 20, s => tape.isActivation(s) ? tape.bytes[s] : 0)) {
    const stays = run.staysOf.of(storage), times = stays.length - 1;
    const life = stays.length ? `${first[stays[0]]}–${Math.min(end[stays[times]] - 1, tape.ops)}` : "–";
    addRow(panel, largest, storage, tape.maker(storage), [life, times > 0 ? count(times, "time") : "–"]);
  }
  element.querySelector(".least").textContent = `, of storages from ${sizeText(smallestShown(run))} up`;
  const gaps = beginTable(panel, ".gaps", ["made by", "size", "SID", "between ops", tape.compute ? "time" : "ops", "away"]);
  for (const { storage, from, to, length, away } of longestGaps(tape, run, 20))
    addRow(panel, gaps, storage, from,
      [`${from}–${to}`, tape.compute ? timeText(length) : length.toLocaleString("en"), away ? "yes" : "no"]);
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
    const goes = i + 1 < stays.length ? "leaves" : "goes";
    lines.push(`${i ? "returns" : "comes"} at ${moment(panel, first[stay])}, ` +
               (end[stay] > tape.ops ? "there when the step ends" : `${goes} before ${moment(panel, end[stay])}`));
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
  if (uses.length) lines.push(`made by op ${uses[0]}, used by ${count(new Set(uses).size, "op")}, last by op ${uses[uses.length - 1]}`);
  const gap = longestGap(tape, run, storage);
  if (gap) lines.push(`longest gap: ops ${gap.from} to ${gap.to}` + (tape.compute ? `, ${timeText(gap.length)}` : ""));
  lines.push(...life.slice(0, 4));
  if (life.length > 4) lines.push(`and ${count(life.length - 4, "more stay")}`);
  return lines;
}

const SHOWN = 200; /* entries of a list */

function fillDetails(panel) {
  const { tape, selected: item, element } = panel, box = element.querySelector(".details");
  for (const tr of element.querySelectorAll("tr"))
    tr.setAttribute("aria-selected", item !== null && item.storage >= 0 && +tr.dataset.storage === item.storage);
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
    list("touches", Array.from(item.op < tape.ops ? tape.access.subarray(from, tape.accessEnd[item.op]) : [], access => {
      const storage = access >> 1, what = `SID ${tape.sids[storage]}, ${sizeText(tape.bytes[storage])}, ${tape.storageName(storage)}`;
      return link(`${access & 1 ? "writes" : "reads"} ${what}`, { kind: "storage", op: item.op, storage });
    }));
    box.append(lists);
    return;
  }
  const { storage } = item, uses = tape.uses.of(storage), kinds = tape.kinds.of(storage), life = lifeLines(panel, storage);
  for (const line of lines.filter(line => !life.includes(line))) box.append(make("p", line));
  if (tape.isRetained(storage)) box.append(make("p", "retained: still held when the step ends"));
  else if (tape.freed[storage]) box.append(make("p", `freed by the program before op ${tape.freed[storage] - 1}`));
  list("on the device", life);
  list("copies", copyLines(panel, storage));
  list("uses", Array.from(uses, (op, i) =>
    link(`${kinds[i] ? "written" : "read"} by op ${op}, ${tape.opName(op)}`, { kind: "op", op, storage: -1 })));
  box.append(lists);
}
