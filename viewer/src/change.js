// SPDX-License-Identifier: Apache-2.0
// Whether a value has changed, by the rule of libcore/profile/change.hpp, and what has changed most.
export const kNoiseLeast = 0.02, kNoiseDeviations = 4;

export function isNoise(now, before, nowVariance, beforeVariance) {
  return Math.abs(now - before) < Math.max(kNoiseLeast, kNoiseDeviations * Math.sqrt(nowVariance + beforeVariance));
}

// 'noise', 'new', 'gone', 'grew' or 'shrank'.
export function verdict(tree, id) {
  const now = tree.now[id], before = tree.before[id];
  if (isNoise(now, before, tree.nowVariance[id], tree.beforeVariance[id])) return 'noise';
  if (tree.beforeSamples[id] === 0) return 'new';
  if (tree.nowSamples[id] === 0) return 'gone';
  return now > before ? 'grew' : 'shrank';
}

// Functions by what they used themselves: the largest change first, or, if nothing is compared, the largest value.
// `path` is of the node that has most of it.
export function functions(tree, compared) {
  const rows = new Map();
  for (let id = 1; id < tree.size; ++id) {
    const self = tree.self;
    if (self.nowSamples[id] + self.beforeSamples[id] === 0) continue;
    let row = rows.get(tree.frame[id]);
    if (row === undefined) {
      row = { frame: tree.frame[id], now: 0, before: 0, nowVariance: 0, beforeVariance: 0, most: -1, node: id };
      rows.set(tree.frame[id], row);
    }
    for (const name of ['now', 'before', 'nowVariance', 'beforeVariance']) row[name] += self[name][id];
    const size = compared ? Math.abs(self.now[id] - self.before[id]) : self.now[id];
    if (size > row.most) {
      row.most = size;
      row.node = id;
    }
  }
  const all = [...rows.values()].filter(
    (row) => (compared ? !isNoise(row.now, row.before, row.nowVariance, row.beforeVariance) : row.now > 0));
  const size = (row) => (compared ? Math.abs(row.now - row.before) : row.now);
  return all.sort((a, b) => size(b) - size(a) || a.frame - b.frame);
}

// For each thread name, or what else is outermost: the deepest node with most of its change, or of its value if nothing
// is compared. The largest first. Time that is spread over many functions is in none of functions().
export function paths(tree, compared) {
  const kMost = 0.6;
  const size = (id) => (compared ? Math.abs(tree.now[id] - tree.before[id]) : tree.now[id]);
  const best = new Uint32Array(tree.size);
  for (let id = 1; id < tree.size; ++id) {
    const above = tree.parent[id];
    if (best[above] === 0 || size(id) > size(best[above])) best[above] = id;
  }
  const out = [];
  for (let top = 1; top < tree.size; ++top) {
    if (tree.parent[top] !== 0 || size(top) === 0 || (compared && verdict(tree, top) === 'noise')) continue;
    let node = top;
    while (best[node] !== 0 && size(best[node]) >= kMost * size(top) && !(compared && verdict(tree, best[node]) === 'noise'))
      node = best[node];
    out.push({ top, node });
  }
  return out.sort((a, b) => size(b.top) - size(a.top) || a.top - b.top);
}

// The stretch of the time in which a value is highest above its mean: [begin, end) in bins. A rise that stays ends at
// the end.
export function busiestStretch(bins) {
  const mean = bins.reduce((sum, value) => sum + value, 0) / Math.max(1, bins.length);
  let best = 0, begin = 0, end = 0, sum = 0, from = 0;
  bins.forEach((value, i) => {
    sum += value - mean;
    if (sum <= 0) {
      sum = 0;
      from = i + 1;
    } else if (sum > best) {
      best = sum;
      begin = from;
      end = i + 1;
    }
  });
  return [begin, end];
}

// When the function that ends the stacks was busiest, or, `within`, one that is anywhere in them: ns from the window's
// begin. `keys` are those of its side. null: it was as busy at all times, but for noise.
export function momentOf(side, keys, frame, event, within = false, binNs = 100e6) {
  const { parent, frame: frames } = side.nodes, is = new Uint8Array(parent.length);
  for (let i = 1; i < is.length; ++i) is[i] = keys[frames[i]] === frame || (within && is[parent[i]]) ? 1 : 0;
  const bins = new Float64Array(Math.max(1, Math.ceil(side.end / binNs)));
  const counts = new Float64Array(bins.length);
  const { time, node, weight } = side.samples;
  for (let i = 0; i < time.length; ++i) {
    if (side.eventOf[node[i]] !== event || is[node[i]] === 0) continue;
    const bin = Math.min(bins.length - 1, Math.max(0, Math.floor(time[i] / binNs)));
    bins[bin] += weight[i];
    counts[bin] += 1;
  }
  const [begin, end] = busiestStretch([...bins]);
  const inside = counts.slice(begin, end).reduce((a, b) => a + b, 0), outside = counts.reduce((a, b) => a + b, 0) - inside;
  const [one, other] = [end - begin, bins.length - (end - begin)];
  if (one === 0 || other === 0) return null;
  const deviation = Math.sqrt(inside / one ** 2 + outside / other ** 2);
  if (inside / one - outside / other < kNoiseDeviations * deviation) return null;
  return { begin: begin * binNs, end: Math.min(side.end, end * binNs), lasts: end >= bins.length - 3 };
}
