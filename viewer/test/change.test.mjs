// SPDX-License-Identifier: Apache-2.0
// Now against before, and the cells of the heat map.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { busiestStretch, functions, isNoise, momentOf, paths, verdict } from '../src/change.js';
import { coverageOf } from '../src/coverage.js';
import { clockTime } from '../src/format.js';
import { heatCells, stretchOf } from '../src/heat.js';
import { HeatMap } from '../src/heatmap.js';
import { FrameKeys, Tree, weigh } from '../src/tree.js';
import { burn, made, madeSide } from './made.mjs';

const near = (a, b, by = 1e-9) => assert.ok(Math.abs(a - b) <= by, `${a} is not ${b}`);

function compared(side, now, before) {
  const tree = new Tree(new FrameKeys([side])), coverage = coverageOf(side, 0);
  for (const [name, [begin, end]] of [['now', now], ['before', before]])
    tree.add(weigh(side, coverage, { event: 0, begin, end }, true), 0, name);
  return tree.finish();
}
const nodeOf = (tree, name) => [...Array(tree.size).keys()].find((id) => tree.frameOf(id).name === name);

test('one CPU more is 1.00 more, whatever the durations', async () => {
  // 100 samples a second of a CPU: a base load of 1 for 10 s, and one more for the last 2 s.
  const [side] = await made(madeSide([...burn('t;base', 0, 10000, 1000), ...burn('t;more', 8000, 10000, 200, { cpu: 1 })]));
  const tree = compared(side, [8e9, 10e9], [0, 8e9]);
  near(tree.now[0] - tree.before[0], 1, 0.05);
  assert.equal(verdict(tree, nodeOf(tree, 'more')), 'new');
  assert.equal(verdict(tree, nodeOf(tree, 'base')), 'noise');
  assert.deepEqual(functions(tree, true).map((row) => tree.keys.frames[row.frame].name), ['more']);
  const back = compared(side, [0, 8e9], [8e9, 10e9]);
  assert.equal(verdict(back, nodeOf(back, 'more')), 'gone');
});

test('the same load is noise', async () => {
  let state = 99, coloured = 0;
  const random = () => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648;
  for (let round = 0; round < 10; ++round) {
    const samples = Array.from({ length: 2000 }, () => ({ at: random() * 10000, stack: `t;main;f${Math.floor(random() * 40)}` }));
    const [side] = await made(madeSide(samples));
    const tree = compared(side, [7e9, 10e9], [0, 7e9]);
    for (let id = 0; id < tree.size; ++id) coloured += verdict(tree, id) === 'noise' ? 0 : 1;
  }
  assert.ok(coloured <= 1, `${coloured} frames are coloured`);
});

test('the limits of noise are those of flightctl stacks', () => {
  assert.ok(isNoise(0.0199, 0, 0, 0) && !isNoise(0.0201, 0, 0, 0));
  // 100 and 160 samples in a second each, of 1/100 CPU: 4 deviations are 0.645.
  const variance = (n) => n / 1e4;
  assert.ok(isNoise(1.6, 1, variance(160), variance(100)));
  assert.ok(!isNoise(1.7, 1, variance(170), variance(100)));
});

test('a burst of 50 ms is in its cells, and is found', async () => {
  const burst = burn('t;main;burst', 4100, 4150, 50, { weight: 1e6 });
  const [side] = await made(madeSide([...burn('t;main;base', 0, 10000, 1000), ...burst]));
  const coverage = coverageOf(side, 0);
  for (const byCpu of [false, true]) {
    const heat = heatCells(side, coverage, 0, { byCpu });
    near(heat.value.reduce((a, b) => a + b, 0) * heat.cellNs, 10e9 + 50e6, 1);
    const hottest = heat.value.indexOf(heat.most), [begin, end] = heat.timeOf(hottest);
    assert.ok(begin >= 4.08e9 && end <= 4.17e9, `${begin}`);
    assert.equal(heat.cellOf((begin + end) / 2, 0), hottest);
  }
  const keys = new FrameKeys([side]);
  const frame = keys.frames.findIndex(({ name }) => name === 'burst');
  assert.deepEqual(momentOf(side, keys.ofSide[0], frame, 0), { begin: 4.1e9, end: 4.2e9, lasts: false });
});

test('time that is spread over many functions is found in its thread', async () => {
  const spread = burn('spread;main', 8000, 10000, 200, { cpu: 1 }).map((sample, i) => ({ ...sample, stack: `${sample.stack};f${i % 97}` }));
  const [side] = await made(madeSide([...burn('t;base', 0, 10000, 1000), ...spread]));
  const tree = compared(side, [8e9, 10e9], [0, 8e9]);
  assert.deepEqual(functions(tree, true), []);
  const names = (id) => tree.path(id).map((frame) => tree.keys.frames[frame].name).join(';');
  assert.deepEqual(paths(tree, true).map(({ node }) => names(node)), ['spread;main']);
  assert.deepEqual(paths(tree, false).map(({ node }) => names(node)).sort(), ['spread;main', 't;base']);
  const frame = tree.frame[paths(tree, true)[0].top];
  assert.deepEqual(momentOf(side, tree.keys.ofSide[0], frame, 0, true), { begin: 8e9, end: 10e9, lasts: true });
});

test('a load that is even is busiest at no time', async () => {
  let state = 7;
  const random = () => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648;
  for (let round = 0; round < 20; ++round) {
    const [side] = await made(madeSide(Array.from({ length: 600 }, () => ({ at: random() * 10000, stack: 't;main' }))));
    const keys = new FrameKeys([side]);
    const frame = keys.frames.findIndex(({ name }) => name === 'main');
    assert.equal(momentOf(side, keys.ofSide[0], frame, 0), null);
  }
});

test('a rise that stays is since its begin', () => {
  assert.deepEqual(busiestStretch([1, 1, 1, 5, 5, 5]), [3, 6]);
  assert.deepEqual(busiestStretch([0, 9, 0, 0]), [1, 2]);
  assert.deepEqual(busiestStretch([2, 2, 2]), [0, 0]);
});

test('cells without records are marked, and found samples are counted', async () => {
  const rings = [0, 1].map((cpu) => ({ channel: 'stacks', cpu, records: 600, samples: 600, lost: 0,
    oldest_ns: 1e9 + (cpu === 1 ? 5e9 : 0), newest_ns: 11e9 }));
  const sidecar = { rings, common_window: { begin_ns: 6e9, end_ns: 11e9 } };
  const [side] = await made(madeSide([...burn('t;a', 0, 10000, 500), ...burn('t;b', 5000, 10000, 250, { cpu: 1 })], { sidecar }));
  const matches = Uint8Array.from(side.nodes.frame, (frame) => (side.frames.name[frame] === 'b' ? 1 : 0));
  const heat = heatCells(side, coverageOf(side, 0), 0, { matches });
  near(heat.missing[heat.cellOf(2e9, 0)], 0.5);
  near(heat.missing[heat.cellOf(8e9, 0)], 0);
  near(heat.matched.reduce((a, b) => a + b, 0) * heat.cellNs, 250 * 10e6, 1);
  const byCpu = heatCells(side, coverageOf(side, 0), 0, { byCpu: true });
  near(byCpu.missing[byCpu.cellOf(2e9, 1)], 1);
  near(byCpu.missing[byCpu.cellOf(2e9, 0)], 0);
  const one = heat.cellOf(3e9, 0), other = heat.cellOf(2e9, 0);
  const [from, to] = stretchOf(heat, side, one, other);
  assert.ok(from <= 2e9 && to >= 3e9 && to - from <= 1.04e9);
});

test('columns begin with the seconds of the wall clock', async () => {
  const [side] = await made(madeSide([]));  // from 03:12:00.250
  const heat = heatCells(side, coverageOf(side, 0), 0);
  assert.equal(clockTime(side, heat.timeOf(heat.rows)[0], true), '03:12:01.00');
  assert.equal(clockTime(side, 0, true, 3), '03:12:00.250');
});

test('a drag selects a range, and one that the browser cancels does not', async () => {
  const [side] = await made(madeSide(burn('t;base', 0, 10000, 1000)));
  const listeners = {}, chosen = [];
  const canvas = {
    addEventListener: (type, listener) => { listeners[type] = listener; },
    setPointerCapture: () => {},
    getBoundingClientRect: () => ({ left: 0, top: 0, width: 100, height: 100 }),
  };
  const map = new HeatMap(canvas, (stretch) => chosen.push(stretch), () => {});
  map.draw = () => {};
  map.show(side, heatCells(side, coverageOf(side, 0), 0), [0, side.end], null);
  const send = (type, clientX) => listeners[type]({ button: 0, pointerId: 1, clientX, clientY: 50 });
  send('pointerdown', 30);
  send('pointermove', 60);
  listeners.pointercancel({});
  send('pointermove', 70);
  assert.equal(map.dragged, null);
  send('pointerup', 70);
  assert.deepEqual(chosen, []);
  send('pointerdown', 30);
  send('pointerup', 60);
  assert.equal(chosen.length, 1);
});
