// SPDX-License-Identifier: Apache-2.0
// Of which time a CPU's ring has the records of an event. Values in CPUs are divided by that time.

// The file does not say which channel an event is of. Of those that have as many samples on each CPU, it is the one
// with the fewest.
function channelOf(side, event) {
  const counted = new Map();
  const { node, cpu } = side.samples;
  for (let i = 0; i < node.length; ++i)
    if (side.eventOf[node[i]] === event) counted.set(cpu[i], (counted.get(cpu[i]) ?? 0) + 1);
  const totals = new Map(), fits = new Map();
  for (const ring of side.sidecar.rings ?? []) {
    totals.set(ring.channel, (totals.get(ring.channel) ?? 0) + ring.samples);
    const fit = ring.samples >= (counted.get(ring.cpu) ?? 0);
    fits.set(ring.channel, (fits.get(ring.channel) ?? true) && fit);
  }
  let best = null;
  for (const [channel, total] of totals)
    if (fits.get(channel) && total > 0 && (best === null || total < totals.get(best))) best = channel;
  return best;
}

function merged(stretches) {
  const out = [];
  for (const [begin, end] of stretches.sort((a, b) => a[0] - b[0])) {
    const last = out[out.length - 1];
    if (last && begin <= last[1]) last[1] = Math.max(last[1], end);
    else if (end > begin) out.push([begin, end]);
  }
  return out;
}

// {channel, cpus, missing: stretches without records by CPU}. A ring whose oldest record is later than the time that
// all CPUs have was not full: its CPU was idle.
export function coverageOf(side, event) {
  const channel = channelOf(side, event);
  const { window, common_window: common, rings = [], holes = [] } = side.sidecar;
  const missing = new Map(), cpus = new Set(side.samples.cpu);
  const add = (cpu, begin, end) => {
    if (!missing.has(cpu)) missing.set(cpu, []);
    missing.get(cpu).push([begin - window.begin_ns, end - window.begin_ns]);
  };
  for (const ring of rings) {
    if (channel !== null && ring.channel !== channel) continue;
    cpus.add(ring.cpu);
    if (ring.oldest_ns > window.begin_ns && ring.oldest_ns <= common.begin_ns)
      add(ring.cpu, window.begin_ns, ring.oldest_ns);
  }
  for (const hole of holes)
    if (channel === null || hole.channel === channel) add(hole.cpu, hole.begin_ns, hole.end_ns);
  for (const [cpu, stretches] of missing) missing.set(cpu, merged(stretches));
  return { channel, cpus: [...cpus].sort((a, b) => a - b), missing };
}

export function missingTime(coverage, cpu, begin, end) {
  let out = 0;
  for (const [from, to] of coverage.missing.get(cpu) ?? [])
    out += Math.max(0, Math.min(to, end) - Math.max(from, begin));
  return out;
}

// ns; all of the stretch if nothing of it is there, so that nothing is divided by 0.
export function coveredTime(coverage, cpu, begin, end) {
  const all = end - begin, covered = all - missingTime(coverage, cpu, begin, end);
  return covered > 0 ? covered : all;
}
