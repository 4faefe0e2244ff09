// SPDX-License-Identifier: Apache-2.0
// The page: what is selected, and what is drawn again when that changes.
import { functions, momentOf, paths, verdict } from './change.js';
import { fillLists, listen } from './controls.js';
import { coverageOf } from './coverage.js';
import { $, element, fill, table } from './dom.js';
import { missingText, showFacts, showMissing, showTop } from './facts.js';
import { Flames } from './flames.js';
import { clockTime, count, cpus, duration, percent } from './format.js';
import { heatCells } from './heat.js';
import { HeatMap } from './heatmap.js';
import { Lanes } from './lanes.js';
import { showMetrics } from './metrics.js';
import { isStartup } from './sched.js';
import { FrameKeys, Tree, weigh } from './tree.js';
import { lanesText, showBlocked, showWaits, stretchText, worstWaits } from './waits.js';

const kRows = 5, kFunctions = 20;

export class Page {
  constructor(sides, packed) {
    Object.assign(this, { sides, packed, side: sides[0], keys: new FrameKeys(sides), coverages: new Map(), moments: new Map() });
    this.state = { event: this.side.event, utc: false, path: [], search: '', groupBy: 'name', inverted: false };
    this.recorded();
    // A firing and another snapshot ask what has changed.
    this.state.diff = this.state.base !== null && (sides.length > 1 || Boolean(this.side.sidecar.fired));
    this.heatMap = new HeatMap($('heat'), (stretch, isBase) => this.choose(stretch, isBase), (cell) => this.sayCell(cell));
    this.flames = new Flames($('flames'), $('tip'), (path) => { this.state.path = path; this.drawFlames(); }, (tree, id) => this.sayFrame(tree, id));
    this.lanes = new Lanes($('lanes'), (stretch) => { $('lanes-cell').textContent = stretchText(this.side, stretch, this.state.utc); },
      () => this.sayLanes());
    listen(this);
    fillLists(this);
    this.draw();
    this.drawHead();
  }

  // What is selected at first: what the snapshot itself compares.
  recorded() {
    const { compared, window, common_window: common } = this.side.sidecar;
    const at = (ns) => Math.min(this.side.end, Math.max(0, ns - window.begin_ns));
    this.state.now = [0, this.side.end];
    this.state.base = null;
    if (this.sides.length > 1) {
      const other = this.sides[1].sidecar;
      this.state.now = [at(common.begin_ns), at(common.end_ns)];
      this.state.base = { side: 1, range: [other.common_window.begin_ns, other.common_window.end_ns].map((ns) => ns - other.window.begin_ns) };
    } else if (compared && compared.now_begin_ns < compared.now_end_ns) {
      this.state.now = [at(compared.now_begin_ns), at(compared.now_end_ns)];
      if (compared.before_begin_ns < compared.now_begin_ns)
        this.state.base = { side: 0, range: [at(compared.before_begin_ns), at(compared.now_begin_ns)] };
    }
    if (this.state.now[1] <= this.state.now[0]) this.state.now = [0, this.side.end];
    if (this.state.base && this.state.base.range[1] <= this.state.base.range[0]) this.state.base = null;
  }

  event() { return this.side.events[this.state.event]; }
  coverage(side, event) {
    // A thread is off the CPUs in the time of the switches.
    const recorded = this.sides[side].events[event]?.of ?? event, key = `${side} ${recorded}`;
    if (!this.coverages.has(key)) this.coverages.set(key, coverageOf(this.sides[side], recorded));
    return this.coverages.get(key);
  }
  inCpus() { return this.event().clock && !$('shares').checked; }
  // Of values in CPUs: threads, where they are off the CPUs.
  unit() { return this.event().unit ?? 'CPUs'; }
  compared() { return this.state.diff && this.state.base !== null; }

  // In the other snapshot the event has another number, and threads are others.
  query(side, range) {
    const event = side === 0 ? this.state.event : this.sides[side].events.findIndex((other) => other.name === this.event().name);
    const number = (text) => (text === '' ? null : Number(text));
    return { event, begin: range[0], end: range[1], unit: $('unit').value, comm: $('comm').value,
             cpu: number($('cpu').value), thread: side === 0 ? number($('thread').value) : null };
  }
  makeTree({ groupBy = 'name', inverted = false, filtered = true } = {}) {
    const tree = new Tree(this.keys), how = { groupBy, inverted };
    const add = (side, range, stretch) => {
      const query = this.query(side, range);
      if (!filtered) Object.assign(query, { unit: '', comm: '', cpu: null, thread: null });
      tree.add(weigh(this.sides[side], this.coverage(side, query.event), query, this.inCpus()), side, stretch, how);
    };
    add(0, this.state.now, 'now');
    if (this.compared()) add(this.state.base.side, this.state.base.range, 'before');
    return tree.finish();
  }

  draw() {
    this.drawHeat();
    this.drawTree();
  }
  drawTree() {
    this.tree = this.makeTree(this.state);
    this.drawFlames();
    this.drawFunctions();
    this.showInputs();
  }
  found() {
    const text = this.state.search.toLowerCase();
    if (text === '') return null;
    return Uint8Array.from(this.keys.frames, ({ name, object }) =>
      (name.toLowerCase().includes(text) || object.toLowerCase().includes(text) ? 1 : 0));
  }
  // Of the side's nodes: those with a found frame in their stack.
  foundNodes(found) {
    const { parent, frame } = this.side.nodes, out = new Uint8Array(parent.length);
    for (let i = 1; i < out.length; ++i)
      out[i] = out[parent[i]] || found[this.keys.ofSide[0][frame[i]]];
    return out;
  }
  drawHeat() {
    const { side, state } = this, found = this.found(), query = this.query(0, [0, side.end]);
    const { node, cpu, thread } = side.samples;
    const all = !query.unit && !query.comm && query.cpu === null && query.thread === null;
    const wanted = all ? null : (i) => (query.cpu === null || cpu[i] === query.cpu) && (query.thread === null || thread[i] === query.thread) &&
      (!query.unit || side.threads.unit[thread[i]] === query.unit) && (!query.comm || side.frames.name[side.taskOf[node[i]]] === query.comm);
    const heat = heatCells(side, this.coverage(0, state.event), state.event,
      { byCpu: $('rows').value === 'cpu', wanted, matches: found && this.foundNodes(found) });
    this.heatMap.show(side, heat, state.now, this.compared() && state.base.side === 0 ? state.base.range : null);
  }
  drawFlames() {
    const found = this.found(), widths = this.compared() && $('gone').checked ? 'before' : 'now';
    const { drawn, hidden } = this.flames.show(this.tree, { path: this.state.path, compared: this.compared(), widths, matches: found });
    const { tree } = this;
    const value = `${this.valueText(tree, 0)}; ${count(tree.nowSamples[0], 'sample')}`;
    const base = this.compared() ? `, compared with ${count(tree.beforeSamples[0], 'sample')} of ${duration(this.state.base.range[1] - this.state.base.range[0])}` : '';
    const time = `${clockTime(this.side, this.state.now[0], this.state.utc)} to ${clockTime(this.side, this.state.now[1], this.state.utc)} (${duration(this.state.now[1] - this.state.now[0])})`;
    $('selection').textContent = `${time}: ${value}${base}. ${count(drawn, 'frame')} drawn, ${hidden.toLocaleString('en-US')} hidden.` +
      missingText(this.coverage(0, this.state.event), this.state.now);
    $('selection').dataset.samples = tree.nowSamples[0];
    $('selection').dataset.hidden = hidden;
    this.drawLegend();
    this.drawFound(found);
  }
  drawFound(found) {
    $('found').textContent = '';
    if (found === null) return;
    const { tree } = this, inside = new Uint8Array(tree.size);
    let value = 0, samples = 0;
    for (let id = 1; id < tree.size; ++id) {
      const here = found[tree.frame[id]];
      inside[id] = inside[tree.parent[id]] || here;
      if (!here || inside[tree.parent[id]]) continue;  // each stack once
      value += tree.now[id];
      samples += tree.nowSamples[id];
    }
    $('found').textContent = `${this.inCpus() ? `${cpus(value)} ${this.unit()}` : percent(value)}, ${count(samples, 'sample')} of this selection`;
    $('found').dataset.samples = samples;
  }
  drawLegend() {
    const key = (name, text) => [element('span', { class: 'key', 'data-color': name }), text];
    const entries = this.compared()
      ? [['grew3', '▲ grew'], ['shrank3', '▼ shrank'], ['new', '★ new'], ['gone', '✕ gone'], ['noise', 'noise']]
      : [['user', 'program'], ['kernel', 'kernel'], ['jit', 'generated code'], ['task', 'thread'], ['unknown', 'unknown']];
    fill($('legend'), ...entries.flatMap(([name, text]) => key(name, text)), ...key('found', 'found'));
    for (const box of $('legend').querySelectorAll('.key')) box.style.setProperty('background', `var(--${box.dataset.color})`);
  }

  amount(value) { return this.inCpus() ? cpus(value) : percent(value); }
  valueText(tree, id) {
    const unit = this.inCpus() ? ` ${this.unit()}` : '';
    if (!this.compared()) return this.amount(tree.now[id]) + unit;
    return `${this.amount(tree.before[id])} → ${this.amount(tree.now[id])}${unit}`;
  }
  sayFrame(tree, id) {
    const { name, object } = tree.frameOf(id);
    const change = this.compared() ? `, ${verdict(tree, id)}` : '';
    const samples = this.compared() ? `${tree.beforeSamples[id]} → ${tree.nowSamples[id]} samples` : count(tree.nowSamples[id], 'sample');
    const said = `${name}${object ? ` (${object})` : ''}: ${this.valueText(tree, id)}${change}; ${samples}; ` +
      `itself ${this.amount(tree.self.now[id])}`;
    $('frame').textContent = said;
    return said;
  }
  sayCell(cell) {
    const { heat } = this.heatMap;
    if (cell < 0 || !heat) {
      $('heat-cell').textContent = '\u00a0';
      return;
    }
    const [begin, end] = heat.timeOf(cell), cpu = heat.cpuOf(cell);
    const amount = this.event().clock ? `${cpus(heat.value[cell])} ${this.unit()}` : count(heat.value[cell], 'sample');
    const missing = heat.missing[cell] > 0 ? `, ${percent(heat.missing[cell])} of it without records` : '';
    $('heat-cell').textContent = `${clockTime(this.side, begin, this.state.utc)} to ${clockTime(this.side, end, this.state.utc, 2)}` +
      `${cpu === null ? '' : `, CPU ${cpu}`}: ${amount}${missing}`;
  }

  // `within`: of stacks with this frame, not only of those that end there. `onlyBefore`: this snapshot does not have it.
  timeText(frame, within, onlyBefore) {
    if (onlyBefore && this.state.base?.side === 1) return '–';
    const key = `${this.state.event} ${frame} ${within}`;
    if (!this.moments.has(key)) this.moments.set(key, momentOf(this.side, this.keys.ofSide[0], frame, this.state.event, within));
    const moment = this.moments.get(key), at = (ns) => clockTime(this.side, ns, this.state.utc, 1);
    if (moment === null) return 'evenly';
    return moment.lasts ? `since ${at(moment.begin)}` : `${at(moment.begin)} to ${at(moment.end)}`;
  }
  pathText(frames) {
    const names = frames.map((frame) => this.keys.frames[frame].name).filter((name, i) => i === 0 || i === frames.length - 1 || !isStartup(name));
    return (names.length > 8 ? [...names.slice(0, 3), '…', ...names.slice(-4)] : names).join(' > ');
  }
  // Functions by what they used themselves. The time is that of the whole window.
  rowsOf(tree, compared, most) {
    return functions(tree, compared).slice(0, most).map((row) => {
      const { name, object } = this.keys.frames[row.frame];
      const amount = compared ? `${this.amount(row.before)} → ${this.amount(row.now)}` : this.amount(row.now);
      return [amount, object ? `${name} (${object})` : name, this.timeText(row.frame, false, row.now === 0),
              this.pathText(tree.path(row.node).slice(0, -1))];
    });
  }
  pathTable(caption, tree, compared) {
    const rows = paths(tree, compared).slice(0, kRows).map(({ top, node }) => [
      compared ? `${this.amount(tree.before[node])} → ${this.amount(tree.now[node])}` : this.amount(tree.now[node]),
      this.timeText(tree.frame[top], true, tree.now[top] === 0), this.pathText(tree.path(node))]);
    return rows.length === 0 ? [] : [table(caption, [this.inCpus() ? this.unit() : 'Share', 'Busiest', 'Where'], rows, [0])];
  }
  functionTable(caption, rows) {
    return table(caption, [this.inCpus() ? this.unit() : 'Share', 'Function', 'Busiest', 'Called by'], rows, [0]);
  }
  // At the top, whatever is chosen below: by thread name, from the callers.
  drawHead() {
    const compare = this.state.base !== null, before = this.state.diff;
    this.state.diff = compare;
    const tree = this.makeTree({ filtered: false });
    const changed = compare ? this.rowsOf(tree, true, kRows) : [];
    const out = compare ? this.pathTable('Threads, before → now', tree, true) : [];
    if (changed.length > 0) out.push(this.functionTable('Functions, before → now', changed));
    $('h-change').textContent = out.length > 0 ? 'What changed' : 'What ran';
    if (compare && out.length === 0) out.push(element('p', {}, 'Nothing changed by more than noise.'));
    this.state.diff = false;
    const ranTree = this.makeTree({ filtered: false }), ran = this.rowsOf(ranTree, false, kRows);
    this.state.diff = before;
    if (ran.length > 0) out.push(this.functionTable('Functions that used most', ran), ...this.pathTable('Threads that used most', ranTree, false));
    else out.push(element('p', {}, 'The snapshot has no samples of this event in this time.'));
    fill($('change'), ...worstWaits(this.side, this.state.utc).map((text) => element('p', { class: 'worst' }, text)), ...out);
    const { sidecar } = this.side;
    $('title').textContent = `Snapshot ${sidecar.id} of ${sidecar.host}: ${sidecar.trigger}`;
    document.title = `${sidecar.host} ${sidecar.id} ${sidecar.trigger}`;
    showFacts($('facts'), this.sides, this.state.utc);
    showMissing($('missing'), this.sides, this.state.utc);
    showTop($('top'), this.side);
    this.drawMetrics();
    this.drawSched();
    const id = /^\d+$/.test(sidecar.id) ? sidecar.id : 'ID';
    $('commands').textContent = `flightctl export ${id} --format firefox   # profiler.firefox.com\nflightctl export ${id} --format pprof     # go tool pprof\n` +
      `flightctl export ${id} --format folded    # speedscope, flamegraph.pl\nflightctl report ${id}                    # perf report`;
  }
  drawMetrics() {
    this.shades = {};
    this.plots = [];
    this.shade();
    this.plots = showMetrics($('metrics'), this.side, $('series').value, this.shades);
    if (this.side.sched) this.plots.push(...showBlocked($('blocked'), this.side, this.shades));
  }
  drawSched() {
    const { sched } = this.side;
    $('sched').hidden = !sched;
    if (!sched) return;
    showWaits($('waits'), this.side, this.state.utc);
    fill($('sched-notes'), ...sched.notes.map((text) => element('li', {}, text)));
    this.drawLanes();
  }
  drawLanes() {
    if (!this.side.sched) return;
    const text = this.state.search.toLowerCase();
    this.lanes.show(this.side.sched, text === '' ? null : (name) => name.toLowerCase().includes(text));
    this.sayLanes();
  }
  sayLanes() { $('lanes-time').textContent = lanesText(this.side, this.lanes.range, this.state.utc); }
  // The selection, in the charts that are there.
  shade() {
    const base = this.compared() && this.state.base.side === 0 ? this.state.base.range : null;
    Object.assign(this.shades, { now: this.state.now, before: base, utc: this.state.utc });
    for (const plot of this.plots) plot.redraw(false, false);
  }
  drawFunctions() {
    const rows = this.rowsOf(this.tree, this.compared(), kFunctions);
    fill($('functions'), rows.length > 0 ? this.functionTable('Of this selection, by what they used themselves', rows)
                                         : element('p', {}, this.compared() ? 'Nothing changed by more than noise.' : 'Nothing ran.'));
  }

  choose(stretch, isBase) {
    if (isBase) {
      this.state.base = { side: 0, range: stretch };
      this.state.diff = true;
    } else {
      this.state.now = stretch;
    }
    this.draw();
    this.shade();
  }
  showInputs() {
    const { now, base, diff } = this.state;
    const seconds = (ns) => (ns / 1e9).toFixed(2);
    $('now-from').value = seconds(now[0]);
    $('now-to').value = seconds(now[1]);
    $('base-from').value = base ? seconds(base.range[0]) : '';
    $('base-to').value = base ? seconds(base.range[1]) : '';
    $('diff').checked = diff && base !== null;
    $('diff').disabled = base === null;
    $('gone').disabled = !this.compared();
    $('shares').disabled = !this.event().clock;
  }
  fileId() { return this.side.sidecar.id.replace(/\D/g, ''); }
  typed(name) {
    const side = name === 'now' ? 0 : this.state.base?.side ?? 0;
    const range = [$(`${name}-from`), $(`${name}-to`)].map((input) => Math.min(this.sides[side].end, Math.max(0, Number(input.value) * 1e9)));
    if (range[1] <= range[0]) return;
    if (name === 'now') {
      this.choose(range, false);
      return;
    }
    this.state.base = { side, range };
    this.state.diff = true;
    this.draw();
    this.shade();
  }
}
