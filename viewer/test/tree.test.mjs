// SPDX-License-Identifier: Apache-2.0
// The sums of the tree are those of the payload, whatever is selected and however it is turned.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { coverageOf } from '../src/coverage.js';
import { drawnFrames } from '../src/drawn.js';
import { folded } from '../src/folded.js';
import { FrameKeys, pick, Tree, weigh } from '../src/tree.js';
import { burn, made, madeSide, packed } from './made.mjs';
import { decode, printable, unpack } from '../src/payload.js';

const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-9, `${a} is not ${b}`);

// A pseudo-random load, always the same: recursion, threads, CPUs.
function load(count = 3000) {
  let state = 12345;
  const random = (most) => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return Math.floor((state / 2147483648) * most);
  };
  return Array.from({ length: count }, (_, i) => ({
    at: i * (10000 / count),
    stack: ['t' + random(3), 'main', ...Array.from({ length: random(12) }, () => 'f' + random(9))].join(';'),
    cpu: random(4), thread: random(2), weight: 5e6 + random(10e6),
  }));
}
function treeOf(sides, query, { inCpus = true, base = null, ...how } = {}) {
  const tree = new Tree(new FrameKeys(sides));
  const add = (side, part, stretch) =>
    tree.add(weigh(sides[side], coverageOf(sides[side], part.event), part, inCpus), side, stretch, how);
  add(0, query, 'now');
  if (base) add(sides.length - 1, base, 'before');
  return tree.finish();
}
const all = (side) => ({ event: 0, begin: 0, end: side.end });

test('sums equal those of the payload', async () => {
  const [side] = await made(madeSide(load()));
  const total = side.samples.weight.reduce((sum, weight) => sum + weight, 0);
  for (const groupBy of ['name', 'thread', 'process', 'unit', 'cpu', 'nothing'])
    for (const inverted of [false, true]) {
      const tree = treeOf([side], all(side), { groupBy, inverted });
      assert.equal(tree.nowSamples[0], 3000, groupBy);
      near(tree.now[0], total / side.end);
      assert.equal(tree.self.nowSamples.reduce((a, b) => a + b, 0), 3000);
      near(treeOf([side], all(side), { groupBy, inverted, inCpus: false }).now[0], 1);
    }
});

test('each function has the same value straight and inverted', async () => {
  const [side] = await made(madeSide(load()));
  const straight = treeOf([side], all(side)), inverted = treeOf([side], all(side), { inverted: true });
  const own = new Map();
  for (let id = 1; id < straight.size; ++id)
    own.set(straight.frame[id], (own.get(straight.frame[id]) ?? 0) + straight.self.nowSamples[id]);
  for (let id = 1; id < inverted.size; ++id)
    if (inverted.parent[id] === 0) assert.equal(inverted.nowSamples[id], own.get(inverted.frame[id]));
});

test('a selection has the samples of its time, CPU, thread, unit and name', async () => {
  const [side] = await made(madeSide(load()));
  const { time, cpu, thread, node } = side.samples;
  const count = (wanted) => time.reduce((sum, _, i) => sum + (wanted(i) ? 1 : 0), 0);
  const picked = (query) => pick(side, { ...all(side), ...query }).length;
  assert.equal(picked({ begin: 1e9, end: 2e9 }), count((i) => time[i] >= 1e9 && time[i] < 2e9));
  assert.equal(picked({ cpu: 3 }), count((i) => cpu[i] === 3));
  assert.equal(picked({ thread: 1 }), count((i) => thread[i] === 1));
  assert.equal(picked({ unit: 'web.service' }), count((i) => thread[i] === 0));
  assert.equal(picked({ comm: 't2' }), count((i) => side.frames.name[side.taskOf[node[i]]] === 't2'));
  assert.equal(picked({ begin: 0, end: 5e9 }) + picked({ begin: 5e9, end: 10e9 }), 3000);
});

test('CPUs are by the time that the ring has', async () => {
  const rings = [0, 1].map((cpu) => ({ channel: 'stacks', cpu, records: 600, samples: 600, lost: 0,
    oldest_ns: 1e9 + (cpu === 1 ? 5e9 : 0), newest_ns: 11e9 }));
  const common = { begin_ns: 6e9, end_ns: 11e9 };
  const holes = [{ channel: 'stacks', cpu: 0, begin_ns: 2e9, end_ns: 4e9, lost: 9 }];
  // Of each CPU one half of the time that is recorded: 8 s and 5 s.
  const samples = [...burn('t;a', 3000, 10000, 400), ...burn('t;b', 5000, 10000, 250, { cpu: 1 })];
  const [side] = await made(madeSide(samples, { sidecar: { rings, common_window: common, holes } }));
  const tree = treeOf([side], all(side));
  near(tree.now[0], 1);
  const later = treeOf([side], { event: 0, begin: 5e9, end: 10e9 });
  near(later.now[0], pick(side, { event: 0, begin: 5e9, end: 10e9 }).length * 10e6 / 5e9);
});

test('an idle CPU has all of the time', async () => {
  const rings = [0, 1].map((cpu) => ({ channel: 'stacks', cpu, records: 600, samples: 600, lost: 0,
    oldest_ns: cpu === 1 ? 9e9 : 1e9, newest_ns: 11e9 }));
  const [side] = await made(madeSide(burn('t;a', 8500, 9500, 100, { cpu: 1 }), { sidecar: { rings } }));
  assert.equal(coverageOf(side, 0).missing.size, 0);
  near(treeOf([side], all(side)).now[0], 0.1);
});

test('the channel of an event is the one that has its samples', async () => {
  const ring = (channel, samples) => ({ channel, cpu: 0, records: samples, samples, lost: 0, oldest_ns: 1e9, newest_ns: 11e9 });
  const of = async (rings) => coverageOf((await made(madeSide(burn('t;a', 0, 9000, 100), { sidecar: { rings } })))[0], 0).channel;
  assert.equal(await of([ring('sched', 5000), ring('stacks', 100)]), 'stacks');
  assert.equal(await of([ring('sched', 50), ring('stacks', 100)]), 'stacks');
  assert.equal(await of([]), null);
});

test('two snapshots: functions by their names, places by their builds', async () => {
  const now = madeSide([...burn('t;main;f', 0, 9000, 300), ...burn('t;a+0x10', 0, 9000, 10)], { build: 'aa' });
  const before = madeSide([...burn('t;new;main', 0, 19000, 5), ...burn('t;main;f', 0, 19000, 100), ...burn('t;a+0x10', 0, 9000, 10)],
    { build: 'bb', seconds: 20 });
  const sides = await made(now, before);
  const tree = treeOf(sides, all(sides[0]), { base: all(sides[1]) });
  const keys = tree.keys.frames, find = (path) => {
    const names = path.split(';');
    return [...Array(tree.size).keys()].filter((id) => tree.path(id).map((frame) => keys[frame].name).join(';') === names.join(';'));
  };
  const [f] = find('t;main;f');
  near(tree.now[f], 0.3);
  near(tree.before[f], 0.05);
  assert.equal(find('t;a+0x10').length, 2);
});

test('the widest frames are drawn, the others are counted', async () => {
  const [side] = await made(madeSide(load()));
  const tree = treeOf([side], all(side));
  for (const most of [1, 2, 50, 1000, 1e6]) {
    const { root, drawn, hidden } = drawnFrames(tree, 0, 'now', most);
    assert.equal(drawn, Math.min(most, tree.size));
    assert.equal(hidden, tree.size - drawn);
    let count = 0, least = Infinity;
    for (const stack = [root]; stack.length > 0;) {
      const node = stack.pop();
      ++count;
      least = Math.min(least, node.value);
      assert.ok(node.children.reduce((sum, child) => sum + child.value, 0) <= node.value + 1e-9);
      stack.push(...node.children);
    }
    assert.equal(count, drawn);
    const wider = [...Array(tree.size).keys()].filter((id) => tree.now[id] > least + 1e-12).length;
    assert.ok(wider <= drawn, 'no wider frame is hidden');
  }
});

test('a zoom has its own frames, below its callers', async () => {
  const [side] = await made(madeSide(load()));
  const tree = treeOf([side], all(side));
  const zoom = [...Array(tree.size).keys()].find((id) => tree.path(id).length === 3 && tree.nowSamples[id] > 30);
  const { root, drawn, hidden } = drawnFrames(tree, zoom, 'now', 20);
  assert.equal(drawn, 20);
  let at = root;
  for (let depth = 0; depth < 3; ++depth) {
    assert.equal(at.children.length, 1);
    assert.equal(at.value, tree.now[zoom]);
    [at] = at.children;
  }
  assert.equal(at.id, zoom);
  assert.ok(hidden > 0);
  assert.equal(tree.find(tree.path(zoom)), zoom);
});

test('folded stacks have each sample', async () => {
  const [side] = await made(madeSide([...burn('a;b;c', 0, 100, 3), ...burn('x;y', 0, 100, 2), { at: 7, stack: 'semi:colon' }]));
  assert.deepEqual(folded(treeOf([side], all(side))).trim().split('\n').sort(), ['a;b;c 3', 'semi:colon 1', 'x;y 2']);
});

test('an empty profile, a profile before its window, and a cut one', async () => {
  const [empty] = await made(madeSide([]));
  assert.equal(treeOf([empty], all(empty)).nowSamples[0], 0);
  assert.equal(drawnFrames(treeOf([empty], all(empty)), 0).drawn, 1);
  const [early] = await made(madeSide([{ at: -3, stack: 'a;b' }, { at: 2, stack: 'a;b' }]));
  assert.deepEqual([...early.samples.time], [-3e6, 2e6]);
  const { bytes } = await unpack(packed([madeSide(burn('a;b', 0, 9, 50))]));
  assert.throws(() => decode(bytes.subarray(0, bytes.length - 1)), /cut off/);
  await assert.rejects(unpack('AAAA'));
});

test('texts of the sidecar are made printable', async () => {
  const reason = 'a\u001b[2J\u202e\u200b</script>ä';
  const [side] = await made(madeSide([], { sidecar: { reason, warnings: [reason] } }));
  assert.equal(side.sidecar.reason, 'a?[2J??</script>ä');
  assert.equal(side.sidecar.warnings[0], printable(reason));
});

test('the sidecar can be saved byte for byte', async () => {
  const reason = 'a\u202e"\\"}]{[ä\\';
  const now = madeSide(burn('a;b', 0, 9, 50), { sidecar: { reason, requests: [{ unit: reason }], big: [1] } }), before = madeSide([]);
  const big = (text) => text.replace('"big":[1]', '"big":[9007199254740993]');  // 2^53 + 1
  const sides = decode((await unpack(packed([now, before], big))).bytes);
  assert.equal(new TextDecoder().decode(sides[0].sidecarBytes), big(JSON.stringify(now.head.sidecar)));
  assert.equal(sides[0].sidecar.reason, printable(reason));
  assert.equal(sides[0].samples.time.length, 50);
});
