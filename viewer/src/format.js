// SPDX-License-Identifier: Apache-2.0
// Numbers and times as texts.
const two = (number) => String(number).padStart(2, '0');

// 1.20, 0.84, 0.012
export function cpus(value) {
  if (value === 0) return '0';
  const digits = Math.abs(value) >= 0.095 ? 2 : 3;
  return value.toFixed(digits);
}
export const percent = (value) => `${(100 * value).toFixed(1)} %`;
export const count = (number, noun) =>
  `${number.toLocaleString('en-US')} ${number === 1 ? noun : noun.endsWith('s') ? `${noun}es` : `${noun}s`}`;

// {utc}: "03:12:04.120"; `digits` of the second.
export function clockTime(side, ns, utc, digits = 2) {
  const ms = side.wallBegin + ns / 1e6;
  const time = new Date(Math.floor(ms));
  const part = (name) => (utc ? time[`getUTC${name}`]() : time[`get${name}`]());
  const fraction = Math.floor((((ms % 1000) + 1000) % 1000) * 10 ** (digits - 3)).toString().padStart(digits, '0');
  return `${two(part('Hours'))}:${two(part('Minutes'))}:${two(part('Seconds'))}${digits > 0 ? `.${fraction}` : ''}`;
}
export function date(side, utc) {
  const time = new Date(side.wallBegin);
  const part = (name) => (utc ? time[`getUTC${name}`]() : time[`get${name}`]());
  return `${part('FullYear')}-${two(part('Month') + 1)}-${two(part('Date'))}`;
}
export function duration(ns) {
  if (ns < 1e6) return `${(ns / 1e3).toFixed(0)} µs`;
  if (ns < 1e9) return `${(ns / 1e6).toFixed(0)} ms`;
  return ns < 120e9 ? `${(ns / 1e9).toFixed(2)} s` : `${(ns / 60e9).toFixed(1)} min`;
}
