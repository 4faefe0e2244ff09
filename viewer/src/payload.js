// SPDX-License-Identifier: Apache-2.0
// Reads the payload that libcore/export/page_payload.cpp writes: gzip of one line of JSON, and behind it columns of
// numbers, each a LEB128 varint. Names have been made printable by the writer; texts of the sidecar have not.

import { Columns } from './columns.js';
import { addOffEvents, readSched } from './sched.js';

// What a terminal or a browser could take for more than a character: as printable() in libcore/base/text.hpp.
const misleading = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;
export const printable = (text) => text.replace(misleading, '?');

function cleaned(value) {
  if (typeof value === 'string') return printable(value);
  if (Array.isArray(value)) return value.map(cleaned);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [printable(key), cleaned(item)]));
}

const kPieceChars = 1 << 20;  // a multiple of 4: each piece is whole

function bytesOfBase64(text) {
  const pieces = [];
  for (let at = 0; at < text.length; at += kPieceChars) {
    const chars = atob(text.slice(at, at + kPieceChars));
    const bytes = new Uint8Array(chars.length);
    for (let i = 0; i < chars.length; ++i) bytes[i] = chars.charCodeAt(i);
    pieces.push(bytes);
  }
  return new Blob(pieces);
}

// The gzip file, and what is in it.
export async function unpack(base64) {
  const packed = bytesOfBase64(base64.trim());
  const stream = packed.stream().pipeThrough(new DecompressionStream('gzip'));
  return { packed, bytes: new Uint8Array(await new Response(stream).arrayBuffer()) };
}

export const kKinds = ['root', 'others', 'task', 'kernel', 'user', 'jit', 'unknown'];

// For each node its kind, the event it is of, and the task above it.
function ofNodes(side) {
  const { parent, frame } = side.nodes;
  side.nodes.kind = Uint8Array.from(frame, (number) => side.frames.kind[number]);
  side.eventOf = new Int32Array(parent.length).fill(-1);
  side.taskOf = new Uint32Array(parent.length);
  side.events.forEach((event, i) => { side.eventOf[event.root] = i; });
  for (let i = 1; i < parent.length; ++i) {
    if (side.kindOf(frame[i]) === 'root') continue;
    side.eventOf[i] = side.eventOf[parent[i]];
    side.taskOf[i] = side.kindOf(frame[i]) === 'task' ? frame[i] : side.taskOf[parent[i]];
  }
}

function readSide(head, columns) {
  const side = { ...head, events: [...head.events], sidecar: cleaned(head.sidecar), notes: head.notes.map(printable) };
  side.kindOf = (frame) => kKinds[head.frames.kind[frame]];
  const parent = new Uint32Array(head.nodes), frame = new Uint32Array(head.nodes);
  for (let i = 1; i < head.nodes; ++i) parent[i] = i - columns.next();
  for (let i = 1; i < head.nodes; ++i) frame[i] = columns.next();
  side.nodes = { parent, frame, kind: null };
  const time = new Float64Array(head.samples);  // ns since the window's begin, ascending
  let at = 0;
  for (let i = 0; i < head.samples; ++i) {
    const step = columns.next();
    at += i > 0 ? step : step % 2 === 0 ? step / 2 : -(step + 1) / 2;
    time[i] = at;
  }
  side.samples = {
    time,
    node: columns.column(head.samples, Uint32Array),
    thread: columns.column(head.samples, Uint32Array),
    cpu: columns.column(head.samples, Uint32Array),
    weight: columns.column(head.samples, Float64Array),
  };
  side.begin = 0;
  side.end = Math.max(0, side.sidecar.window.end_ns - side.sidecar.window.begin_ns);
  side.wallBegin = Date.parse(side.sidecar.window.begin) || 0;  // in ms
  side.sched = readSched(head.sched, columns);
  ofNodes(side);
  if (addOffEvents(side)) ofNodes(side);
  return side;
}

// The head up to the first snapshot's sidecar, which page_payload.cpp writes first.
const kBeforeSidecar = '{"format":2,"sides":[{"sidecar":';

// That sidecar byte for byte, to be saved: JSON.parse() rounds integers above 2^53, and cleaned() replaces characters.
// The head is valid JSON; no byte of another character is a bracket or a quote in UTF-8.
function sidecarBytes(head) {
  const begin = kBeforeSidecar.length;
  let at = begin, depth = 0, quoted = false;
  do {
    const char = String.fromCharCode(head[at++]);
    if (char === '"') quoted = !quoted;
    else if (quoted && char === '\\') ++at;
    else if (!quoted && (char === '{' || char === '[')) ++depth;
    else if (!quoted && (char === '}' || char === ']')) --depth;
  } while (depth > 0 && at < head.length);
  return head.slice(begin, at);
}

// The snapshot, and the one that it is compared with, if there is one.
export function decode(bytes) {
  const end = bytes.indexOf(10);
  if (end < 0) throw new Error('the payload has no head');
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(0, end)));
  if (head.format !== 2) throw new Error(`the payload has the format ${head.format}, not 2`);
  const columns = new Columns(bytes, end + 1);
  const sides = head.sides.map((side) => readSide(side, columns));
  sides[0].sidecarBytes = sidecarBytes(bytes.subarray(0, end));
  return sides;
}
