// SPDX-License-Identifier: Apache-2.0
// Opens the pages of tests/views/incidents: who has only the page finds the function and the moment in what a screen shows of it.
//
//   node incidents.mjs chrome|firefox EXECUTABLE DIR
//
// Prints `ok NAME` or `failed: NAME: why` for each incident, and at the end `N passed, N failed`. Pictures of the first screens go to
// DIR: BROWSER-incident-NAME.png.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import puppeteer from 'puppeteer-core';

const [browserName, executablePath, dir] = process.argv.slice(2);
const kScreen = { width: 1280, height: 900 };
// Sampled 499 times a second, and shown in steps of 100 ms.
const kMostSecondsOff = 0.5;

const browser = await puppeteer.launch({
  browser: browserName, executablePath, headless: true,
  args: browserName === 'chrome' ? ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'] : [],
});
let passed = 0, failed = 0;
async function check(name, body) {
  try {
    await body();
    ++passed;
    console.log(`ok ${name}`);
  } catch (error) {
    ++failed;
    console.log(`failed: ${browserName}: ${name}: ${String(error.message).split('\n').slice(0, 3).join(' ')}`);
  }
}

// The lines that are on the screen, from its top on.
const linesOnScreen = (page) => page.evaluate(() => [...document.querySelectorAll('h1, dd, p, tr')]
  .filter((node) => {
    const box = node.getBoundingClientRect();
    return box.height > 0 && box.top >= 0 && box.bottom <= innerHeight;
  })
  .map((node) => node.textContent));

async function open(name) {
  const page = await browser.newPage();
  await page.setViewport(kScreen);
  await page.goto(pathToFileURL(resolve(dir, `${name}.html`)).href);
  const begin = performance.now();
  let ready;
  while ((ready = await page.evaluate(() => document.documentElement.dataset.ready)) === undefined) {
    if (performance.now() - begin > 60_000) throw new Error(`${name} is not ready after 60 s`);
    await new Promise((done) => setTimeout(done, 50));
  }
  assert.equal(ready, 'yes');
  await page.evaluate(() => {
    const zone = document.getElementById('zone');
    zone.value = 'utc';
    zone.dispatchEvent(new Event('change', { bubbles: true }));
    scrollTo(0, 0);
  });
  return page;
}

// "12:34:56.7" in UTC, in seconds of the day.
const secondsOf = (text) => {
  const [hours, minutes, seconds] = text.split(':').map(Number);
  return hours * 3600 + minutes * 60 + seconds;
};
function apart(a, b) {
  const days = 24 * 3600, distance = Math.abs(a - b) % days;
  return Math.min(distance, days - distance);
}

const incidents = readFileSync(join(dir, 'incidents.json'), 'utf8').trim().split('\n').map((line) => JSON.parse(line));
for (const { name, function: culprit, began } of incidents)
  await check(`${name}: the first screen has ${culprit}() and when it began`, async () => {
    const page = await open(name);
    await page.screenshot({ path: join(dir, `${browserName}-incident-${name}.png`) });
    const lines = await linesOnScreen(page);
    const found = lines.filter((line) => line.includes(culprit));
    assert.ok(found.length > 0, `${culprit} is not in: ${lines.join(' | ').slice(0, 600)}`);
    const moments = found.flatMap((line) => line.match(/\d\d:\d\d:\d\d\.\d+/g) ?? []);
    const distances = moments.map((moment) => apart(secondsOf(moment), began % (24 * 3600)));
    assert.ok(Math.min(...distances, Infinity) <= kMostSecondsOff,
      `it began at ${new Date(began * 1000).toISOString()}, the lines with ${culprit} have ${moments.join(', ') || 'no time'}`);
    await page.close();
  });

await browser.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
