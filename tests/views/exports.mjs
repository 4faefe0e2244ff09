// SPDX-License-Identifier: Apache-2.0
// Reads the exports of tests/views/record with the programs that they are for, and compares their sums with the folded stacks:
// go tool pprof, the Firefox Profiler's own loader (profiler-cli), and speedscope in a browser.
//
//   node exports.mjs CHROMIUM DIR
//
// Prints `ok NAME` or `failed: NAME: why` for each case, and at the end `N passed, N failed`.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import puppeteer from 'puppeteer-core';

const [executablePath, dir] = process.argv.slice(2);
const modules = join(dirname(fileURLToPath(import.meta.url)), 'node_modules');
const scratch = mkdtempSync(join(tmpdir(), 'exports-'));
const kHostile = '</script><img>';
let passed = 0, failed = 0;
async function check(name, body) {
  try {
    await body();
    ++passed;
    console.log(`ok ${name}`);
  } catch (error) {
    ++failed;
    console.log(`failed: exports: ${name}: ${String(error.message).split('\n').slice(0, 3).join(' ')}`);
  }
}
const run = (program, ...words) => execFileSync(program, words, {
  encoding: 'utf8', maxBuffer: 1 << 30, stdio: ['ignore', 'pipe', 'pipe'],
  env: { ...process.env, HOME: scratch, PPROF_TMPDIR: scratch, GOPROXY: 'off', GOFLAGS: '-mod=mod', PROFILER_CLI_SESSION_DIR: join(scratch, 'p') } });

const folded = readFileSync(join(dir, 'one.folded'), 'utf8').trim().split('\n').map((line) => {
  const at = line.lastIndexOf(' ');
  return { names: line.slice(0, at).split(';'), samples: Number(line.slice(at + 1)) };
});
const all = folded.reduce((sum, { samples }) => sum + samples, 0);
// As folded stacks have a name.
const inFolded = (name) => name.replaceAll(';', ':') || '?';
const added = (map, key, value) => map.set(key, (map.get(key) ?? 0) + value);

// --- go tool pprof ---------------------------------------------------------------------------------------------------

// Of `go tool pprof -raw`: {samples, ns, names: the outermost first} for each sample.
function rawSamples(text) {
  const lines = text.split('\n'), at = (head) => lines.findIndex((line) => line.startsWith(head));
  const names = new Map();
  for (const line of lines.slice(at('Locations') + 1, at('Mappings'))) {
    const found = /^ *(\d+): 0x[0-9a-f]+ (?:M=\d+ )?(.*) [^ ]*:\d+(?::\d+)? s=\d+ *$/.exec(line);
    assert.ok(found, `not understood: ${line}`);
    names.set(found[1], found[2]);
  }
  const out = [];
  for (const line of lines.slice(at('Samples:') + 2, at('Locations'))) {
    const found = /^ *(\d+) +(\d+): ([\d ]*)$/.exec(line);
    if (!found) continue;  // its labels
    const stack = found[3].trim().split(' ').filter(Boolean).map((number) => names.get(number));
    out.push({ samples: Number(found[1]), ns: Number(found[2]), names: stack.reverse() });
  }
  return out;
}
let raw = [];
await check('go tool pprof: each stack has the samples of the folded one', () => {
  raw = rawSamples(run('go', 'tool', 'pprof', '-raw', '-symbolize=none', join(dir, 'one.pb.gz')));
  const mine = new Map(), theirs = new Map();
  // Folded stacks begin with the name of the thread.
  for (const { names, samples } of folded) added(mine, names.slice(1).join(';'), samples);
  for (const { names, samples } of raw) added(theirs, names.map(inFolded).join(';'), samples);
  assert.deepEqual([...theirs].sort(), [...mine].sort());
});
await check('go tool pprof -top, -tags', () => {
  const top = run('go', 'tool', 'pprof', '-top', '-symbolize=none', '-sample_index=samples', join(dir, 'one.pb.gz'));
  assert.match(top, new RegExp(`of ${all} total`));
  const tags = run('go', 'tool', 'pprof', '-tags', '-symbolize=none', '-sample_index=samples', join(dir, 'one.pb.gz'));
  for (const label of ['comm', 'pid']) assert.match(tags, new RegExp(`^ *${label}:\\s+Total`, 'm'));
  assert.ok(tags.includes(kHostile), 'the process with the hostile name');
  assert.match(run('go', 'tool', 'pprof', '-top', '-symbolize=none', join(dir, 'one.pb.gz')), /^Type: cpu$/m, 'the time is the default');
});

// --- the Firefox Profiler --------------------------------------------------------------------------------------------

const profiler = (...words) => run(process.execPath, join(modules, '@firefox-devtools/profiler-cli/dist/profiler-cli.js'), ...words);
await check('Firefox Profiler: each function has the time of pprof', () => {
  profiler('load', join(dir, 'one.firefox.json.gz'));
  try {
    const { processes } = JSON.parse(profiler('profile', 'info', '--all', '--json'));
    const threads = processes.flatMap((process) => process.threads), theirs = new Map();
    for (const { threadHandle, name: thread } of threads) {
      if (thread === 'flightd' || thread === 'CPUs') continue;  // markers only
      const { functions } = JSON.parse(profiler('thread', 'functions', '--thread', threadHandle, '--limit', '0', '--include-idle', '--json'));
      for (const { name, selfSamples } of functions) added(theirs, name, selfSamples);
    }
    const mine = new Map();
    for (const { names, ns } of raw) added(mine, names.at(-1) ?? '', ns / 1e6);
    mine.delete('');  // a thread alone has no frame
    for (const [name, ms] of mine)
      assert.ok(Math.abs(ms - (theirs.get(name) ?? 0)) < 0.01 + ms * 1e-4, `${name}: ${theirs.get(name)} ms, pprof has ${ms}`);
    for (const [name, ms] of theirs) assert.ok(ms === 0 || mine.has(name), `${name} is not in pprof's`);
    assert.ok(threads.some(({ name }) => name === kHostile));
  } finally {
    profiler('stop', '--all');
  }
});
await check('Firefox Profiler: markers of who ran on each CPU', () => {
  profiler('load', join(dir, 'one.firefox.json.gz'));
  try {
    const { processes } = JSON.parse(profiler('profile', 'info', '--all', '--json'));
    const cpus = processes.flatMap((process) => process.threads).find(({ name }) => name === 'CPUs');
    assert.ok(cpus, 'there is no track of the CPUs');
    const markers = profiler('thread', 'markers', '--thread', cpus.threadHandle, '--json');
    assert.match(markers, /CPU 0/);
    // A process that never stops runs on one of them.
    assert.ok(profiler('profile', 'markers', '--search', kHostile, '--json').includes(kHostile));
  } finally {
    profiler('stop', '--all');
  }
});

// --- speedscope ------------------------------------------------------------------------------------------------------

const number = (text) => Number(/^[\d,.]+/.exec(text.trim())[0].replaceAll(',', ''));
// The rows of its table of functions, those that are on the screen: {self, total, name}.
async function speedscopeRows(browser, name) {
  const script = join(scratch, `${name}.js`);
  writeFileSync(script, `speedscope.loadFileFromBase64(${JSON.stringify(name)}, ${JSON.stringify(readFileSync(join(dir, name)).toString('base64'))})`);
  const page = await browser.newPage();
  const faults = [];
  page.on('pageerror', (error) => faults.push(error.message));
  page.on('dialog', (dialog) => { faults.push(dialog.message()); void dialog.dismiss(); });
  await page.setViewport({ width: 1280, height: 900 });
  const index = pathToFileURL(join(modules, 'speedscope/dist/release/index.html')).href;
  await page.goto(`${index}#view=sandwich&localProfilePath=${script}`);
  const begin = performance.now();
  let rows = [];
  while (rows.length < 3 && faults.length === 0 && performance.now() - begin < 30_000) {
    rows = await page.evaluate(() => [...document.querySelectorAll('table tr')].map((row) => [...row.children].map((cell) => cell.textContent))
      .filter((cells) => cells.length >= 3 && /^[\d,.]/.test(cells[0].trim())));
    await new Promise((done) => setTimeout(done, 200));
  }
  await page.screenshot({ path: join(resolve(dir), `speedscope-${name}.png`) });
  assert.deepEqual(faults, []);
  return rows.map((cells) => ({ self: cells[0], total: cells[1], name: cells[2].trim() }));
}
const browser = await puppeteer.launch({
  browser: 'chrome', executablePath, headless: true,
  args: ['--no-sandbox', '--disable-dev-shm-usage', '--use-angle=swiftshader', '--enable-unsafe-swiftshader', '--allow-file-access-from-files'],
});
await check('speedscope: folded stacks have the same sums', async () => {
  const rows = await speedscopeRows(browser, 'one.folded');
  assert.ok(rows.length >= 3, `${rows.length} rows`);
  for (const { self, total, name } of rows) {
    const sum = (wanted) => folded.reduce((out, line) => out + (wanted(line.names) ? line.samples : 0), 0);
    assert.equal(number(self), sum((names) => names.at(-1) === name), `itself: ${name}`);
    assert.equal(number(total), sum((names) => names.includes(name)), `in all: ${name}`);
  }
});
await check('speedscope: pprof', async () => {
  const rows = await speedscopeRows(browser, 'one.pb.gz');
  assert.ok(rows.length >= 3, `${rows.length} rows`);
  const known = new Set(raw.flatMap(({ names }) => names));
  for (const { name } of rows) assert.ok(known.has(name), `${name} is no function of the profile`);
});
await browser.close();

rmSync(scratch, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
