// SPDX-License-Identifier: Apache-2.0
// Which frames of a tree are drawn: the widest of the zoomed part. SVG with 13,500 nodes takes 0.1 to 0.2 s.
export const kMostDrawn = 1000;

// The value of which `most` numbers are not smaller, but for equal ones.
function cutoff(values, most) {
  if (values.length <= most) return -Infinity;
  return Float64Array.from(values).sort()[values.length - most];
}

// {root, drawn, hidden}: nested {id, name, value, children} for d3-flame-graph, the zoomed node below its callers;
// `hidden` frames of the zoomed part have a width and are not drawn. `widths` is 'now' or 'before'.
export function drawnFrames(tree, zoom, widths = 'now', most = kMostDrawn) {
  const value = tree[widths];
  const ancestors = [];
  for (let at = zoom; at !== 0; at = tree.parent[at]) ancestors.push(tree.parent[at]);
  const inside = new Uint8Array(tree.size);
  inside[zoom] = 1;
  const ids = [];
  for (let id = zoom + 1; id < tree.size; ++id) {
    inside[id] = inside[tree.parent[id]];
    if (inside[id] && value[id] > 0) ids.push(id);
  }
  const space = Math.max(0, most - 1 - ancestors.length);
  const least = cutoff(ids.map((id) => value[id]), space);
  let equal = space - ids.filter((id) => value[id] > least).length;
  const shown = ids.filter((id) => value[id] > least || (value[id] === least && equal-- > 0));
  const made = new Map();
  const make = (id) => {
    const node = { id, name: tree.frameOf(id).name, value: value[id], children: [] };
    made.set(id, node);
    return node;
  };
  make(zoom);
  // A caller is as wide, and has a smaller number: it is there.
  for (const id of shown) made.get(tree.parent[id]).children.push(make(id));
  for (const node of made.values()) node.children.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.id - b.id));
  let root = made.get(zoom);
  for (const id of ancestors)
    root = { id, name: tree.frameOf(id).name, value: value[zoom], children: [root], above: true };
  return { root, drawn: made.size + ancestors.length, hidden: ids.length - shown.length };
}
