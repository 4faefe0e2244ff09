// SPDX-License-Identifier: Apache-2.0
// A payload as libcore/export/page_payload.cpp writes it, with samples of a test's own.
import { gzipSync } from 'node:zlib';
import { decode, kKinds, unpack } from '../src/payload.js';

const varint = (number) => {
  const out = [];
  for (; number >= 128; number = Math.floor(number / 128)) out.push((number % 128) + 128);
  return [...out, number];
};

// `samples`: {at: ms from the begin, stack: 'task;main;work', cpu, thread, weight: ns}.
export function madeSide(samples, more = {}) {
  const frames = { name: ['', '[others]'], object: [0, 0], kind: [0, 1], named: [1, 1] };
  const nodes = [[0, 0], [0, 0]];  // parent, frame: that of all, and the root of the event
  const frameOf = (name, kind) => {
    const known = frames.name.findIndex((other, i) => other === name && frames.kind[i] === kind);
    if (known >= 0) return known;
    frames.name.push(name);
    frames.object.push(kind === kKinds.indexOf('user') ? 1 : 0);
    frames.kind.push(kind);
    frames.named.push(name.includes('+') ? 0 : 1);
    return frames.name.length - 1;
  };
  const nodeOf = (parent, frame) => {
    const known = nodes.findIndex((node, i) => i > 1 && node[0] === parent && node[1] === frame);
    return known >= 0 ? known : nodes.push([parent, frame]) - 1;
  };
  const sorted = samples.map((sample) => ({ cpu: 0, thread: 0, weight: 10e6, ...sample })).sort((a, b) => a.at - b.at);
  for (const sample of sorted)
    sample.node = sample.stack.split(';').reduce(
      (node, name, i) => nodeOf(node, frameOf(name, kKinds.indexOf(i === 0 ? 'task' : 'user'))), 1);
  const begin = 1e9, span = (more.seconds ?? 10) * 1e9;
  const head = {
    sidecar: {
      id: '7', host: 'web3', kernel: '6.1.0', trigger: 'manual', reason: 'why', requests: [],
      window: { begin_ns: begin, end_ns: begin + span, begin: '2026-11-20T03:12:00.250Z', end: '2026-11-20T03:12:10.250Z' },
      common_window: { begin_ns: begin, end_ns: begin + span }, holes: [], rings: [], ...more.sidecar,
    },
    notes: [], event: 0, events: [{ name: more.event ?? 'cpu-clock', root: 1, frequency: 99, clock: !more.event }],
    objects: { name: ['', 'a'], build: ['', more.build ?? 'aa'] }, frames,
    threads: { known: [true, true], pid: [10, 11], tid: [10, 11], process: ['server', 'other'], unit: ['web.service', ''] },
    sched: more.sched ? more.sched.head : null, nodes: nodes.length, samples: sorted.length,
  };
  const columns = [
    ...nodes.slice(1).map(([parent], i) => i + 1 - parent), ...nodes.slice(1).map(([, frame]) => frame),
    ...sorted.map(({ at }, i) => (i === 0 ? (at < 0 ? -at * 2e6 - 1 : at * 2e6) : Math.round((at - sorted[i - 1].at) * 1e6))),
    ...sorted.map(({ node }) => node), ...sorted.map(({ thread }) => thread), ...sorted.map(({ cpu }) => cpu),
    ...sorted.map(({ weight }) => weight), ...(more.sched?.columns ?? []),
  ];
  return { head, columns };
}

// `edit`: of the head's text.
export function packed(sides, edit = (text) => text) {
  const head = Buffer.from(`${edit(JSON.stringify({ format: 2, sides: sides.map((side) => side.head) }))}\n`);
  return gzipSync(Buffer.concat([head, ...sides.map((side) => Buffer.from(side.columns.flatMap(varint)))])).toString('base64');
}
export async function made(...sides) {
  return decode((await unpack(packed(sides))).bytes);
}

// `count` samples, evenly from one ms to another.
export function burn(stack, from, to, count, more = {}) {
  return Array.from({ length: count }, (_, i) => ({ at: from + ((to - from) * (i + 0.5)) / count, stack, ...more }));
}
