// SPDX-License-Identifier: Apache-2.0
// The flame graph: d3-flame-graph draws the frames of drawn.js. Zooming is done here, as each zoom has its own 1,000
// frames.
import flamegraph from 'd3-flame-graph';
import { select } from 'd3-selection';
import { verdict } from './change.js';
import { color } from './dom.js';
import { drawnFrames } from './drawn.js';

const kCellHeight = 18;
const signs = { grew: '▲ ', shrank: '▼ ', new: '★ ', gone: '✕ ', noise: '' };

export class Flames {
  // `zoom(path)` is called with the keys of frames; `say(tree, id)` with the frame under the mouse or the cursor: it
  // returns the text of the tip.
  constructor(box, tip, zoom, say) {
    Object.assign(this, { box, tip, zoom, say, tree: null, current: -1, pointed: -1 });
    this.chart = null;
    // Before d3-flame-graph's own: it would draw everything twice.
    box.addEventListener('click', (event) => {
      const id = this.idOf(event.target);
      event.stopPropagation();
      if (id >= 0) this.zoom(this.tree.path(id));
    }, true);
    box.addEventListener('mousemove', (event) => this.point(event));
    box.addEventListener('mouseleave', () => { this.tip.hidden = true; });
    box.addEventListener('keydown', (event) => this.key(event));
  }
  idOf(target) {
    const frame = target.closest?.('g.frame');
    return frame ? select(frame).datum().data.id : -1;
  }

  point(event) {
    const id = this.idOf(event.target), { tip } = this;
    tip.hidden = id < 0;
    if (id < 0) return;
    if (id !== this.pointed) tip.textContent = this.say(this.tree, id);
    this.pointed = id;
    const left = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8);
    const below = event.clientY + 20, above = event.clientY - tip.offsetHeight - 12;
    tip.style.setProperty('left', `${Math.max(0, left)}px`);
    tip.style.setProperty('top', `${below + tip.offsetHeight > innerHeight && above > 0 ? above : below}px`);
  }

  show(tree, { path, compared, widths, matches }) {
    this.tree = tree;
    this.zoomed = tree.find(path);
    this.result = drawnFrames(tree, this.zoomed, widths);
    this.current = -1;
    this.pointed = -1;
    this.tip.hidden = true;
    this.styles = this.stylesOf();
    this.paint(this.result.root, compared, matches);
    const width = Math.max(300, this.box.clientWidth - 4);
    if (this.chart === null || this.chart.width() !== width) this.make(width);
    else this.redraw();
    this.mark();
    return this.result;
  }
  // Each frame is made again: d3-flame-graph would move the old ones, step by step.
  redraw() {
    select(this.box).selectAll('g').remove();
    this.chart.update(this.result.root);
  }
  make(width) {
    this.chart?.destroy();
    const none = Object.assign(() => {}, { show() {}, hide() {} });
    this.chart = flamegraph().width(width).cellHeight(kCellHeight).transitionDuration(0).inverted(true).sort(false)
      .resetHeightOnZoom(true).title('').tooltip(none).setColorMapper((node) => node.data.color)
      .getName((node) => node.data.label).getValue((item) => item.value);
    select(this.box).datum(this.result.root).call(this.chart);
  }
  stylesOf() {
    const names = ['kernel', 'user', 'jit', 'unknown', 'task', 'group', 'noise', 'new', 'gone', 'found'];
    for (const change of ['grew', 'shrank']) for (const step of [1, 2, 3]) names.push(`${change}${step}`);
    return Object.fromEntries(names.map((name) => [name, color(name)]));
  }
  // A colour and a label for each frame that is drawn.
  paint(root, compared, matches) {
    const stack = [root];
    while (stack.length > 0) {
      const node = stack.pop();
      const kind = compared ? verdict(this.tree, node.id) : null;
      node.found = matches !== null && matches[this.tree.frame[node.id]] === 1;
      node.color = node.found ? this.styles.found : kind === null ? this.kindColor(node.id) : this.changeColor(node.id, kind);
      node.label = (kind === null ? '' : signs[kind]) + node.name;
      node.change = kind;
      stack.push(...node.children);
    }
  }
  kindColor(id) {
    return this.styles[this.tree.frameOf(id).kind] ?? this.styles.unknown;
  }
  changeColor(id, kind) {
    if (kind !== 'grew' && kind !== 'shrank') return this.styles[kind];
    const now = this.tree.now[id], before = this.tree.before[id];
    const part = Math.abs(now - before) / Math.max(now, before);
    return this.styles[`${kind}${part > 2 / 3 ? 3 : part > 1 / 3 ? 2 : 1}`];
  }
  // For tests and style sheets: what each frame stands for.
  mark() {
    const { tree } = this;
    select(this.box).selectAll('g.frame').each(function (node) {
      const { id, change } = node.data;
      this.dataset.id = id;
      this.dataset.name = node.data.name;
      this.dataset.samples = tree.nowSamples[id];
      this.dataset.samplesBefore = tree.beforeSamples[id];
      this.dataset.now = tree.now[id];
      this.dataset.before = tree.before[id];
      if (change === null) delete this.dataset.change;
      else this.dataset.change = change;
      this.classList.toggle('found', node.data.found);
      this.classList.remove('current');
    });
  }

  // The cursor: down to a callee, up to the caller, left and right to its neighbours.
  key(event) {
    if (!this.result) return;
    const nodes = new Map(), above = new Map();
    const stack = [this.result.root];
    while (stack.length > 0) {
      const node = stack.pop();
      nodes.set(node.id, node);
      for (const child of node.children) {
        above.set(child.id, node);
        stack.push(child);
      }
    }
    const at = nodes.get(this.current) ?? this.result.root, caller = above.get(at.id);
    const beside = (step) => caller?.children[caller.children.indexOf(at) + step];
    const widest = () => at.children.reduce((best, node) => (best && best.value >= node.value ? best : node), undefined);
    let next = null;
    if (event.key === 'ArrowDown') next = this.current < 0 ? at : widest();
    else if (event.key === 'ArrowUp') next = caller;
    else if (event.key === 'ArrowLeft') next = beside(-1);
    else if (event.key === 'ArrowRight') next = beside(1);
    else if (event.key === 'Enter') this.zoom(this.tree.path(at.id));
    else if (event.key === 'Escape' || event.key === 'Backspace') this.zoom(this.tree.path(this.tree.parent[this.zoomed]));
    else return;
    event.preventDefault();
    if (next) this.moveTo(next.id);
  }
  moveTo(id) {
    this.current = id;
    for (const frame of this.box.querySelectorAll('g.frame')) {
      const here = Number(frame.dataset.id) === id;
      frame.classList.toggle('current', here);
      if (here) frame.scrollIntoView({ block: 'nearest' });
    }
    this.say(this.tree, id);
  }
}
