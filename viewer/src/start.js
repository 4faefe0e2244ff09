// SPDX-License-Identifier: Apache-2.0
// Unpacks the profile that is in this file, and shows it.
import 'uplot/dist/uPlot.min.css';
import './page.css';
import { $ } from './dom.js';
import { Page } from './page.js';
import { decode, unpack } from './payload.js';

async function start() {
  const { packed, bytes } = await unpack($('payload').textContent);
  const sides = decode(bytes);
  $('main').hidden = false;
  if (sides[0].events.length === 0) throw new Error('the snapshot has no events');
  const page = new Page(sides, packed);
  document.documentElement.dataset.ready = 'yes';  // for tests
  return page;
}

start().catch((error) => {
  $('error').hidden = false;
  $('error').textContent = `This page cannot show its profile: ${error.message}`;
  document.documentElement.dataset.ready = 'failed';
});
