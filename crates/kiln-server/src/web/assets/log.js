// The page of a log: its parts are modules of their own. Here are steps, times, keys, and how it all begins.

import { drawn, folds, lay, log, number, onPaint, row, show, soon, state, steadily } from './log-blocks.js';
import { choose, chosen, go, goTo, isNamed, numberOf } from './log-lines.js';
import { jump, list } from './log-search.js';
import { follow, isOver, toEnd } from './log-live.js';
import './log-copy.js';

// Steps

const side = document.querySelector('.side');
side.addEventListener('click', async (event) => {
  const link = event.target.closest('a[data-step]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const line = await numberOf({ first_of: link.dataset.step });
  if (!line) return;
  await show(line);
  const head = row(line)?.previousElementSibling;
  (head?.matches('.step-head') ? head : row(line))?.scrollIntoView({ block: 'start' });
  for (const one of side.querySelectorAll('#steps li')) one.classList.toggle('here', one.contains(link));
});

// Heads of steps in the log say what the list beside it says, which is refreshed when the run has changed.
function heads(within) {
  for (const head of within.querySelectorAll('.step-head')) {
    const item = side.querySelector(`a[data-step="${head.dataset.step}"]`)?.closest('li');
    if (!item) continue;
    const name = head.querySelector('.name');
    name.textContent = item.querySelector('a').textContent;
    for (const old of head.querySelectorAll('svg, .length')) old.remove();
    const [icon, clock] = [item.querySelector('svg'), item.querySelector('.length')];
    if (icon) name.before(icon.cloneNode(true));
    if (clock) name.after(clock.cloneNode(true));
  }
}
const isLive = document.getElementById('page').dataset.live !== undefined;
if (isLive) {
  onPaint(heads);
  for (const name of ['kiln:refreshed', 'kiln:step']) document.addEventListener(name, () => heads(log));
}

// How it is shown

const times = document.getElementById('times');
const wrap = document.getElementById('wrap');
const modes = ['off', 'relative', 'absolute', 'delta'];
const kept = (name, usual) => { try { return localStorage.getItem(name) ?? usual; } catch { return usual; } };
const keep = (name, value) => { try { localStorage.setItem(name, value); } catch { /* It lasts for this page. */ } };
let mode = kept('kiln.times', 'off');
function stamp() {
  for (const one of [log, list]) for (const name of modes) one.classList.toggle(name, name === mode);
  times.textContent = `Times: ${mode}`;
}
times.hidden = false;
times.addEventListener('click', () => {
  mode = modes[(modes.indexOf(mode) + 1) % modes.length];
  keep('kiln.times', mode);
  steadily(stamp);
});
function wrapped(on) {
  for (const one of [log, list]) one.classList.toggle('wrap', on);
  wrap.setAttribute('aria-pressed', String(on));
  keep('kiln.wrap', on);
}
wrap.hidden = false;
wrap.addEventListener('click', () => { steadily(() => wrapped(!log.classList.contains('wrap'))); soon(); });

// Keys

let cursor = 0;
document.addEventListener('kiln:chosen', () => { cursor = chosen()?.from ?? cursor; });
function walk(by) {
  if (!cursor) {
    const rows = drawn().flatMap((block) => [...block.querySelectorAll('.l')]);
    const first = rows.filter((one) => one.getBoundingClientRect().top > 120).map(number).sort((a, b) => a - b)[0];
    cursor = (first ?? 1) - by;
  }
  let line = cursor + by;
  const group = folds.find(({ from, to }) => line > from && line <= to);
  if (group) line = by > 0 ? group.to + 1 : group.from;
  // Ends of groups are not shown.
  while (row(line) && !row(line).getClientRects().length) line += by;
  line = Math.min(state.total, Math.max(1, line));
  choose({ from: line, to: line });
  const there = row(line);
  if (there) there.scrollIntoView({ block: 'nearest' }); else show(line);
}
const firstError = () => Number(document.getElementById('first-error')?.dataset.line ?? 0);
document.addEventListener('kiln:key', (event) => {
  const actions = {
    n: () => jump(1),
    N: () => jump(-1),
    t: () => times.click(),
    j: () => walk(1),
    k: () => walk(-1),
    f: () => { if (firstError()) goTo(firstError()); },
  };
  if (actions[event.detail]) { event.preventDefault(); actions[event.detail](); }
});
// It is there when the job has failed, which may be later.
document.addEventListener('click', (event) => {
  if (!event.target.closest('#first-error') || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  goTo(firstError());
});

stamp();
wrapped(kept('kiln.wrap', 'true') !== 'false');
log.classList.add('on');
lay();
if (isNamed()) {
  go();
  // When a page is loaded, browsers scroll once more to what its address names, and put it below what stays on top.
  if (document.readyState !== 'complete') addEventListener('load', () => requestAnimationFrame(go), { once: true });
} else if (!isOver()) toEnd();
else if (firstError()) show(firstError());
follow();
