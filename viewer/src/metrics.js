// SPDX-License-Identifier: Apache-2.0
// The metrics before the freeze, as charts; that of the trigger first, with its threshold and the moment it fired.
import uPlot from 'uplot';
import { color, element, fill } from './dom.js';

export function chartOf(side, name, series, values, state) {
  const { sidecar } = side;
  const toSeconds = (ns) => (side.wallBegin + (ns - sidecar.window.begin_ns) / 1e6) / 1000;
  const times = values.map((_, i) => toSeconds(series.begin_ns + i * series.step_ns));
  const fired = sidecar.fired && sidecar.fired.metric === name ? sidecar.fired : null;
  const box = element('div', { class: fired ? 'chart fired' : 'chart' });
  box.append(element('h4', {}, fired ? `${name}: fired at ${fired.value}, threshold ${fired.threshold}` : name));
  const known = values.filter((value) => value !== null);
  const span = [Math.min(0, ...known), Math.max(...known, fired ? fired.threshold : 0, 1e-9)];
  const mark = (plot) => {
    const { ctx, bbox } = plot;
    const x = (ns) => Math.min(bbox.left + bbox.width, Math.max(bbox.left, plot.valToPos(toSeconds(ns), 'x', true)));
    const shade = (stretch, style) => {
      if (!stretch) return;
      const from = x(stretch[0] + sidecar.window.begin_ns), to = x(stretch[1] + sidecar.window.begin_ns);
      ctx.globalAlpha = 0.15;
      ctx.fillStyle = style;
      ctx.fillRect(from, bbox.top, Math.max(1, to - from), bbox.height);
      ctx.globalAlpha = 1;
    };
    shade(state.before, color('before'));
    shade(state.now, color('now'));
    if (!sidecar.fired) return;
    ctx.strokeStyle = color('alarm');
    ctx.lineWidth = 2;
    ctx.beginPath();
    ctx.moveTo(x(sidecar.fired.since_ns), bbox.top);
    ctx.lineTo(x(sidecar.fired.since_ns), bbox.top + bbox.height);
    if (fired) {
      const y = plot.valToPos(fired.threshold, 'y', true);
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
    }
    ctx.stroke();
  };
  const axis = { stroke: color('text'), grid: { stroke: color('line') }, ticks: { stroke: color('line') }, size: 44 };
  const plot = new uPlot({
    width: fired ? 560 : 360, height: fired ? 160 : 110, legend: { show: false }, cursor: { show: false },
    tzDate: state.utc ? (seconds) => uPlot.tzDate(new Date(seconds * 1e3), 'Etc/UTC') : undefined,
    scales: { y: { range: () => span } },
    axes: [{ ...axis, size: 30 }, axis],
    series: [{}, { stroke: color('curve'), width: 1.5, points: { show: false } }],
    hooks: { draw: [mark] },
  }, [times, values], box);
  return { box, plot };
}

// `which` is 'recent' or 'minutes'. Returns the charts: when `state` has changed, they are drawn again with redraw(false).
export function showMetrics(node, side, which, state) {
  const series = side.sidecar.metrics?.[which];
  const names = Object.entries(series?.values ?? {}).filter(([, values]) => values.some((value) => value !== null));
  if (names.length === 0) {
    fill(node, element('p', {}, 'The snapshot has no metrics of this time.'));
    return [];
  }
  const first = side.sidecar.fired?.metric;
  names.sort((a, b) => Number(b[0] === first) - Number(a[0] === first));
  const charts = names.map(([name, values]) => chartOf(side, name, series, values, state));
  fill(node, ...charts.map(({ box }) => box));
  return charts.map(({ plot }) => plot);
}
