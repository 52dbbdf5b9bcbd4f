// The log as it grows. Following ends when the reader scrolls away from the end.

import { refresh } from './kiln.js';
import { grown, here, log, number, place, restart, state } from './log-blocks.js';

const button = document.getElementById('to-live');
let endAt = 0;
const isAtEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 80;
// Above where we put the page: somebody reads there.
const isAway = () => scrollY < endAt - 4 && !isAtEnd();
export function toEnd() {
  state.following = true;
  scrollTo(0, document.documentElement.scrollHeight);
  endAt = scrollY;
}
function grow(event) {
  const { first, last, html } = JSON.parse(event.data);
  if (last <= state.total) return;
  if (isAway()) state.following = false;
  document.getElementById('silent')?.remove();
  const holder = document.createElement('div');
  holder.innerHTML = html;
  let line = first;
  let isNewStep = false;
  for (const node of [...holder.children]) {
    if (node.classList.contains('l')) line = number(node);
    if (line <= state.total) continue;
    isNewStep ||= node.classList.contains('step-head');
    place(node, line);
  }
  grown(last);
  if (isNewStep) document.dispatchEvent(new CustomEvent('kiln:step'));
  if (state.following) toEnd(); else button.hidden = false;
}

let stream = null;
export const isOver = () => over;
let over = log.dataset.follow === undefined;
let [seat] = log.dataset.after.split('-');
export function follow() {
  if (stream || over) return;
  stream = new EventSource(`${here}/follow?after=${seat}-${state.total}`);
  stream.addEventListener('lines', grow);
  stream.addEventListener('restarted', begin);
  // A browser tries again by itself, but not after an answer that is none, such as that of a proxy.
  stream.addEventListener('error', () => {
    if (stream?.readyState !== EventSource.CLOSED) return;
    stream = null;
    setTimeout(() => { if (!document.hidden) follow(); }, 5000);
  });
  stream.addEventListener('complete', () => {
    over = true;
    pause();
    button.hidden = true;
    // What there is to say of a job at its end: its first error, what can be done now.
    refresh();
  });
}
// Another runner begins anew: the page goes on with an empty log, and waits for its first line.
function begin(event) {
  seat = String(JSON.parse(event.data).claim);
  restart(seat);
  const address = new URL(location.href);
  for (const name of ['claim', 'line']) address.searchParams.delete(name);
  address.hash = '';
  history.replaceState(null, '', address);
}
function pause() { stream?.close(); stream = null; }
// A page in the background needs no connection.
document.addEventListener('visibilitychange', () => { if (document.hidden) pause(); else follow(); });
addEventListener('pagehide', pause);
addEventListener('scroll', () => {
  if (over) return;
  if (isAway()) state.following = false;
  else if (isAtEnd()) { state.following = true; button.hidden = true; }
}, { passive: true });
button.addEventListener('click', () => { button.hidden = true; toEnd(); });
