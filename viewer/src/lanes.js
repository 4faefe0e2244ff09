// SPDX-License-Identifier: Apache-2.0
// The lanes: on each CPU, who ran when. A canvas, with the mouse and the keyboard.
import { color } from './dom.js';

const kRowPixels = 14, kLeastRowPixels = 2, kMostHeight = 560, kGap = 1;
const kColors = ['task', 'user', 'kernel', 'jit', 'group'];

// The same for each thread of this name.
export function colorOf(name) {
  let hash = 0;
  for (let i = 0; i < name.length; ++i) hash = (Math.imul(hash, 31) + name.charCodeAt(i)) | 0;
  return kColors[(hash >>> 0) % kColors.length];
}

// {cpus, of: by CPU the stretches [from, to) of it}
export function rowsOf(ran) {
  const cpus = [], of = [];
  for (let i = 0; i < ran.cpu.length; ++i) {
    if (i === 0 || ran.cpu[i] !== ran.cpu[i - 1]) {
      cpus.push(ran.cpu[i]);
      of.push([i, i]);
    }
    of[of.length - 1][1] = i + 1;
  }
  return { cpus, of };
}

// The stretch of the row that has this time, or -1; `before`: if there is none, the last one before it.
export function stretchAt(ran, [from, to], at, before = false) {
  let low = from, high = to;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ran.begin[middle] <= at) low = middle + 1;
    else high = middle;
  }
  const found = low - 1;
  if (found < from) return -1;
  return before || ran.end[found] > at ? found : -1;
}

export class Lanes {
  // `say(stretch)` is called with the stretch under the mouse or the cursor, or -1; `moved()` when another time is shown.
  constructor(canvas, say, moved) {
    Object.assign(this, { canvas, say, moved, sched: null, cursor: -1 });
    canvas.addEventListener('pointermove', (event) => this.say(this.at(event)));
    canvas.addEventListener('pointerleave', () => this.say(this.cursor));
    canvas.addEventListener('keydown', (event) => this.key(event));
  }

  show(sched, found) {
    if (sched !== this.sched) {
      this.rows = rowsOf(sched.ran);
      this.range = [sched.lanes_begin, sched.end];
    }
    Object.assign(this, { sched, found });
    this.draw();
  }
  // All of the lanes, or so many ns around the cursor, or at the end.
  zoom(ns) {
    const { sched } = this, whole = sched.end - sched.lanes_begin;
    const length = Math.min(whole, ns || whole);
    const middle = this.cursor >= 0 ? (sched.ran.begin[this.cursor] + sched.ran.end[this.cursor]) / 2 : sched.end;
    this.moveTo(middle - length / 2, length);
  }
  pan(part) { this.moveTo(this.range[0] + part * (this.range[1] - this.range[0]), this.range[1] - this.range[0]); }
  moveTo(begin, length) {
    const { sched } = this;
    const from = Math.max(sched.lanes_begin, Math.min(begin, sched.end - length));
    this.range = [from, from + length];
    this.draw();
    this.moved();
  }

  draw() {
    const { canvas, sched, rows } = this;
    const count = Math.max(1, rows.cpus.length);
    this.height = Math.max(kLeastRowPixels, Math.min(kRowPixels, Math.floor(kMostHeight / count)));
    canvas.width = Math.max(200, canvas.parentElement.clientWidth - 2);
    canvas.height = count * this.height;
    const paint = canvas.getContext('2d'), colors = new Map();
    const style = (name) => {
      if (!colors.has(name)) colors.set(name, color(name));
      return colors.get(name);
    };
    paint.fillStyle = style('cold');
    paint.fillRect(0, 0, canvas.width, canvas.height);
    const scale = canvas.width / Math.max(1, this.range[1] - this.range[0]);
    rows.of.forEach(([from, to], row) => {
      for (let i = Math.max(from, stretchAt(sched.ran, [from, to], this.range[0], true)); i < to; ++i) {
        if (sched.ran.begin[i] >= this.range[1]) break;
        const x = (sched.ran.begin[i] - this.range[0]) * scale, width = (sched.ran.end[i] - sched.ran.begin[i]) * scale;
        const thread = sched.ran.thread[i], name = sched.threads.name[thread];
        paint.fillStyle = style(thread === 0 ? 'hatch' : this.found?.(name) ? 'found' : colorOf(name));
        paint.fillRect(x, row * this.height, Math.max(0.5, width), Math.max(1, this.height - kGap));
      }
    });
    if (this.cursor < 0) return;
    const row = rows.cpus.indexOf(sched.ran.cpu[this.cursor]);
    paint.strokeStyle = style('text');
    paint.lineWidth = 2;
    paint.strokeRect((sched.ran.begin[this.cursor] - this.range[0]) * scale, row * this.height + 1,
      Math.max(2, (sched.ran.end[this.cursor] - sched.ran.begin[this.cursor]) * scale), Math.max(2, this.height - 2));
  }

  at(event) {
    if (!this.sched) return -1;
    const box = this.canvas.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * this.rows.cpus.length);
    const time = this.range[0] + ((event.clientX - box.left) / box.width) * (this.range[1] - this.range[0]);
    return this.rows.of[row] ? stretchAt(this.sched.ran, this.rows.of[row], time) : -1;
  }

  // Left and right move to a neighbour on the CPU, up and down to another CPU at the same time.
  key(event) {
    const { sched, rows } = this;
    if (!sched || sched.ran.cpu.length === 0) return;
    const { ran } = sched;
    const row = this.cursor < 0 ? 0 : rows.cpus.indexOf(ran.cpu[this.cursor]);
    const [from, to] = rows.of[row];
    const beside = (step) => {
      const other = rows.of[row + step];
      return other ? Math.max(other[0], stretchAt(ran, other, ran.begin[this.cursor], true)) : this.cursor;
    };
    if (this.cursor < 0 && /^Arrow/.test(event.key)) this.cursor = to - 1;
    else if (event.key === 'ArrowLeft') this.cursor = Math.max(from, this.cursor - 1);
    else if (event.key === 'ArrowRight') this.cursor = Math.min(to - 1, this.cursor + 1);
    else if (event.key === 'ArrowUp') this.cursor = beside(-1);
    else if (event.key === 'ArrowDown') this.cursor = beside(1);
    else if (event.key === '+') this.zoom((this.range[1] - this.range[0]) / 4);
    else if (event.key === '-') this.zoom((this.range[1] - this.range[0]) * 4);
    else return;
    event.preventDefault();
    const { begin, end } = { begin: ran.begin[this.cursor], end: ran.end[this.cursor] };
    const length = this.range[1] - this.range[0];
    if (this.cursor >= 0 && (end <= this.range[0] || begin >= this.range[1])) this.moveTo(begin - length / 2, length);
    else this.draw();
    this.say(this.cursor);
  }
}
