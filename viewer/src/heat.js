// SPDX-License-Identifier: Apache-2.0
// The cells of the heat map: how many CPUs an event counted in each 20 ms.
//
//   by second   a column is a second of the wall clock, from top to bottom; a row is one of its 50 parts
//   by CPU      a column is a cell of time, a row is a CPU
import { missingTime } from './coverage.js';

export const kCellNs = 20e6;
const kSecondNs = 1e9, kMostColumns = 3000;

export function heatCells(side, coverage, event, { byCpu = false, wanted = null, matches = null } = {}) {
  const grid = byCpu ? cpuGrid(side, coverage) : secondGrid(side);
  const cells = grid.columns * grid.rows;
  const value = new Float64Array(cells), matched = new Float64Array(cells), missing = new Float64Array(cells);
  const { time, node, cpu, weight } = side.samples;
  const clock = side.events[event]?.clock;
  for (let i = 0; i < time.length; ++i) {
    if (side.eventOf[node[i]] !== event || (wanted && !wanted(i))) continue;
    const cell = grid.cellOf(time[i], cpu[i]);
    if (cell < 0) continue;
    const amount = clock ? weight[i] / grid.cellNs : 1;
    value[cell] += amount;
    if (matches && matches[node[i]]) matched[cell] += amount;
  }
  for (let cell = 0; cell < cells; ++cell) missing[cell] = missingPart(grid, coverage, cell);
  let most = 0;
  for (const number of value) most = Math.max(most, number);
  return { ...grid, value, matched, missing, most };
}

// Of the cell's time and CPUs the part without records.
function missingPart(grid, coverage, cell) {
  if (coverage.missing.size === 0) return 0;
  const [begin, end] = grid.timeOf(cell);
  if (grid.byCpu) return missingTime(coverage, grid.cpuOf(cell), begin, end) / (end - begin);
  let out = 0;
  for (const cpu of coverage.missing.keys()) out += missingTime(coverage, cpu, begin, end);
  return out / ((end - begin) * Math.max(1, coverage.cpus.length));
}

function secondGrid(side) {
  const rows = kSecondNs / kCellNs;
  const origin = -Math.round((side.wallBegin % 1000) * 1e6);  // the full second before the window
  const columns = Math.max(1, Math.ceil((side.end - origin) / kSecondNs));
  return {
    columns, rows, cellNs: kCellNs, byCpu: false,
    cellOf(time) {
      const at = Math.floor((time - origin) / kCellNs);
      const column = Math.floor(at / rows);
      return column < 0 || column >= columns ? -1 : column * rows + (at - column * rows);
    },
    timeOf: (cell) => [origin + cell * kCellNs, origin + (cell + 1) * kCellNs],
    cpuOf: () => null,
  };
}

function cpuGrid(side, coverage) {
  const { cpus } = coverage;
  const rows = Math.max(1, cpus.length), rowOf = new Map(cpus.map((cpu, i) => [cpu, i]));
  const cellNs = kCellNs * Math.max(1, Math.ceil(side.end / kCellNs / kMostColumns));
  const columns = Math.max(1, Math.ceil(side.end / cellNs));
  return {
    columns, rows, cellNs, byCpu: true,
    cellOf(time, cpu) {
      const column = Math.min(columns - 1, Math.floor(time / cellNs));
      return column < 0 || !rowOf.has(cpu) ? -1 : column * rows + rowOf.get(cpu);
    },
    timeOf: (cell) => [Math.floor(cell / rows) * cellNs, (Math.floor(cell / rows) + 1) * cellNs],
    cpuOf: (cell) => cpus[cell % rows] ?? null,
  };
}

// The time from one cell to another, whichever is earlier, within the window.
export function stretchOf(heat, side, one, other) {
  const [a, b] = [heat.timeOf(one), heat.timeOf(other)];
  return [Math.max(side.begin, Math.min(a[0], b[0])), Math.min(side.end, Math.max(a[1], b[1]))];
}
