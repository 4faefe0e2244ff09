// SPDX-License-Identifier: Apache-2.0
// Stacks as lines, for other viewers: libcore/profile/folded.hpp.
export function folded(tree) {
  const lines = [];
  for (let id = 1; id < tree.size; ++id) {
    const samples = tree.self.nowSamples[id];
    if (samples === 0) continue;
    const names = tree.path(id).map((frame) => (tree.keys.frames[frame].name || '?').replaceAll(';', ':'));
    lines.push(`${names.join(';')} ${samples}\n`);
  }
  return lines.join('');
}
