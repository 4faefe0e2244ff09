// SPDX-License-Identifier: Apache-2.0
// The heat map: a canvas, with the mouse and the keyboard. It knows nothing of samples: heat.js makes its cells.
import { color } from './dom.js';
import { stretchOf } from './heat.js';

const kCellPixels = 8, kLeastCellPixels = 1;

export class HeatMap {
  // `choose(stretch, isBaseline)` is called with ns; `say(cell)` with the cell under the mouse or the cursor, or -1.
  constructor(canvas, choose, say) {
    Object.assign(this, { canvas, choose, say, heat: null, cursor: -1, anchor: -1, dragged: null });
    canvas.addEventListener('pointerdown', (event) => this.begin(event));
    canvas.addEventListener('pointermove', (event) => this.move(event));
    canvas.addEventListener('pointerup', (event) => this.end(event));
    canvas.addEventListener('pointercancel', () => this.cancel());
    canvas.addEventListener('pointerleave', () => this.say(-1));
    canvas.addEventListener('keydown', (event) => this.key(event));
  }

  show(side, heat, now, before) {
    Object.assign(this, { side, heat, now, before });
    this.draw();
  }

  draw() {
    const { canvas, heat } = this;
    if (!heat) return;
    const room = Math.max(100, canvas.parentElement.clientWidth - 2);
    this.width = Math.max(kLeastCellPixels, Math.min(heat.byCpu ? 4 : 14, Math.floor(room / heat.columns)));
    this.height = Math.max(kLeastCellPixels, Math.min(kCellPixels * 2, Math.floor((heat.byCpu ? 500 : 300) / heat.rows)));
    canvas.width = this.width * heat.columns;
    canvas.height = this.height * heat.rows;
    const paint = canvas.getContext('2d');
    this.colors = { cold: rgb(color('cold')), hot: rgb(color('hot')), found: rgb(color('found')), hatch: color('hatch') };
    paint.fillStyle = color('cold');
    paint.fillRect(0, 0, canvas.width, canvas.height);
    for (let cell = 0; cell < heat.value.length; ++cell) this.drawCell(paint, cell);
    this.drawStretch(paint, this.before, color('before'));
    this.drawStretch(paint, this.dragged?.stretch ?? this.now, color('now'));
    if (this.cursor >= 0) {
      paint.strokeStyle = color('text');
      paint.strokeRect(...this.place(this.cursor).map((pixel, i) => (i < 2 ? pixel + 0.5 : Math.max(2, pixel - 1))));
    }
  }
  // x, y, width, height
  place(cell) {
    const column = Math.floor(cell / this.heat.rows), row = cell % this.heat.rows;
    return [column * this.width, row * this.height, this.width, this.height];
  }
  drawCell(paint, cell) {
    const { heat, colors } = this;
    const [x, y, width, height] = this.place(cell);
    if (heat.value[cell] > 0) {
      const hot = mixed(colors.cold, colors.hot, Math.sqrt(heat.value[cell] / heat.most));
      const found = heat.matched[cell] / heat.value[cell];
      paint.fillStyle = `rgb(${mixed(hot, colors.found, found > 0 ? 0.35 + 0.65 * found : 0).join(',')})`;
      paint.fillRect(x, y, width, height);
    }
    const outside = heat.timeOf(cell)[1] <= this.side.begin || heat.timeOf(cell)[0] >= this.side.end;
    if (heat.missing[cell] <= 0.01 && !outside) return;
    paint.strokeStyle = colors.hatch;
    paint.globalAlpha = outside ? 0.5 : Math.max(0.3, heat.missing[cell]);
    paint.beginPath();
    paint.moveTo(x, y + height);
    paint.lineTo(x + width, y);
    paint.stroke();
    paint.globalAlpha = 1;
  }
  drawStretch(paint, stretch, style) {
    if (!stretch) return;
    const { heat } = this;
    const inside = (cell) => {
      if (cell < 0 || cell >= heat.value.length) return false;
      const [from, to] = heat.timeOf(cell);
      return (from + to) / 2 >= stretch[0] && (from + to) / 2 <= stretch[1];
    };
    paint.fillStyle = style;
    const step = heat.byCpu ? heat.rows : 1;  // by CPU a whole column is of one time
    for (let cell = 0; cell < heat.value.length; cell += step) {
      if (!inside(cell)) continue;
      const [x, y, width, height] = this.place(cell);
      paint.globalAlpha = 0.18;
      paint.fillRect(x, y, width, height * step);
      paint.globalAlpha = 1;
      // The edges: where a neighbour is outside.
      if (!inside(cell - heat.rows)) paint.fillRect(x, y, 1, height * step);
      if (!inside(cell + heat.rows)) paint.fillRect(x + width - 1, y, 1, height * step);
    }
  }

  cellAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * this.heat.columns);
    const row = Math.floor(((event.clientY - box.top) / box.height) * this.heat.rows);
    const clamp = (value, most) => Math.min(most - 1, Math.max(0, value));
    return clamp(column, this.heat.columns) * this.heat.rows + clamp(row, this.heat.rows);
  }
  begin(event) {
    if (!this.heat || event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    const cell = this.cellAt(event);
    this.dragged = { from: cell, baseline: event.ctrlKey || event.metaKey, stretch: stretchOf(this.heat, this.side, cell, cell) };
  }
  move(event) {
    if (!this.heat) return;
    const cell = this.cellAt(event);
    this.say(cell);
    if (!this.dragged) return;
    this.dragged.stretch = stretchOf(this.heat, this.side, this.dragged.from, cell);
    this.draw();
  }
  end() {
    if (!this.dragged) return;
    const { stretch, baseline } = this.dragged;
    this.dragged = null;
    if (stretch[1] > stretch[0]) this.choose(stretch, baseline);
  }
  // The browser took the pointer away, for a gesture or a dialog: nothing is selected.
  cancel() {
    if (!this.dragged) return;
    this.dragged = null;
    this.draw();
  }

  // Arrows move the cursor; with Shift they extend a range from where it was, which Enter selects (with Ctrl as the
  // baseline).
  key(event) {
    const { heat } = this;
    if (!heat) return;
    const steps = { ArrowLeft: -heat.rows, ArrowRight: heat.rows, ArrowUp: -1, ArrowDown: 1 };
    if (event.key in steps) {
      if (this.cursor < 0) this.cursor = 0;
      if (!event.shiftKey) this.anchor = -1;
      else if (this.anchor < 0) this.anchor = this.cursor;
      const next = this.cursor + steps[event.key];
      if (next >= 0 && next < heat.value.length) this.cursor = next;
      if (this.anchor >= 0) this.dragged = { stretch: stretchOf(heat, this.side, this.anchor, this.cursor) };
      this.say(this.cursor);
      this.draw();
      this.dragged = null;
    } else if (event.key === 'Enter' && this.cursor >= 0) {
      const from = this.anchor >= 0 ? this.anchor : this.cursor;
      const stretch = stretchOf(heat, this.side, from, this.cursor);
      if (stretch[1] > stretch[0]) this.choose(stretch, event.ctrlKey || event.metaKey);
    } else {
      return;
    }
    event.preventDefault();
  }
}

const rgb = (text) => (text.match(/[\d.]+/g) ?? [0, 0, 0]).slice(0, 3).map(Number);
const mixed = (one, other, part) => one.map((value, i) => Math.round(value + (other[i] - value) * part));
