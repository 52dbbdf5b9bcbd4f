// Copies a step, the lines that are chosen, or the whole log: as plain text, also what the page has not brought.

import { log, state } from './log-blocks.js';
import { chosen } from './log-lines.js';

// More than this is for a file.
const MOST = 64 << 20;
const button = document.getElementById('copy');

// A line as it is read: without colours and links, and with what a progress bar ended with.
// eslint-disable-next-line no-control-regex
const signs = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])/g;
const plain = (text) => text.replace(signs, '').replace(/\r$/gm, '').replace(/^.*\r(?=.)/gm, '');

async function text(which) {
  const query = new URLSearchParams(which);
  if (state.claim) query.set('attempt', state.claim);
  const answer = await fetch(`/api/jobs/${log.dataset.job}/log?${query}`);
  if (!answer.ok) throw new Error('not there');
  if (!query.size && Number(answer.headers.get('kiln-log-length')) > MOST) {
    await answer.body?.cancel();
    throw new Error('too long');
  }
  return plain(await answer.text());
}

// Pages without HTTPS have no clipboard; what is selected can be copied anywhere.
function byHand(copied) {
  const field = document.createElement('textarea');
  field.value = copied;
  field.className = 'sr';
  document.body.append(field);
  field.select();
  const done = document.execCommand('copy');
  field.remove();
  if (!done) throw new Error('not copied');
}
async function write(copied) {
  if (!navigator.clipboard) return byHand(await copied);
  // Browsers let a page copy for a moment after a click; what is still to come can be promised.
  if (globalThis.ClipboardItem) {
    const blob = copied.then((all) => new Blob([all], { type: 'text/plain' }));
    return navigator.clipboard.write([new ClipboardItem({ 'text/plain': blob })]);
  }
  return navigator.clipboard.writeText(await copied);
}

async function copy(which, from) {
  const label = from.textContent;
  from.disabled = true;
  const copied = text(which);
  let said = 'Copied';
  try { await write(copied); } catch {
    said = await copied.then(() => 'Not copied', (error) => error.message === 'too long' ? 'Too long: use Raw' : 'Not copied');
  }
  from.textContent = said;
  document.getElementById('announce').textContent = said;
  setTimeout(() => { from.disabled = false; from.textContent = label; title(); }, 1500);
}

function title() {
  if (button.disabled) return;
  const lines = chosen();
  button.textContent = !lines ? 'Copy' : lines.from === lines.to ? 'Copy line' : 'Copy lines';
}
document.addEventListener('kiln:chosen', title);
button.hidden = false;
button.addEventListener('click', () => {
  const lines = chosen();
  copy(lines ? { from_line: lines.from, lines: lines.to - lines.from + 1 } : {}, button);
});
log.addEventListener('click', (event) => {
  const own = event.target.closest('.step-head .copy');
  if (own) copy({ step: own.parentElement.dataset.step }, own);
});
