// SPDX-License-Identifier: Apache-2.0
// The samples of a selection, and of what it is compared with, added up in one tree, as libcore/profile/stack_tree.hpp
// does: nothing is left out of it. Nodes have larger numbers than their parents, and nothing recurses.
import { coveredTime } from './coverage.js';
import { kKinds } from './payload.js';

const kRoot = kKinds.indexOf('root'), kTask = kKinds.indexOf('task');

// Frames of both sides: a function is the same by its name and the name of its object, a place without a name only in
// the same build (libcore/profile/joined.hpp).
export class FrameKeys {
  constructor(sides) {
    this.frames = [];
    this.numbers = new Map();
    this.ofSide = sides.map((side) => {
      const { name, object, kind, named } = side.frames;
      return Uint32Array.from(name, (text, i) => {
        const build = named[i] ? '' : side.objects.build[object[i]];
        return this.number(text, side.objects.name[object[i]], side.kindOf(i), build);
      });
    });
  }
  number(name, object, kind, build = '') {
    const key = [kind, object, build, name].join('\0');
    let number = this.numbers.get(key);
    if (number === undefined) {
      number = this.frames.length;
      this.numbers.set(key, number);
      this.frames.push({ name, object, kind });
    }
    return number;
  }
}

// The samples that `query` wants: {event, begin, end, comm, unit, cpu, thread}; times include the begin, not the end,
// but for the end of the window.
export function pick(side, query) {
  const { time, node, thread, cpu } = side.samples;
  const out = [];
  const last = query.end >= side.end;
  for (let i = lowerBound(time, query.begin); i < time.length && (last || time[i] < query.end); ++i) {
    if (side.eventOf[node[i]] !== query.event) continue;
    if (query.cpu !== null && query.cpu !== undefined && cpu[i] !== query.cpu) continue;
    if (query.thread !== null && query.thread !== undefined && thread[i] !== query.thread) continue;
    if (query.unit && side.threads.unit[thread[i]] !== query.unit) continue;
    if (query.comm && side.frames.name[side.taskOf[node[i]]] !== query.comm) continue;
    out.push(i);
  }
  return out;
}

export function lowerBound(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

// What each sample adds: {side, picked, values}. In CPUs: its weight by the time of the stretch that its CPU's ring has.
export function weigh(side, coverage, query, inCpus) {
  const picked = pick(side, query);
  const { cpu, weight } = side.samples;
  const values = new Float64Array(picked.length);
  if (inCpus) {
    const scale = new Map();
    picked.forEach((sample, i) => {
      if (!scale.has(cpu[sample])) scale.set(cpu[sample], 1 / coveredTime(coverage, cpu[sample], query.begin, query.end));
      values[i] = weight[sample] * scale.get(cpu[sample]);
    });
  } else {
    let all = 0;
    for (const sample of picked) all += weight[sample];
    picked.forEach((sample, i) => { values[i] = all > 0 ? weight[sample] / all : 0; });
  }
  return { side, picked, values };
}

const threadOf = (side, sample) => side.samples.thread[sample];
const taskOf = (side, sample) => side.taskOf[side.samples.node[sample]];
// `key` is the same for the same text.
const groups = {
  unit: { key: threadOf, text: (side, sample) => side.threads.unit[threadOf(side, sample)] || '[no unit]' },
  process: { key: threadOf, text: (side, sample) => processText(side, threadOf(side, sample)) },
  cpu: { key: (side, sample) => side.samples.cpu[sample], text: (side, sample) => `CPU ${side.samples.cpu[sample]}` },
  thread: {
    key: (side, sample) => threadOf(side, sample) * 0x200000 + taskOf(side, sample),
    text: (side, sample) => threadText(side, threadOf(side, sample), taskOf(side, sample)),
  },
};
export function processText(side, thread) {
  return side.threads.known[thread] ? `${side.threads.process[thread] || '[unknown]'} (${side.threads.pid[thread]})`
                                    : '[other threads]';
}
export function threadText(side, thread, task) {
  return side.threads.known[thread] ? `${side.frames.name[task]} (${side.threads.tid[thread]})` : '[other threads]';
}
// Below these, the name of the thread is no frame.
const withoutTask = new Set(['nothing', 'thread']);

const kFirstNodes = 1024;  // a power of two, as each later number

export class Tree {
  constructor(keys) {
    this.keys = keys;
    this.size = 1;
    this.parent = new Uint32Array(kFirstNodes);
    this.frame = new Uint32Array(kFirstNodes);
    this.frame[0] = keys.number('all', '', 'root');
    this.slots = new Uint32Array(2 * kFirstNodes);  // a hash table of the nodes by parent and frame; 0: free
    for (const name of Tree.columns) this[name] = new Float64Array(kFirstNodes);
  }
  static columns = ['now', 'before', 'nowVariance', 'beforeVariance', 'nowSamples', 'beforeSamples'];

  // The node itself, or the free slot for it.
  slotOf(node, frame) {
    const mask = this.slots.length - 1;
    const hash = Math.imul(Math.imul(node, 0x9e3779b1) ^ frame, 0x85ebca6b);
    let at = (hash ^ (hash >>> 15)) & mask;
    for (let id = this.slots[at]; id !== 0; id = this.slots[at = (at + 1) & mask])
      if (this.parent[id] === node && this.frame[id] === frame) break;
    return at;
  }
  child(node, frame) {
    let slot = this.slotOf(node, frame);
    if (this.slots[slot] !== 0) return this.slots[slot];
    if (this.size === this.parent.length) {
      this.grow();
      slot = this.slotOf(node, frame);
    }
    const id = this.size++;
    this.parent[id] = node;
    this.frame[id] = frame;
    this.slots[slot] = id;
    return id;
  }
  grow() {
    for (const name of ['parent', 'frame', ...Tree.columns]) {
      const larger = new this[name].constructor(2 * this[name].length);
      larger.set(this[name]);
      this[name] = larger;
    }
    this.slots = new Uint32Array(2 * this.slots.length);
    for (let id = 1; id < this.size; ++id) this.slots[this.slotOf(this.parent[id], this.frame[id])] = id;
  }

  // `stretch` is 'now' or 'before'; `sideNumber` is that of the side in the keys.
  add(weighed, sideNumber, stretch, { groupBy = 'name', inverted = false } = {}) {
    const { side, picked, values } = weighed;
    const place = new Placer(this, side, this.keys.ofSide[sideNumber], inverted, withoutTask.has(groupBy));
    const group = groups[groupBy], tops = new Map();
    const topOf = (sample) => {
      if (!group) return 0;
      const key = group.key(side, sample);
      if (!tops.has(key)) tops.set(key, this.child(0, this.keys.number(group.text(side, sample), '', 'group')));
      return tops.get(key);
    };
    const ids = picked.map((sample) => place.of(topOf(sample), side.samples.node[sample]));
    // After the nodes are there: the columns are others when they have grown.
    const value = this[stretch], variance = this[`${stretch}Variance`], samples = this[`${stretch}Samples`];
    ids.forEach((id, i) => {
      value[id] += values[i];
      variance[id] += values[i] * values[i];  // of a Poisson distribution: libcore/profile/change.cpp
      samples[id] += 1;
    });
  }
  // After the last add(): what is of a node alone stays in `self`.
  finish() {
    this.self = {};
    for (const name of ['parent', 'frame', ...Tree.columns]) this[name] = this[name].slice(0, this.size);
    for (const name of Tree.columns) {
      const column = this[name];
      this.self[name] = column.slice();
      for (let id = column.length - 1; id > 0; --id) column[this.parent[id]] += column[id];
    }
    return this;
  }
  frameOf(id) { return this.keys.frames[this.frame[id]]; }
  // The outermost frame first.
  path(id) {
    const out = [];
    for (let at = id; at !== 0; at = this.parent[at]) out.push(this.frame[at]);
    return out.reverse();
  }
  find(path) {
    let at = 0;
    for (const frame of path) {
      const next = this.slots[this.slotOf(at, frame)];
      if (next === 0) return at;
      at = next;
    }
    return at;
  }
}

// Finds the node for the stack of a sample.
class Placer {
  constructor(tree, side, keys, inverted, skipTask) {
    Object.assign(this, { tree, side, keys, inverted, skipTask });
    this.known = new Map();  // by the group's node: nodes of the tree by those of the side
  }
  of(top, node) {
    let known = this.known.get(top);
    if (known === undefined) {
      known = new Int32Array(this.side.nodes.parent.length).fill(-1);
      this.known.set(top, known);
    }
    if (known[node] >= 0) return known[node];
    return this.inverted ? this.turned(top, node, known) : this.straight(top, node, known);
  }
  isFrame(node) {
    return !(this.skipTask && this.side.nodes.kind[node] === kTask);
  }
  straight(top, node, known) {
    const { parent, frame, kind } = this.side.nodes;
    const path = [];
    let at = node;
    for (; known[at] < 0 && kind[at] !== kRoot; at = parent[at]) path.push(at);
    if (known[at] < 0) known[at] = top;
    let id = known[at];
    while (path.length > 0) {
      at = path.pop();
      if (this.isFrame(at)) id = this.tree.child(id, this.keys[frame[at]]);
      known[at] = id;
    }
    return id;
  }
  turned(top, node, known) {
    const { parent, frame, kind } = this.side.nodes;
    let id = top;
    for (let at = node; kind[at] !== kRoot; at = parent[at])
      if (this.isFrame(at)) id = this.tree.child(id, this.keys[frame[at]]);
    known[node] = id;
    return id;
  }
}
