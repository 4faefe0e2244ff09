// SPDX-License-Identifier: Apache-2.0
// Elements with texts. Names from a snapshot become text nodes and nothing else.
export const $ = (id) => document.getElementById(id);

export function element(tag, attributes = {}, ...children) {
  const out = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) out.setAttribute(name, value);
  out.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return out;
}
export function table(caption, heads, rows, right = []) {
  const cell = (tag, text, i) => element(tag, right.includes(i) ? { class: 'number' } : {}, text);
  return element('table', {}, element('caption', {}, caption),
    element('thead', {}, element('tr', {}, ...heads.map((text, i) => cell('th', text, i)))),
    element('tbody', {}, ...rows.map((row) => element('tr', {}, ...row.map((text, i) => cell('td', text, i))))));
}
export function fill(node, ...children) {
  node.replaceChildren(...children);
}
export function options(select, entries, chosen) {
  fill(select, ...entries.map(([value, text]) => {
    const option = element('option', { value }, text);
    option.selected = value === chosen;
    return option;
  }));
}

// What a variable of the style sheet is in the theme in force.
export function color(name) {
  const probe = $('probe');
  probe.style.setProperty('color', `var(--${name})`);
  return getComputedStyle(probe).color;
}
export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  const link = element('a', { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
