// SPDX-License-Identifier: Apache-2.0
// Makes dist/page.html: page.html with the bundled script and style, their hashes in the Content-Security-Policy, and the
// licences of what is bundled. %PAYLOAD% stays: flightctl html replaces it. The same bytes on each machine.
//
//   npm ci && node build.mjs [OUT_DIR]
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, 'dist');
const allowed = new Set(['MIT', 'ISC', 'BSD-3-Clause', 'Apache-2.0']);

process.chdir(here);
const result = await build({
  absWorkingDir: here,  // esbuild's own is the one in which node was started
  entryPoints: ['src/start.js'], bundle: true, minify: true, format: 'iife', target: 'es2022', charset: 'ascii',
  legalComments: 'none', write: false, metafile: true, outdir: 'dist', logLevel: 'warning',
});
const textOf = (extension) => result.outputFiles.find((file) => file.path.endsWith(extension)).text.trimEnd();
const script = textOf('.js'), style = textOf('.css');
for (const [name, text] of [['script', script], ['style', style]])
  if (/<\/(script|style)|<!--|%[A-Z]+%|\r/i.test(text)) throw new Error(`the ${name} has text that would end it`);

const packages = new Set();
for (const input of Object.keys(result.metafile.inputs)) {
  const found = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
  if (found) packages.add(found[1]);
}
const notices = [...packages].sort().map((name) => {
  const folder = join('node_modules', name);
  const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  if (!allowed.has(license)) throw new Error(`${name} has the licence ${license}`);
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  if (!file) throw new Error(`${name} has no licence text`);
  return `${name} ${version} (${license})\n\n${readFileSync(join(folder, file), 'utf8').replaceAll('\r', '').trim()}\n`;
});
const header = 'This page is part of flightd (Apache-2.0), and contains these works:\n\n';
const notice = header + notices.join(`\n${'-'.repeat(79)}\n\n`);

const hash = (text) => `'sha256-${createHash('sha256').update(text, 'utf8').digest('base64')}'`;
const policy = ["default-src 'none'", `script-src ${hash(script)}`, `style-src ${hash(style)}`, "base-uri 'none'",
  "form-action 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'"].join('; ');
const escaped = notice.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
const parts = { CSP: policy, STYLE: style, NOTICES: escaped, SCRIPT: script };
// Of the template, in which each stands once; what is put in may contain anything.
const page = readFileSync('page.html', 'utf8').replace(/%(CSP|STYLE|NOTICES|SCRIPT)%/g, (_, name) => parts[name]);
if (page.split('%PAYLOAD%').length !== 2) throw new Error('the page needs one place for the payload');

if (!existsSync(out)) mkdirSync(out, { recursive: true });
writeFileSync(join(out, 'page.html'), page);
writeFileSync(join(out, 'NOTICES'), notice);
console.log(`page.html ${page.length} bytes, script ${script.length}, style ${style.length}; ${packages.size} packages`);
