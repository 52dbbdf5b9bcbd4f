// Lines that an address names (#L120, #L120-L130, #step:3:17), and groups that fold.

import { asked, folds, here, log, number, onPaint, refold, repeat, row, show, state } from './log-blocks.js';

// A job that was claimed again has another log, and one under way may be: an address of a line names the claim.
const [seat] = log.dataset.after.split('-');
const isPinned = log.dataset.follow !== undefined || Number(seat) > 1;

let lines = null;
export const chosen = () => lines;
export function choose(range) {
  lines = range;
  mark(log);
  document.dispatchEvent(new CustomEvent('kiln:chosen'));
}
function mark(within) {
  for (const one of within.querySelectorAll('.l.chosen')) one.classList.remove('chosen');
  if (!lines) return;
  if (lines.from === lines.to) return row(lines.from)?.classList.add('chosen');
  for (const one of within.querySelectorAll('.l')) {
    const line = number(one);
    if (line >= lines.from && line <= lines.to) one.classList.add('chosen');
  }
}
onPaint((block) => { if (lines) mark(block); });

export function keepAddress(hash, line) {
  const address = new URL(location.href);
  if (isPinned) address.searchParams.set('claim', state.claim || seat);
  address.searchParams.delete('step');
  address.searchParams.set('line', line);
  address.hash = hash;
  history.replaceState(null, '', address);
}
export async function numberOf(query) {
  const answer = await fetch(`${here}/lines?${asked(query)}`, { redirect: 'manual' }).catch(() => null);
  return answer?.ok ? answer.json() : null;
}

// The lines that the address of the page names now.
export async function named() {
  const range = /^#L(\d+)(?:-L(\d+))?$/.exec(location.hash);
  if (range) {
    const [from, to] = [Number(range[1]), Number(range[2] ?? range[1])].sort((a, b) => a - b);
    return { from, to };
  }
  const step = /^#step:(\d+)(?::(\d+)(?:-(\d+))?)?$/.exec(location.hash);
  const first = step && await numberOf({ first_of: step[1] });
  if (!first) return null;
  const [from, to] = [step[2] ?? 1, step[3] ?? step[2] ?? 1].map((line) => first + Math.max(1, Number(line)) - 1);
  return { from: Math.min(from, to), to: Math.max(from, to) };
}
export const isNamed = () => /^#(L|step:)\d/.test(location.hash);
export async function go() {
  const range = await named();
  choose(range);
  if (range) await show(range.from);
}
export function goTo(line) {
  keepAddress(`#L${line}`, line);
  return go();
}
addEventListener('hashchange', go);

log.addEventListener('click', (event) => {
  const link = event.target.closest('.n');
  const button = event.target.closest('.fold');
  if (button) { toggle(number(button.closest('.l'))); return; }
  const more = event.target.closest('button.more');
  if (more) { repeat(more.closest('.l'), more.getAttribute('aria-expanded') === 'false'); return; }
  if (!link) return;
  event.preventDefault();
  const line = number(link.parentElement);
  const first = event.shiftKey && lines ? lines.from : line;
  const [from, to] = [first, line].sort((a, b) => a - b);
  keepAddress(from === to ? `#L${from}` : `#L${from}-L${to}`, from);
  choose({ from, to });
});

async function toggle(line) {
  const at = folds.findIndex(({ from }) => from === line);
  if (at >= 0) {
    folds.splice(at, 1);
  } else {
    const to = await numberOf({ end_of_group: line });
    if (!to || folds.some(({ from }) => from === line)) return;
    folds.push({ from: line, to });
  }
  refold();
}
