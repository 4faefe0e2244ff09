// SPDX-License-Identifier: Apache-2.0
// Scheduling: what the payload has, what the page says of it, and the stretches off the CPUs as events.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { coverageOf } from '../src/coverage.js';
import { colorOf, rowsOf, stretchAt } from '../src/lanes.js';
import { stackAt, switchAt } from '../src/sched.js';
import { FrameKeys, Tree, weigh } from '../src/tree.js';
import { stretchText, threadName, worstWaits } from '../src/waits.js';
import { made, madeSide } from './made.mjs';

const ms = (number) => number * 1e6;
const none = [0, 0, 0, 0, 0, 0];

// `ran`: [cpu, begin, end, thread], by CPU and time; `off`: [begin, end, thread, state], by their begin; in ms.
function madeSched({ ran = [], off = [], ...more } = {}) {
  const columns = ran.map(([cpu]) => cpu);
  let end = 0, before = 0;
  ran.forEach(([cpu, from, until, thread], i) => {
    if (i === 0 || ran[i - 1][0] !== cpu) end = ms(8000);
    columns.push(ms(from) - end, ms(until - from), thread);
    end = ms(until);
  });
  for (const [from, until, thread, state] of off) {
    columns.push(ms(from) - before, ms(until - from), thread, state);
    before = ms(from);
  }
  const head = {
    begin: 0, end: ms(10_000), switches: 4, wakeups: 'all', stacks: true, notes: [], more_blocked: 0, lane_step: ms(100),
    blocked_lane: [0, 1], cpus: [[0, ms(6000), ms(4000), 0]], lanes_begin: ms(8000),
    threads: { name: ['[unknown]', 'io', 'busy'], tid: [0, 10, 11], pid: [0, 10, 11] }, rows: [], blocked: [],
    ran: ran.length, off: off.length, ...more,
  };
  return { head, columns };
}
const switches = [
  { at: 3, stack: 'io;main;write_log;sys_fsync;io_schedule;schedule;__schedule', thread: 0, weight: 1 },
  { at: 3, stack: 'busy;main;spin', thread: 1, weight: 1 },
  { at: 500, stack: 'io;main;write_log;sys_fsync;io_schedule;schedule;__schedule', thread: 0, weight: 1 },
  { at: 700, stack: 'io;_start;__libc_start_call_main;main;wait', thread: 0, weight: 1 },
];
const withSched = (sched) => made(madeSide(switches, { event: 'sched:sched_switch', sched: madeSched(sched) }));

test('lanes and stretches are those of the payload', async () => {
  const [side] = await withSched({ ran: [[0, 8000, 8010, 1], [0, 8010.5, 9000, 2], [3, 8100, 8200, 0]],
                                   off: [[3, 63, 1, 1 + 4], [500, 501, 1, 0], [700, 10_000, 1, 2 + 8]] });
  const { ran, off } = side.sched;
  assert.deepEqual([...ran.cpu], [0, 0, 3]);
  assert.deepEqual([...ran.begin], [8000, 8010.5, 8100].map(ms));
  assert.deepEqual([...ran.end], [8010, 9000, 8200].map(ms));
  assert.deepEqual([...ran.thread], [1, 2, 0]);
  assert.deepEqual([...off.begin], [3, 500, 700].map(ms));
  assert.deepEqual([...off.end], [63, 501, 10_000].map(ms));
  assert.deepEqual([[...off.state], [...off.unsure], [...off.goesOn]], [[1, 0, 2], [1, 0, 0], [0, 0, 1]]);
  const rows = rowsOf(ran);
  assert.deepEqual(rows, { cpus: [0, 3], of: [[0, 2], [2, 3]] });
  assert.equal(stretchAt(ran, [0, 2], ms(8005)), 0);
  assert.equal(stretchAt(ran, [0, 2], ms(8010.2)), -1, 'idle');
  assert.equal(stretchAt(ran, [0, 2], ms(8010.2), true), 0);
  assert.equal(stretchAt(ran, [2, 3], ms(8000), true), -1);
  assert.match(stretchText(side, 1, true), /^CPU 0, 03:12:08\.260500: busy \(11\) ran for 990 ms$/);
  assert.match(stretchText(side, 2, true), /not known/);
  assert.equal(colorOf('nginx'), colorOf('nginx'));
});

test('a stretch off the CPUs counts where it is, with the stack that led to it', async () => {
  const [side] = await withSched({ off: [[3, 63, 1, 1], [500, 501, 1, 0]] });
  assert.deepEqual(side.events.map(({ name }) => name),
    ['sched:sched_switch', 'blocked (state D), from 1 ms on', 'waits for a CPU, from 1 ms on']);
  assert.ok([...side.samples.time].every((time, i) => i === 0 || side.samples.time[i - 1] <= time));
  const keys = new FrameKeys([side]);
  const treeOf = (event, begin = 0, end = side.end) => {
    const tree = new Tree(keys), query = { event, begin, end };
    tree.add(weigh(side, coverageOf(side, side.events[event].of ?? event), query, side.events[event].clock), 0, 'now');
    return tree.finish();
  };
  const blocked = treeOf(1);
  assert.ok(Math.abs(blocked.now[0] - 0.006) < 1e-9, '60 ms of 10 s');
  assert.ok(Math.abs(treeOf(1, ms(20), ms(60)).now[0] - 1) < 0.1, 'it is one thread while it is blocked');
  let deepest = 0;
  for (let id = 1; id < blocked.size; ++id) if (blocked.path(id).length > blocked.path(deepest).length) deepest = id;
  assert.deepEqual(blocked.path(deepest).map((frame) => keys.frames[frame].name),
    ['io', 'main', 'write_log', 'sys_fsync', 'io_schedule', 'schedule', '__schedule']);
  assert.equal(treeOf(2).nowSamples[0], 1);
  assert.equal(treeOf(0).nowSamples[0], 4, 'the switches are what they were');
});

test('idle threads are not there, and nothing is invented', async () => {
  const names = async (sched) => (await withSched(sched))[0].events.map(({ name }) => name);
  assert.deepEqual(await names({ off: [[700, 2000, 1, 2]] }), ['sched:sched_switch'], 'more than a second');
  assert.equal((await names({ off: [[700, 900, 1, 2]] })).length, 2);
  assert.deepEqual(await names({ off: [[3, 63, 1, 1]], stacks: false }), ['sched:sched_switch']);
  assert.deepEqual(await names({ off: [[4, 63, 1, 1]] }), ['sched:sched_switch'], 'no switch at that time');
  const [without] = await made(madeSide(switches));
  assert.equal(without.sched, null);
  assert.deepEqual(worstWaits(without, true), []);
});

test('many long stretches are in larger pieces, and have the same sum', async () => {
  const many = Array.from({ length: 4 }, (_, i) => ({ ...switches[0], at: i }));
  const off = many.map(({ at }) => [at, at + 3_000_000, 1, 1]);
  const [side] = await made(madeSide(many, { event: 'sched:sched_switch', sched: madeSched({ off }) }));
  const weights = [...side.samples.weight].slice(4);
  assert.ok(side.samples.time.length - 4 <= 100_000);
  const of = [...side.samples.node].map((node) => side.eventOf[node]);
  const sum = [...side.samples.weight].reduce((all, weight, i) => all + (of[i] === 1 ? weight : 0), 0);
  assert.equal(sum, ms(4 * 3_000_000));
  assert.ok(weights.length > 1000);
});

test('the head of the page has the worst waits', async () => {
  const rows = [{ thread: 2, run: [3, ms(4000), ms(2000), ms(10), 0, 0], waited: [2, ms(900), ms(600), ms(4000), 1, 0], blocked: none,
                  slept: none, instead: [[1, ms(700)]] }];
  const blocked = [{ thread: 1, run: none, waited: none, blocked: [3, ms(2310), ms(1200), ms(3), 0, 1], slept: none, instead: [] }];
  const [side] = await withSched({ rows, blocked, more_blocked: 2 });
  assert.deepEqual(worstWaits(side, true), [
    'Blocked (state D): io (10), about 2.31 s in 3 times, at most 1.20 s from 03:12:00.25 on, in main > write_log > sys_fsync; and 2 other threads.',
    'Waited for a CPU: busy (11), 900 ms in 2 times, at most 600 ms from 03:12:04.25 on, and it went on; meanwhile ran io (10) 700 ms.',
  ]);
  const two = await withSched({ rows: [], blocked: [blocked[0], { ...blocked[0], thread: 2 }, { ...blocked[0], thread: 2 }] });
  assert.deepEqual(worstWaits(two[0], true).map((text) => text.slice(0, 26)), ['Blocked (state D): io (10)', 'Blocked (state D): busy (1']);
  assert.match(worstWaits(two[0], true)[1], /; and 1 other thread\.$/);
  const small = [{ ...rows[0], waited: [9, ms(90), ms(10), ms(4000), 0, 0] }];
  assert.deepEqual(worstWaits((await withSched({ rows: small }))[0], true), [], 'a short one is no news');
});

test('the scheduler\'s own functions are no place', async () => {
  const [side] = await withSched({});
  assert.deepEqual(stackAt(side, 10, ms(3)), ['main', 'write_log', 'sys_fsync']);
  assert.deepEqual(stackAt(side, 11, ms(3)), ['main', 'spin'], 'of the same time, by its thread');
  assert.deepEqual(stackAt(side, 10, ms(700)), ['main', 'wait'], 'nor what begins each program');
  assert.deepEqual(stackAt(side, 10, ms(4)), []);
  assert.equal(switchAt(side, 11, ms(500)), -1);
  assert.equal(threadName({ threads: { name: ['?', 'a'], tid: [0, 7], pid: [0, 5] } }, 1), 'a (7 of 5)');
});
