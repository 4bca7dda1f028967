"use strict";
/* What the program wrote into the page, opened: columns, and what follows from them. Everything is an array by op, by storage, by
 * stay or by copy. */

/* ---- text ---- */

function sizeText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let unit = 0;
  for (; bytes >= 1023.95 && unit < 6; unit++) bytes /= 1024;
  return (unit ? bytes.toFixed(1) : bytes) + " " + units[unit];
}

function timeText(ns) {
  if (ns < 1e3) return Math.round(ns) + " ns";
  const [unit, name] = ns < 1e6 ? [1e3, "µs"] : ns < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  const value = ns / unit;
  const digits = value < 9.995 ? value.toFixed(2) : value < 99.95 ? value.toFixed(1) : Math.round(value).toLocaleString("en");
  return digits + " " + name;
}

const count = (n, one, many = one + "s") => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

/* Bytes that no font shows are shown as what they are. */
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
const visible = name => name === "" ? "(no name)" : name.replace(UNSEEN, c => "\\x" + c.charCodeAt(0).toString(16).padStart(2, "0"));

/* ---- columns ---- */

/* A column is base64 of numbers, each as the difference to the one before: the sign in the lowest bit, then seven bits a byte, the
 * lowest first. Numbers are below 2^64; above 2^53 they are rounded. */
function unpack(text, Type) {
  const bytes = atob(text);
  let n = 0;
  for (let i = 0; i < bytes.length; i++) n += bytes.charCodeAt(i) < 128;
  const values = new Type(n);
  for (let i = 0, to = 0, before = 0; to < n; to++) {
    let zigzag = 0, scale = 1, byte;
    do {
      byte = bytes.charCodeAt(i++);
      zigzag += (byte & 127) * scale;
      scale *= 128;
    } while (byte > 127);
    before += zigzag % 2 ? -(zigzag + 1) / 2 : zigzag / 2;
    if (before < 0) before += 2 ** 64;
    else if (before >= 2 ** 64) before -= 2 ** 64;
    values[to] = before;
  }
  return values;
}

const words = text => text ? text.split(" ") : [];

/* The number of the last entry that is not above `value`; 0 if all are. */
function lastUpTo(sorted, value) {
  let low = 0, high = sorted.length;
  while (low + 1 < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle;
    else high = middle;
  }
  return low;
}

/* Lists of numbers by key, in order: those of key k are items[start[k]] up to items[start[k + 1]]. */
function group(nKeys, n, keyOf, itemOf) {
  const start = new Uint32Array(nKeys + 2), items = new Uint32Array(n);
  for (let i = 0; i < n; i++) start[keyOf(i) + 2]++;
  for (let k = 0; k < nKeys; k++) start[k + 2] += start[k + 1];
  for (let i = 0; i < n; i++) items[start[keyOf(i) + 1]++] = itemOf(i);
  return { of: key => items.subarray(start[key], start[key + 1]) };
}

/* ---- a step with or without a schedule ---- */

function readRun(raw, tape) {
  const n = tape.ops, run = { ...raw, device: unpack(raw.device, Float64Array), host: unpack(raw.host, Float64Array),
                              stall: unpack(raw.stall, Float64Array) };
  run.start = new Float64Array(n + 1);
  for (let op = 0, now = 0; op <= n; op++) {
    now += run.stall[op];
    run.start[op] = now;
    if (op < n) now += tape.dur[op];
  }
  run.stays = { storage: unpack(raw.stays.storage, Uint32Array), first: unpack(raw.stays.first, Uint32Array),
                end: unpack(raw.stays.end, Uint32Array) };
  run.sizes = Float64Array.from(run.stays.storage, storage => tape.bytes[storage]); /* by stay */
  run.staysOf = group(tape.bytes.length, run.stays.storage.length, i => run.stays.storage[i], i => i);
  run.lanes = raw.lanes.map(lane => {
    const start = unpack(lane.start, Float64Array), length = unpack(lane.length, Float64Array);
    const storage = Uint32Array.from(words(lane.sids), sid => tape.storageOf.get(sid));
    return { storage, op: unpack(lane.op, Uint32Array), start, end: start.map((s, i) => s + length[i]) };
  });
  run.end = run.lanes.reduce((end, lane) => Math.max(end, lane.end.length ? lane.end[lane.end.length - 1] : 0), run.start[n]);
  run.byTime = timeAxis(run, tape);
  run.byOp = opAxis(run, tape);
  return run;
}

/* Where things are from left to right: op k is from begin[k] to finish[k], and the clock stands at at(ns). */
function timeAxis(run, tape) {
  return { begin: run.start, finish: run.start.map((s, op) => s + (tape.dur[op] || 0)), end: run.end, at: ns => ns };
}

function opAxis(run, tape) {
  const n = tape.ops, begin = Float64Array.from({ length: n + 1 }, (_, op) => op);
  const at = ns => {
    const op = lastUpTo(run.start, ns);
    return op + (op < n && tape.dur[op] ? Math.min(1, (ns - run.start[op]) / tape.dur[op]) : 0);
  };
  return { begin, finish: begin.map(op => Math.min(op + 1, n)), end: n, at };
}

/* ---- a tape ---- */

function readTape(raw) {
  const tape = { ...raw, name: unpack(raw.name, Uint32Array), dur: unpack(raw.dur, Float64Array), sids: words(raw.sids),
                 bytes: unpack(raw.bytes, Float64Array), flags: unpack(raw.flags, Uint8Array),
                 freed: unpack(raw.freed, Float64Array), accessEnd: unpack(raw.accessEnd, Uint32Array),
                 access: unpack(raw.access, Uint32Array) };
  const opOf = new Uint32Array(tape.access.length);
  for (let op = 0, i = 0; op < tape.ops; op++) for (; i < tape.accessEnd[op]; i++) opOf[i] = op;
  tape.names = raw.names.map(visible);
  tape.storageOf = new Map(tape.sids.map((sid, storage) => [sid, storage]));
  /* Accesses of a storage, each an op; `writes` has a 1 for each that writes. */
  tape.uses = group(tape.bytes.length, tape.access.length, i => tape.access[i] >> 1, i => opOf[i]);
  tape.kinds = group(tape.bytes.length, tape.access.length, i => tape.access[i] >> 1, i => tape.access[i] & 1);
  tape.isActivation = storage => (tape.flags[storage] & 1) !== 0;
  tape.isRetained = storage => (tape.flags[storage] & 2) !== 0;
  tape.opName = op => op < tape.ops ? tape.names[tape.name[op]] : "end of the step";
  tape.maker = storage => tape.isActivation(storage) && tape.uses.of(storage).length ? tape.uses.of(storage)[0] : -1;
  tape.storageName = storage => tape.maker(storage) < 0 ? "(from outside the step)" : tape.opName(tape.maker(storage));
  tape.runs = raw.runs.map(run => readRun(run, tape));
  return tape;
}

/* The `most` first of the numbers below n by falling score; those without a score above 0 are left out. */
function best(n, most, score) {
  const list = [];
  for (let i = 0; i < n; i++) {
    const value = score(i);
    if (!(value > 0) || (list.length === most && value <= list[most - 1].value)) continue;
    let at = list.length;
    while (at && list[at - 1].value < value) at--;
    list.splice(at, 0, { value, i });
    if (list.length > most) list.pop();
  }
  return list.map(entry => entry.i);
}

/* Storages below a thousandth of the peak are left out where what is large counts. */
const smallestShown = run => Math.max(1, Math.floor(run.peak / 1000));

const gapAxis = (tape, run) => tape.compute ? run.byTime : run.byOp;

/* Calls `each` with the ops around every stretch in which a storage lies unused for an op at least, and how long it is. */
function eachGap(tape, run, storage, each) {
  const uses = tape.uses.of(storage), { begin, finish } = gapAxis(tape, run);
  for (let i = 1; i < uses.length; i++)
    if (uses[i] - uses[i - 1] > 1) each(uses[i - 1], uses[i], begin[uses[i]] - finish[uses[i - 1]]);
}

function longestGap(tape, run, storage) {
  let longest = null;
  eachGap(tape, run, storage, (from, to, length) => {
    if (!longest || length > longest.length) longest = { from, to, length };
  });
  return longest;
}

/* The longest gaps of all activations. */
function longestGaps(tape, run, most) {
  const gaps = { storage: [], from: [], to: [], length: [] };
  for (let storage = 0; storage < tape.bytes.length; storage++) {
    if (!tape.isActivation(storage) || tape.bytes[storage] < smallestShown(run)) continue;
    eachGap(tape, run, storage, (from, to, length) => {
      gaps.storage.push(storage);
      gaps.from.push(from);
      gaps.to.push(to);
      gaps.length.push(length);
    });
  }
  return best(gaps.storage.length, most, i => gaps.length[i]).map(i => {
    const [storage, from, to, length] = [gaps.storage[i], gaps.from[i], gaps.to[i], gaps.length[i]];
    const { end } = run.stays, away = run.staysOf.of(storage).some(s => end[s] > from && end[s] <= to && end[s] <= tape.ops);
    return { storage, from, to, length, away };
  });
}
