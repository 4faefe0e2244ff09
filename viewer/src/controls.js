// SPDX-License-Identifier: Apache-2.0
// The lists and switches of the page, and what each of them does.
import { $, options, save } from './dom.js';
import { folded } from './folded.js';
import { threadText } from './tree.js';

const kMostThreads = 500;  // in the list; the search finds the others

export function fillLists(page) {
  const { side } = page, { thread, cpu, node } = side.samples;
  options($('event'), side.events.map((event, i) => [i, event.name]), page.state.event);
  const counts = new Map(), comms = new Map();
  for (let i = 0; i < thread.length; ++i) {
    counts.set(thread[i], counts.get(thread[i]) ?? { samples: 0, task: side.taskOf[node[i]] });
    counts.get(thread[i]).samples += 1;
    const comm = side.frames.name[side.taskOf[node[i]]];
    comms.set(comm, (comms.get(comm) ?? 0) + 1);
  }
  const busiest = [...counts].sort((a, b) => b[1].samples - a[1].samples).slice(0, kMostThreads);
  const all = ['', 'all'];
  options($('thread'), [all, ...busiest.map(([number, { task }]) => [number, threadText(side, number, task)])], '');
  options($('unit'), [all, ...[...new Set(side.threads.unit)].filter(Boolean).sort().map((name) => [name, name])], '');
  options($('comm'), [all, ...[...comms].sort((a, b) => b[1] - a[1]).slice(0, kMostThreads).map(([name]) => [name, name])], '');
  options($('cpu'), [all, ...[...new Set(cpu)].sort((a, b) => a - b).map((number) => [number, `CPU ${number}`])], '');
}

export function listen(page) {
  const on = (id, type, react) => $(id).addEventListener(type, react);
  const { state } = page;
  on('event', 'change', () => { state.event = Number($('event').value); state.path = []; page.draw(); page.drawHead(); });
  on('rows', 'change', () => page.drawHeat());
  on('series', 'change', () => page.drawMetrics());
  on('search', 'input', () => { state.search = $('search').value; page.drawHeat(); page.drawFlames(); page.drawLanes(); });
  for (const id of ['unit', 'comm', 'thread', 'cpu']) on(id, 'change', () => { state.path = []; page.draw(); });
  on('group', 'change', () => { state.groupBy = $('group').value; state.path = []; page.drawTree(); });
  on('inverted', 'change', () => { state.inverted = $('inverted').checked; state.path = []; page.drawTree(); });
  on('shares', 'change', () => { page.drawTree(); page.drawHead(); });
  on('diff', 'change', () => { state.diff = $('diff').checked; page.draw(); page.shade(); });
  on('gone', 'change', () => page.drawFlames());
  on('out', 'click', () => { state.path = []; page.drawFlames(); });
  on('whole', 'click', () => page.choose([0, page.side.end], false));
  on('recorded', 'click', () => { page.recorded(); page.draw(); page.shade(); });
  on('lanes-span', 'change', () => page.lanes.zoom(Number($('lanes-span').value)));
  on('lanes-earlier', 'click', () => page.lanes.pan(-0.5));
  on('lanes-later', 'click', () => page.lanes.pan(0.5));
  on('lanes-select', 'click', () => page.choose([...page.lanes.range], false));
  on('zone', 'change', () => { state.utc = $('zone').value === 'utc'; page.draw(); page.drawHead(); });
  const redraw = () => { page.draw(); page.drawMetrics(); page.drawLanes(); };
  on('theme', 'change', () => { document.documentElement.dataset.theme = $('theme').value; redraw(); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  for (const name of ['now', 'base'])
    for (const edge of ['from', 'to']) on(`${name}-${edge}`, 'change', () => page.typed(name));
  on('save-folded', 'click', () => save(new Blob([folded(page.tree)]), `snapshot-${page.fileId()}.folded`));
  on('save-payload', 'click', () => save(page.packed, `snapshot-${page.fileId()}.flightd.gz`));
  on('save-sidecar', 'click', () => save(new Blob([page.side.sidecarBytes]), `snapshot-${page.fileId()}.json`));
  addEventListener('resize', () => { clearTimeout(page.resized); page.resized = setTimeout(redraw, 200); });
  // Paper is white.
  addEventListener('beforeprint', () => { document.documentElement.dataset.theme = 'light'; redraw(); });
  addEventListener('afterprint', () => { document.documentElement.dataset.theme = $('theme').value; redraw(); });
  addEventListener('keydown', (event) => {
    if (event.key !== '/' || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    event.preventDefault();
    $('search').focus();
  });
}
