// Search over the whole log, on the server: hits by the thousand, and how many there are in all.

import { asked, drawn, here, log, number, onPaint, show, soon, state } from './log-blocks.js';
import { choose, goTo } from './log-lines.js';
import { isOver } from './log-live.js';

const search = document.getElementById('search');
const box = document.querySelector('.log-tools .hits');
const output = document.getElementById('hits');
const only = document.getElementById('only');
const everywhere = document.getElementById('everywhere');
const matchCase = document.getElementById('case');
const regex = document.getElementById('regex');
export const list = document.getElementById('only-hits');
const [rows, moreHits] = list.children;
// So many are brought for whoever goes back from the first to the last one.
const MOST = 20_000;

let hits = [];
let hitLines = new Set();
// Where the next thousand begins, and how many are known in all.
let next = null;
let count = 0;
let isCounted = true;
let current = -1;
let turn = 0;
const isOn = (button) => button.getAttribute('aria-pressed') === 'true';

async function ask(more) {
  const query = asked({ q: search.value, regex: isOn(regex), ignore_case: !isOn(matchCase), ...more });
  const answer = await fetch(`${here}/search?${query}`, { redirect: 'manual' }).catch(() => null);
  if (answer?.ok) return answer.json();
  const problem = await answer?.json().catch(() => null);
  return { problem: problem?.detail ?? 'the search did not work', lines: [], html: '', count: 0, next: null };
}

// The next hits; a search that takes long says where it goes on. Answers with what went wrong.
let bringing = null;
function bring(mine) {
  bringing ??= page(mine).finally(() => { bringing = null; });
  return bringing;
}
async function page(mine) {
  let found;
  do {
    found = await ask(next ? { after: next } : {});
    if (mine !== turn) return null;
    next = found.next;
  } while (next && !found.lines.length);
  hits.push(...found.lines);
  for (const line of found.lines) hitLines.add(line);
  rows.insertAdjacentHTML('beforeend', found.html);
  moreHits.hidden = !next;
  return found.problem ?? null;
}
async function find() {
  const mine = ++turn;
  bringing = null;
  [hits, hitLines, next, count, isCounted, current] = [[], new Set(), null, 0, true, -1];
  rows.replaceChildren();
  const query = new URLSearchParams({ q: search.value });
  for (const button of [regex, matchCase]) if (isOn(button)) query.set(button.id, '1');
  everywhere.search = query;
  let problem = null;
  if (search.value) {
    output.textContent = 'searching…';
    box.hidden = false;
    problem = await bring(mine);
    if (mine !== turn) return;
  }
  box.hidden = !search.value;
  count = hits.length;
  isCounted = !next;
  for (const block of drawn()) mark(block);
  highlight();
  if (problem) { output.textContent = problem; return; }
  tell();
  if (hits.length) jump(1);
  let after = next;
  while (after) {
    const counted = await ask({ after, count: true });
    if (mine !== turn || counted.problem) return;
    count += counted.count;
    after = counted.next;
    isCounted = !after;
    tell();
  }
}
function tell() {
  const all = `${count.toLocaleString('en')}${isCounted ? '' : '+'} ${count === 1 ? 'hit' : 'hits'}`;
  const known = isOver() ? all : `${all} so far`;
  output.textContent = current >= 0 ? `${(current + 1).toLocaleString('en')} of ${known}` : known;
}
export async function jump(by) {
  const mine = turn;
  while (next && (current + by >= hits.length || (current + by < 0 && hits.length < MOST))) {
    if (await bring(mine) || mine !== turn) return;
  }
  if (!hits.length) return;
  current = (current + by + hits.length) % hits.length;
  tell();
  const line = hits[current];
  choose({ from: line, to: line });
  if (list.hidden) await show(line);
  else point(line);
  highlight();
}
// Where only hits are shown, the log itself is not there.
function point(line) {
  for (const one of rows.querySelectorAll('.l')) one.classList.toggle('chosen', Number(one.querySelector('.n')?.dataset.n) === line);
  rows.querySelector('.l.chosen')?.scrollIntoView({ block: 'center' });
}
function mark(block) {
  for (const one of block.querySelectorAll('.l')) one.classList.toggle('hit', hitLines.has(number(one)));
}
onPaint((block) => { if (hits.length) mark(block); });

// What is looked for, as the browser finds it in a line; it knows most expressions that the server knows.
function places(text) {
  if (!isOn(regex)) {
    const [content, wanted] = isOn(matchCase) ? [text, search.value] : [text.toLowerCase(), search.value.toLowerCase()];
    const found = [];
    for (let at = content.indexOf(wanted); at >= 0; at = content.indexOf(wanted, at + wanted.length)) found.push([at, at + wanted.length]);
    return found;
  }
  try {
    const wanted = new RegExp(search.value, isOn(matchCase) ? 'gu' : 'giu');
    // An expression can take for ever over a long line.
    return text.length > 2000 ? [] : [...text.matchAll(wanted)].map((one) => [one.index, one.index + one[0].length]);
  } catch {
    return [];
  }
}
function highlight() {
  if (!globalThis.Highlight || !CSS.highlights) return;
  const ranges = [];
  const texts = search.value ? [...log.querySelectorAll('.l.hit .t'), ...(list.hidden ? [] : rows.querySelectorAll('.t'))] : [];
  for (const one of texts) {
    const walker = document.createTreeWalker(one, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node && ranges.length < 2000; node = walker.nextNode()) {
      for (const [from, to] of places(node.data)) {
        const range = new Range();
        range.setStart(node, from);
        range.setEnd(node, to);
        ranges.push(range);
      }
    }
  }
  CSS.highlights.set('found', new Highlight(...ranges));
}

let timer = 0;
search.addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(find, 200); });
search.addEventListener('keydown', (event) => {
  if (event.key === 'Enter') { event.preventDefault(); jump(event.shiftKey ? -1 : 1); }
});
for (const button of [matchCase, regex]) {
  button.addEventListener('click', () => { button.setAttribute('aria-pressed', String(!isOn(button))); find(); });
}
document.getElementById('next').addEventListener('click', () => jump(1));
document.getElementById('previous').addEventListener('click', () => jump(-1));

// Hits alone, as the server drew them.
function onlyHits(on) {
  only.setAttribute('aria-pressed', String(on));
  list.hidden = !on;
  log.hidden = on;
  state.following = false;
  highlight();
  soon();
}
only.addEventListener('click', () => onlyHits(list.hidden));
moreHits.addEventListener('click', async () => { await bring(turn); highlight(); });
list.addEventListener('click', (event) => {
  const item = event.target.closest('.l');
  if (!item || event.target.closest('.t a')) return;
  event.preventDefault();
  onlyHits(false);
  goTo(Number(item.querySelector('.n').dataset.n));
});
document.querySelector('.log-tools .find').hidden = false;
