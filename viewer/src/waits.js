// SPDX-License-Identifier: Apache-2.0
// Scheduling as texts: who waited for a CPU, who was blocked, and how many over time, beside the pressure.
import { element, fill, table } from './dom.js';
import { clockTime, count, duration, percent } from './format.js';
import { chartOf } from './metrics.js';
import { stackAt, times } from './sched.js';

// What the head of the page says: from this part of the time on, or from so long a stretch on.
const kMostSaid = 0.05, kLongSaidNs = 200e6, kMostSentences = 2;
const kMostNames = 7;

export function threadName(sched, thread) {
  const { name, tid, pid } = sched.threads;
  if (thread === 0) return name[0];
  return pid[thread] === 0 || pid[thread] === tid[thread] ? `${name[thread]} (${tid[thread]})` : `${name[thread]} (${tid[thread]} of ${pid[thread]})`;
}

const about = ({ unsure }) => (unsure > 0 ? 'about ' : '');
const onwards = ({ goesOn }) => (goesOn ? ', and it went on' : '');

function whereText(side, row, { at }) {
  const stack = stackAt(side, side.sched.threads.tid[row.thread], at);
  const names = stack.length > kMostNames ? [...stack.slice(0, 3), '…', ...stack.slice(-3)] : stack;
  return names.length === 0 ? '' : `, in ${names.join(' > ')}`;
}
const insteadText = (sched, row) =>
  (row.instead.length === 0 ? '' : `; meanwhile ran ${row.instead.map(([thread, ns]) => `${threadName(sched, thread)} ${duration(ns)}`).join(', ')}`);

// Sentences for the top of the page: the threads that were blocked longest, and the one that waited longest for a CPU.
export function worstWaits(side, utc) {
  const { sched } = side, out = [];
  if (!sched) return out;
  const span = Math.max(1, sched.end - sched.begin);
  const worth = (spans) => spans.longest >= kLongSaidNs || spans.total >= kMostSaid * span;
  const when = (spans) => `${about(spans)}${duration(spans.total)} in ${count(spans.count, 'time')}, at most ${duration(spans.longest)} ` +
    `from ${clockTime(side, spans.at, utc)} on${onwards(spans)}`;
  const said = sched.blocked.slice(0, kMostSentences).filter((row) => worth(times(row.blocked))), [waited] = sched.rows;
  const others = sched.blocked.length + sched.more_blocked - said.length;
  said.forEach((row, i) => {
    const spans = times(row.blocked);
    out.push(`Blocked (state D): ${threadName(sched, row.thread)}, ${when(spans)}${whereText(side, row, spans)}` +
      `${i === said.length - 1 && others > 0 ? `; and ${count(others, 'other thread')}` : ''}.`);
  });
  if (waited && worth(times(waited.waited))) {
    const spans = times(waited.waited);
    out.push(`Waited for a CPU: ${threadName(sched, waited.thread)}, ${when(spans)}${insteadText(sched, waited)}.`);
  }
  return out;
}

function waitRows(side, utc) {
  const { sched } = side;
  return sched.rows.filter((row) => times(row.waited).total > 0 || times(row.run).total > 0).map((row) => {
    const waited = times(row.waited);
    return [threadName(sched, row.thread), duration(times(row.run).total), `${about(waited)}${duration(waited.total)}`,
            duration(waited.longest), waited.count > 0 ? clockTime(side, waited.at, utc, 3) : '–', duration(times(row.blocked).total),
            row.instead.map(([thread, ns]) => `${threadName(sched, thread)} ${duration(ns)}`).join(', ')];
  });
}
function blockedRows(side, utc) {
  const { sched } = side;
  return sched.blocked.map((row) => {
    const spans = times(row.blocked);
    return [threadName(sched, row.thread), `${about(spans)}${duration(spans.total)}`, spans.count, duration(spans.longest),
            `${clockTime(side, spans.at, utc, 3)}${spans.goesOn ? ' to the end' : ''}`, whereText(side, row, spans).replace(/^, in /, '')];
  });
}

function sumsText(side) {
  const { sched } = side;
  const [run, idle, unknown] = [1, 2, 3].map((i) => sched.cpus.reduce((sum, cpu) => sum + cpu[i], 0));
  const all = Math.max(1, run + idle + unknown);
  return `${count(sched.switches, 'switch record')} of ${duration(sched.end - sched.begin)}, ${count(sched.cpus.length, 'CPU')}: ` +
    `busy ${percent(run / all)}, idle ${percent(idle / all)}${unknown > 0 ? `, not known ${percent(unknown / all)}` : ''}.`;
}

export function showWaits(node, side, utc) {
  const { sched } = side;
  const out = [element('p', {}, sumsText(side))];
  const waits = waitRows(side, utc), blocked = blockedRows(side, utc);
  if (waits.length > 0)
    out.push(table('Threads by their wait for a CPU', ['Thread', 'Ran', 'Waited', 'Longest', 'At', 'State D', 'Who ran instead'], waits, [1, 2, 3, 5]));
  if (blocked.length > 0)
    out.push(table('Blocked (state D)', ['Thread', 'Blocked', 'Times', 'Longest', 'At', 'Where, at the longest'], blocked, [1, 2, 3]));
  else out.push(element('p', {}, 'No thread was in state D.'));
  if (sched.more_blocked > 0) out.push(element('p', {}, `And ${count(sched.more_blocked, 'other thread')} in state D.`));
  fill(node, ...out);
}

export const kPressures = ['psi.io.some', 'psi.memory.some', 'psi.cpu.some', 'tasks.blocked'];

// Threads in state D over time, and the pressure in the same time. Returns the charts.
export function showBlocked(node, side, state) {
  const { sched, sidecar } = side;
  const lane = { begin_ns: sidecar.window.begin_ns + sched.begin, step_ns: sched.lane_step };
  const charts = sched.blocked_lane.length > 1 ? [chartOf(side, 'threads in state D', lane, sched.blocked_lane, state)] : [];
  const recent = sidecar.metrics?.recent;
  for (const name of recent ? kPressures : []) {
    const first = Math.max(0, Math.floor((lane.begin_ns - recent.begin_ns) / recent.step_ns));
    const values = (recent.values[name] ?? []).slice(first);
    if (values.length < 2 || values.every((value) => value === null)) continue;
    charts.push(chartOf(side, name, { begin_ns: recent.begin_ns + first * recent.step_ns, step_ns: recent.step_ns }, values, state));
  }
  fill(node, ...charts.map(({ box }) => box));
  return charts.map(({ plot }) => plot);
}

export function stretchText(side, stretch, utc) {
  if (stretch < 0) return '\u00a0';
  const { ran } = side.sched, thread = ran.thread[stretch];
  return `CPU ${ran.cpu[stretch]}, ${clockTime(side, ran.begin[stretch], utc, 6)}: ` +
    `${thread === 0 ? 'it is not known who' : threadName(side.sched, thread)} ran for ${duration(ran.end[stretch] - ran.begin[stretch])}`;
}
export function lanesText(side, [begin, end], utc) {
  const { sched } = side;
  const less = sched.lanes_begin > sched.begin + 1 && sched.end - sched.lanes_begin < 1.99e9 ? ' There are too many switches for more of it.' : '';
  return `${clockTime(side, begin, utc, 3)} to ${clockTime(side, end, utc, 3)} (${duration(end - begin)}).${less}`;
}
