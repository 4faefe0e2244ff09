// SPDX-License-Identifier: Apache-2.0
// What the snapshot is and what it lacks: the first part of the page.
import { element, fill, table } from './dom.js';
import { missingTime } from './coverage.js';
import { clockTime, count, cpus, date, duration } from './format.js';

const kMostRows = 10;

const known = (value) => (value === null || value === undefined ? '–' : cpus(value));

function pairs(entries) {
  return element('dl', {}, ...entries.flatMap(([name, text]) => [element('dt', {}, name), element('dd', {}, text)]));
}

function windowText(side, utc) {
  const { sidecar } = side;
  const zone = utc ? 'UTC' : Intl.DateTimeFormat().resolvedOptions().timeZone;
  return `${date(side, utc)} ${clockTime(side, side.begin, utc)} to ${clockTime(side, side.end, utc)} (${zone}), ` +
    `${duration(side.end)}; in UTC: ${sidecar.window.begin} to ${sidecar.window.end}`;
}

export function showFacts(node, sides, utc) {
  const [side] = sides, { sidecar } = side;
  const entries = [['Reason', sidecar.reason || '–'], ['Trigger', sidecar.test ? `${sidecar.trigger} (a test of it)` : sidecar.trigger]];
  if (sidecar.fired) {
    const { metric, value, threshold, baseline, since_ns: since } = sidecar.fired;
    entries.push(['Fired', `${metric} is ${value}, the threshold is ${threshold}` +
      `${baseline === null || baseline === undefined ? '' : `, usual is ${baseline}`}, since ` +
      clockTime(side, since - sidecar.window.begin_ns, utc)]);
  }
  entries.push(['Window', windowText(side, utc)]);
  for (const request of sidecar.requests ?? [])
    entries.push(['Requested', `by ${request.comm} (pid ${request.pid}, uid ${request.uid}) at ${request.time}: ${request.reason || '–'}`]);
  entries.push(['Machine', `${sidecar.host}, kernel ${sidecar.kernel}`]);
  if (sides.length > 1) entries.push(['Compared with', `snapshot ${sides[1].sidecar.id} of ${sides[1].sidecar.host}, ${windowText(sides[1], utc)}`]);
  fill(node, pairs(entries));
}

// Holes and coverage: what is not there comes before what is.
export function showMissing(node, sides, utc) {
  fill(node, ...sides.flatMap((side) => {
    const { sidecar } = side, { holes = [], rings = [] } = sidecar;
    const at = (ns) => clockTime(side, ns - sidecar.window.begin_ns, utc);
    const name = sides.length > 1 ? `Snapshot ${sidecar.id}: ` : '';
    const lost = holes.reduce((sum, hole) => sum + hole.lost, 0);
    const messages = [...(sidecar.warnings ?? []), ...side.notes];
    const out = [element('p', { class: holes.length > 0 ? 'alarm' : '' },
      holes.length > 0 ? `${name}${count(holes.length, 'hole')}, ${count(lost, 'record')} lost.` : `${name}No holes.`)];
    if (messages.length > 0) out.push(element('ul', {}, ...messages.map((text) => element('li', {}, text))));
    if (holes.length > 0)
      out.push(table('Holes', ['Channel', 'CPU', 'From', 'To', 'Lost', 'Cause'], holes.map((hole) => [
        hole.channel, hole.cpu, at(hole.begin_ns), at(hole.end_ns), hole.lost, hole.cause ?? '–']), [1, 4]));
    const rows = rings.map((ring) => [ring.channel, ring.cpu, ring.records > 0 ? at(ring.oldest_ns) : '–',
      ring.records > 0 ? at(ring.newest_ns) : '–', ring.records, ring.samples, ring.lost]);
    const common = sidecar.common_window;
    out.push(element('details', {},
      element('summary', {}, `${name}${count(rings.length, 'ring')}; all of them have the time from ${at(common.begin_ns)} to ${at(common.end_ns)}`),
      table('Rings', ['Channel', 'CPU', 'Oldest', 'Newest', 'Records', 'Samples', 'Lost'], rows, [1, 4, 5, 6])));
    return out;
  }));
}

export function showTop(node, side) {
  const { top_units: units = [], top = [] } = side.sidecar;
  const rowOf = (row, name) => [name, row.unit ?? '', known(row.cpus_before), known(row.cpus_now), row.samples];
  const heads = ['', 'Unit', 'CPUs before', 'CPUs now', 'Samples'];
  const byUnit = units.slice(0, kMostRows).map((row) => [row.name || '[root]', row.program ?? '', known(row.cpus_before), known(row.cpus_now), row.samples]);
  const byProcess = top.slice(0, kMostRows).map((row) => rowOf(row, row.pid ? `${row.comm} (${row.pid})` : row.comm));
  const tables = [];
  if (byUnit.length > 0) tables.push(table('Units', ['Unit', 'Most of it', ...heads.slice(2)], byUnit, [2, 3, 4]));
  if (byProcess.length > 0) tables.push(table('Processes', ['Process', ...heads.slice(1)], byProcess, [2, 3, 4]));
  fill(node, ...(tables.length > 0 ? tables : [element('p', {}, 'The snapshot has no table of processes.')]));
}

// The selected time that is not there, of the CPU that lacks most.
export function missingText(coverage, [begin, end]) {
  let worst = 0, cpu = -1;
  for (const number of coverage.cpus) {
    const missing = missingTime(coverage, number, begin, end);
    if (missing > worst) [worst, cpu] = [missing, number];
  }
  if (cpu < 0) return '';
  return ` Of CPU ${cpu}, ${duration(worst)} are missing; its values are of the rest.`;
}
