// SPDX-License-Identifier: Apache-2.0
// Scheduling, as libcore/export/page_sched.hpp writes it; and the stretches off the CPUs as events of their own, so that
// the heat map and the flame graph show where threads were blocked.
import { merge } from './columns.js';

// Numbers in page_state() of libcore/export/page_sched.cpp.
export const kOffStates = ['waits for a CPU', 'blocked (state D)', 'asleep'];
const kUnsure = 4, kGoesOn = 8;
// Idle threads of a pool sleep longer than this, and would hide the others.
const kMostAsleepNs = 1e9;
const kOffEvents = [
  { state: 1, name: 'blocked (state D), from 1 ms on' },
  { state: 0, name: 'waits for a CPU, from 1 ms on' },
  { state: 2, name: 'asleep, from 1 ms to 1 s' },
];
// A stretch counts where it is, in pieces of this length: as the cells of the heat map.
const kPieceNs = 20e6, kMostPieces = 100_000;

export function readSched(head, columns) {
  if (!head) return null;
  const ran = { cpu: columns.column(head.ran, Uint32Array), begin: new Float64Array(head.ran), end: new Float64Array(head.ran),
                thread: new Uint32Array(head.ran) };
  for (let i = 0; i < head.ran; ++i) {
    const follows = i > 0 && ran.cpu[i - 1] === ran.cpu[i];
    ran.begin[i] = (follows ? ran.end[i - 1] : head.lanes_begin) + columns.next();
    ran.end[i] = ran.begin[i] + columns.next();
    ran.thread[i] = columns.next();
  }
  const off = { begin: new Float64Array(head.off), end: new Float64Array(head.off), thread: new Uint32Array(head.off),
                state: new Uint8Array(head.off), unsure: new Uint8Array(head.off), goesOn: new Uint8Array(head.off) };
  for (let i = 0; i < head.off; ++i) {
    off.begin[i] = (i > 0 ? off.begin[i - 1] : 0) + columns.next();
    off.end[i] = off.begin[i] + columns.next();
    off.thread[i] = columns.next();
    const state = columns.next();
    off.state[i] = state & 3;
    off.unsure[i] = state & kUnsure ? 1 : 0;
    off.goesOn[i] = state & kGoesOn ? 1 : 0;
  }
  return { ...head, ran, off };
}

// {count, total, longest, at, goesOn, unsure}
export function times([number, total, longest, at, goesOn, unsure]) {
  return { count: number, total, longest, at, goesOn: goesOn !== 0, unsure };
}

const isSwitch = ({ name }) => /^sched:sched_switch/.test(name);

// The sample of the switch with which the thread left the CPU at this time; -1: there is none.
export function switchAt(side, tid, at) {
  const { time, node, thread } = side.samples;
  let low = 0, high = time.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (time[middle] < at) low = middle + 1;
    else high = middle;
  }
  for (let i = low; i < time.length && time[i] === at; ++i)
    if (side.threads.tid[thread[i]] === tid && isSwitch(side.events[side.eventOf[node[i]]] ?? { name: '' })) return i;
  return -1;
}

// How each program and thread begins: no place to look at.
const kStartup = /^(_start|__libc_start_\w+|start_thread|__?clone3?|clone3?|ret_from_fork\w*)$/;
export const isStartup = (name) => kStartup.test(name);

// How it came to leave the CPU: without the scheduler's own functions, which are the same in all stacks.
const kScheduler = /^(__schedule|schedule|io_schedule|preempt_schedule\w*|schedule_\w+|io_schedule_\w+|bit_wait\w*|__cond_resched)$/;
export function stackAt(side, tid, at) {
  const sample = side.sched?.stacks ? switchAt(side, tid, at) : -1;
  if (sample < 0) return [];
  const { parent, frame } = side.nodes, names = [];
  for (let node = side.samples.node[sample]; side.kindOf(frame[node]) !== 'root' && side.kindOf(frame[node]) !== 'task'; node = parent[node])
    names.push(side.frames.name[frame[node]]);
  while (names.length > 1 && kScheduler.test(names[0])) names.shift();
  while (names.length > 1 && isStartup(names[names.length - 1])) names.pop();
  return names.reverse();
}

// The stretches off the CPUs that are events: {begin, end, sample, event: its place in kOffEvents}.
function stretchesOf(side) {
  const { off, threads } = side.sched, out = [];
  for (let i = 0; i < off.begin.length; ++i) {
    const event = kOffEvents.findIndex(({ state }) => state === off.state[i]);
    if (event < 0 || (off.state[i] === 2 && off.end[i] - off.begin[i] > kMostAsleepNs)) continue;
    const sample = switchAt(side, threads.tid[off.thread[i]], off.begin[i]);
    if (sample >= 0) out.push({ begin: off.begin[i], end: off.end[i], sample, event });
  }
  return out;
}

function piecesOf(stretches, most = kMostPieces) {
  let step = kPieceNs;
  const count = () => stretches.reduce((sum, { begin, end }) => sum + Math.ceil((end - begin) / step), 0);
  while (count() > most) step *= 2;
  const out = [];
  for (const { begin, end, sample, event } of stretches)
    for (let at = begin; at < end; at += step) out.push({ time: at, weight: Math.min(step, end - at), sample, event });
  return out.sort((a, b) => a.time - b.time);
}

function longer(column, more) {
  const out = new column.constructor(column.length + more.length);
  out.set(column);
  out.set(more, column.length);
  return out;
}

// Adds the events, with copies of the nodes of their stacks. eventOf must be known; it is not, of what is added.
export function addOffEvents(side) {
  const of = side.events.findIndex(isSwitch);
  if (!side.sched?.stacks || of < 0) return false;
  const pieces = piecesOf(stretchesOf(side));
  if (pieces.length === 0) return false;
  const { parent, frame } = side.nodes, newParent = [], newFrame = [];
  const add = (above, which) => {
    newParent.push(above);
    newFrame.push(which);
    return parent.length + newParent.length - 1;
  };
  const used = kOffEvents.map((_, event) => pieces.some((piece) => piece.event === event));
  const copies = kOffEvents.map((_, event) => (used[event] ? new Map([[side.events[of].root, add(0, 0)]]) : null));
  const copyOf = (known, node) => {
    const path = [];
    for (; !known.has(node); node = parent[node]) path.push(node);
    let copy = known.get(node);
    for (const one of path.reverse()) {
      copy = add(copy, frame[one]);
      known.set(one, copy);
    }
    return copy;
  };
  const { samples } = side;
  const more = pieces.map(({ time, weight, sample, event }) => ({
    time, weight, node: copyOf(copies[event], samples.node[sample]), thread: samples.thread[sample], cpu: samples.cpu[sample] }));
  side.nodes = { parent: longer(parent, newParent), frame: longer(frame, newFrame), kind: null };
  side.samples = merge(samples, more);
  kOffEvents.forEach(({ name }, event) => {
    if (used[event])
      side.events.push({ name, root: copies[event].get(side.events[of].root), frequency: 0, clock: true, unit: 'threads', of });
  });
  return true;
}
