// What moves on every page: parts that change, times that pass, light and dark, keys.

const $ = (selector, of = document) => of.querySelector(selector);
const $$ = (selector, of = document) => [...of.querySelectorAll(selector)];

// Light and dark. The choice is a cookie, so that the server writes the page in it at once.
const theme = $('#theme');
if (theme) {
  theme.hidden = false;
  theme.addEventListener('click', () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
    document.cookie = `kiln_theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=lax`;
  });
}

// Times that pass.
function length(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return s % 60 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${s / 60} min`;
  return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
}
function ago(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 10) return 'just now';
  if (s < 60) return `${s} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ago`;
  if (s < 172800) return 'yesterday';
  return `${Math.floor(s / 86400)} days ago`;
}
function tick() {
  const now = Date.now();
  for (const one of $$('[data-since]')) one.textContent = length(Math.max(0, now - one.dataset.since));
  for (const one of $$('time[datetime]')) one.textContent = ago(Math.max(0, now - Date.parse(one.dateTime)));
}
setInterval(() => { if (!document.hidden) tick(); }, 1000);

// Parts that change: the server says that something did, and the page asks for itself again.
const page = $('#page');
let asking = false;
let again = false;
// The entry that the keys have reached.
let at = null;
export async function refresh() {
  if (asking) { again = true; return; }
  asking = true;
  try {
    const answer = await fetch(location.href.split('#')[0], { headers: { accept: 'text/html' }, redirect: 'manual' });
    if (!answer.ok) return;
    const next = new DOMParser().parseFromString(await answer.text(), 'text/html');
    for (const old of $$('[data-part]')) {
      const fresh = next.getElementById(old.id);
      // The page has become another one altogether.
      if (!fresh && old.dataset.whole !== undefined) { location.reload(); return; }
      if (!fresh || fresh.isEqualNode(old) || holds(old)) continue;
      const details = $$('details[id]', old).map((one) => [one.id, one.open]);
      const focus = old.contains(document.activeElement) ? trace(document.activeElement) : null;
      const entry = at && old.contains(at) ? trace($('[data-open]', at)) : null;
      const now = document.importNode(fresh, true);
      old.replaceWith(now);
      for (const [id, open] of details) { const one = document.getElementById(id); if (one) one.open = open; }
      if (focus) $(focus, now)?.focus({ preventScroll: true });
      if (entry) {
        at = $(entry, now)?.closest('[data-entry]') ?? null;
        at?.classList.add('at');
      }
    }
    announce();
    const live = $('#page', next)?.dataset.live;
    if (page && live === undefined) { delete page.dataset.live; stop(); }
    document.dispatchEvent(new CustomEvent('kiln:refreshed'));
  } catch {
    // The server is away; the stream comes back when it does, and asks again.
  } finally {
    asking = false;
    if (again) { again = false; refresh(); }
  }
}

// Says how the thing on the page stands now, once, when that is not what it was.
let state = $('[data-state]')?.dataset.state;
function announce() {
  const now = $('[data-state]')?.dataset.state;
  if (now === state) return;
  state = now;
  const place = $('#announce');
  if (place) place.textContent = now ?? '';
}

// How an element is found again in the page that comes next.
function trace(one) {
  if (!one) return null;
  if (one.id) return `#${CSS.escape(one.id)}`;
  const href = one.getAttribute('href');
  return href ? `[href="${CSS.escape(href)}"]` : null;
}

// A part in which somebody is typing stays as it is.
function holds(part) {
  const active = document.activeElement;
  return active && part.contains(active) && active.matches('input, select, textarea');
}

let stream = null;
function stop() { stream?.close(); stream = null; }
function listen() {
  if (!page || page.dataset.live === undefined || stream) return;
  let lost = false;
  stream = new EventSource(`/live?run=${page.dataset.live}`);
  stream.addEventListener('changed', refresh);
  stream.addEventListener('error', () => {
    lost = true;
    if (stream?.readyState !== EventSource.CLOSED) return;
    // An answer that is none, such as that of a proxy while the server starts.
    stream = null;
    setTimeout(() => { if (!document.hidden) { listen(); refresh(); } }, 5000);
  });
  stream.addEventListener('open', () => { if (lost) { lost = false; refresh(); } });
}
listen();
// A page in the background asks for nothing, and catches up when it is looked at.
document.addEventListener('visibilitychange', () => {
  if (document.hidden) stop();
  else if (page?.dataset.live !== undefined) { listen(); refresh(); }
});
addEventListener('pagehide', stop);

// The palette comes when it is wanted.
async function jump(event) {
  event.preventDefault();
  // Two questions at once would hide each other.
  help?.close();
  (await import('./palette.js')).open();
}
if ($('#palette')) {
  $('#jump')?.addEventListener('click', (event) => { if (!event.ctrlKey && !event.metaKey && !event.shiftKey) jump(event); });
  document.addEventListener('keydown', (event) => {
    const plain = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
    if (plain && event.key.toLowerCase() === 'k') jump(event);
  });
}

// Keys.
const help = $('#help');
const keys = $('#keys');
if (keys && help) {
  keys.hidden = false;
  keys.addEventListener('click', () => help.showModal());
}
function move(by) {
  const entries = $$('[data-entry]').filter((one) => one.getClientRects().length);
  if (!entries.length) return;
  const old = entries.indexOf(at);
  const next = old < 0 ? (by > 0 ? 0 : entries.length - 1) : Math.min(entries.length - 1, Math.max(0, old + by));
  at?.classList.remove('at');
  at = entries[next];
  at.classList.add('at');
  at.scrollIntoView({ block: 'nearest' });
  ($('[data-open]', at) ?? at).focus({ preventScroll: true });
}
function view() {
  const tabs = $$('#views a');
  const now = tabs.findIndex((tab) => tab.hasAttribute('aria-current'));
  if (tabs.length) location.href = tabs[(now + 1) % tabs.length].href;
}
const actions = {
  '/': () => $('#search')?.focus(),
  '?': () => help?.showModal(),
  j: () => move(1),
  k: () => move(-1),
  g: view,
  f: () => ($('#first-error') ?? $('.error-link'))?.click(),
};
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $('dialog[open]')) return;
  if (event.target.matches?.('input, select, textarea')) {
    if (event.key === 'Escape') event.target.blur();
    return;
  }
  const asked = new CustomEvent('kiln:key', { detail: event.key, cancelable: true });
  if (!document.dispatchEvent(asked)) { event.preventDefault(); return; }
  const action = actions[event.key];
  if (action) { event.preventDefault(); action(); }
});
