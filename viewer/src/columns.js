// SPDX-License-Identifier: Apache-2.0
// The columns of numbers behind the payload's head.
export class Columns {
  constructor(bytes, at) {
    this.bytes = bytes;
    this.at = at;
  }
  // Exact up to 2^53.
  next() {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      if (this.at >= this.bytes.length) throw new Error('the payload is cut off');
      const byte = this.bytes[this.at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  }
  column(length, Type) {
    const out = new Type(length);
    for (let i = 0; i < length; ++i) out[i] = this.next();
    return out;
  }
}

// Samples in columns, with more of them: {time, node, thread, cpu, weight}, both in the order of time.
export function merge(samples, more) {
  const length = samples.time.length + more.length, out = {};
  const order = new Int32Array(length);  // of `samples` from 0 on, of `more` from -1 down
  let one = 0, other = 0;
  for (let i = 0; i < length; ++i) {
    const first = other === more.length || (one < samples.time.length && samples.time[one] <= more[other].time);
    order[i] = first ? one++ : -1 - other++;
  }
  for (const name of Object.keys(samples)) {
    const from = samples[name], to = new from.constructor(length);
    order.forEach((place, i) => { to[i] = place >= 0 ? from[place] : more[-1 - place][name]; });
    out[name] = to;
  }
  return out;
}
