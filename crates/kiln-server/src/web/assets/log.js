// The log of a job. Lines lie in blocks of a fixed number; a block that is far away is an empty box as high as it
// was, so that a million lines cost a few thousand boxes. The server draws the lines.

const log = document.getElementById('log');
const size = Number(log.dataset.size);
const here = log.dataset.here;
const HEIGHT = 19;
// Browsers scroll no further than 2^24 pixels: boxes of a very long log are lower than their lines.
const TALLEST = 12_000_000;
const tall = (lines) => lines * Math.min(HEIGHT, TALLEST / Math.max(1, total));
const KEPT = 40;
let total = Number(log.dataset.lines);
let claim = log.dataset.claim ?? '';
const blocks = [];
const loaded = new Set();
const folds = [];

// Blocks

for (const one of log.querySelectorAll('.elsewhere')) one.remove();
for (const one of log.querySelectorAll('.block')) blocks[Number(one.dataset.block)] = one;

const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) load(Number(entry.target.dataset.block));
}, { rootMargin: '1200px' });

function lay() {
  const count = Math.max(1, Math.ceil(total / size));
  let last = null;
  for (let i = 0; i < count; i++) {
    let block = blocks[i];
    if (!block) {
      block = document.createElement('div');
      block.className = 'block';
      block.dataset.block = i;
      const lines = Math.min(size, total - i * size);
      if (lines > 0) block.style.height = `${tall(lines)}px`;
      blocks[i] = block;
      if (last) last.after(block); else log.prepend(block);
    } else if (block.childElementCount) {
      loaded.add(i);
      paint(block);
    }
    observer.observe(block);
    last = block;
  }
}

const pending = new Map();
function load(i) {
  if (loaded.has(i) || i >= blocks.length) return Promise.resolve();
  if (pending.has(i)) return pending.get(i);
  const work = (async () => {
    const query = new URLSearchParams({ from: i * size + 1, count: size });
    if (claim) query.set('claim', claim);
    const answer = await fetch(`${here}/lines?${query}`);
    if (!answer.ok) return;
    const html = await answer.text();
    if (!blocks[i]) return;
    steadily(() => {
      // Lines that came live in the meantime, and that the answer does not have yet, stay.
      const live = [...blocks[i].children];
      blocks[i].innerHTML = html;
      const last = Math.max(0, ...[...blocks[i].querySelectorAll('.l')].map(number));
      let line = 0;
      for (const node of live) {
        if (node.classList.contains('l')) line = number(node);
        if (line > last) blocks[i].append(node);
      }
      blocks[i].style.height = '';
      loaded.add(i);
      paint(blocks[i]);
      forget(i);
    });
  })().catch(() => {}).finally(() => pending.delete(i));
  pending.set(i, work);
  return work;
}

// What one looks at stays where it is while boxes above it become higher or lower.
function steadily(change) {
  const line = document.elementFromPoint(innerWidth / 2, innerHeight / 2)?.closest('#log .l');
  const before = line?.getBoundingClientRect().top;
  change();
  if (line?.isConnected) scrollBy(0, line.getBoundingClientRect().top - before);
}

// What is far away becomes an empty box again; the end of a log that grows stays.
function forget(near) {
  if (loaded.size <= KEPT) return;
  const far = [...loaded].sort((a, b) => Math.abs(b - near) - Math.abs(a - near));
  for (const i of far.slice(0, loaded.size - KEPT)) {
    if (i === blocks.length - 1) continue;
    const block = blocks[i];
    block.style.height = `${Math.min(block.offsetHeight, tall(size))}px`;
    block.replaceChildren();
    loaded.delete(i);
  }
}

// What the server cannot say by classes, and what this reader has chosen.
function paint(block) {
  for (const one of block.querySelectorAll('[data-fg]')) one.style.color = one.dataset.fg;
  for (const one of block.querySelectorAll('[data-bg]')) one.style.backgroundColor = one.dataset.bg;
  mark(block);
  choose(block);
  fold(block);
}

const number = (row) => Number(row.id.slice(1));
const row = (line) => document.getElementById(`L${line}`);

async function show(line) {
  const wanted = Math.min(Math.max(1, line), Math.max(1, total));
  following = false;
  const i = Math.floor((wanted - 1) / size);
  await Promise.all([load(i), i > 0 ? load(i - 1) : null]);
  row(wanted)?.scrollIntoView({ block: 'center' });
}

// Lines that an address names: #L120 or #L120-L130

let chosen = null;
function read() {
  const found = /^#L(\d+)(?:-L(\d+))?$/.exec(location.hash);
  if (!found) return null;
  const ends = [Number(found[1]), Number(found[2] ?? found[1])].sort((a, b) => a - b);
  return { from: ends[0], to: ends[1] };
}
function choose(within) {
  for (const one of within.querySelectorAll('.l')) {
    const line = number(one);
    one.classList.toggle('chosen', chosen !== null && line >= chosen.from && line <= chosen.to);
  }
}
function go() {
  chosen = read();
  choose(log);
  if (chosen) show(chosen.from);
}
addEventListener('hashchange', go);
log.addEventListener('click', (event) => {
  const link = event.target.closest('.n');
  const button = event.target.closest('.fold');
  if (button) return toggle(number(button.closest('.l')), button);
  if (!link) return;
  event.preventDefault();
  const line = number(link.parentElement);
  const from = event.shiftKey && chosen ? chosen.from : line;
  const ends = [from, line].sort((a, b) => a - b);
  history.replaceState(null, '', ends[0] === ends[1] ? `#L${line}` : `#L${ends[0]}-L${ends[1]}`);
  chosen = read();
  choose(log);
});

// Groups

async function toggle(line, button) {
  const at = folds.findIndex((one) => one.from === line);
  if (at >= 0) {
    folds.splice(at, 1);
  } else {
    const query = new URLSearchParams({ end_of_group: line });
    if (claim) query.set('claim', claim);
    const end = await (await fetch(`${here}/lines?${query}`)).json();
    folds.push({ from: line, to: end ?? total });
  }
  button.textContent = at >= 0 ? '▾' : '▸';
  button.setAttribute('aria-expanded', String(at >= 0));
  fold(log);
}
function fold(within) {
  for (const one of within.querySelectorAll('.l')) {
    const line = number(one);
    one.classList.toggle('folded-away', folds.some((range) => line > range.from && line <= range.to));
  }
}

// Steps

const steps = document.getElementById('steps')?.parentElement;
steps?.addEventListener('click', async (event) => {
  const link = event.target.closest('a[data-step]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const query = new URLSearchParams({ first_of: link.dataset.step });
  if (claim) query.set('claim', claim);
  const line = await (await fetch(`${here}/lines?${query}`)).json();
  if (!line) return;
  await show(line);
  const head = row(line)?.previousElementSibling;
  (head?.matches('.step-head') ? head : row(line))?.scrollIntoView({ block: 'start' });
  for (const one of steps.querySelectorAll('li')) one.classList.toggle('here', one.contains(link));
});

// Search over the whole log, on the server

const search = document.getElementById('search');
const hitsBox = document.querySelector('.log-tools .hits');
const output = document.getElementById('hits');
const only = document.getElementById('only');
const list = document.getElementById('only-hits');
let hits = [];
let more = false;
let current = -1;
let asked = 0;
document.querySelector('.log-tools .find').hidden = false;

async function find() {
  const text = search.value;
  const turn = ++asked;
  hits = [];
  more = false;
  current = -1;
  if (text) {
    output.textContent = 'searching…';
    hitsBox.hidden = false;
    const query = new URLSearchParams({ q: text, ignore_case: 'true', limit: '1000' });
    if (claim) query.set('attempt', claim);
    let after = null;
    do {
      if (after) query.set('after', after);
      const answer = await fetch(`/api/jobs/${log.dataset.job}/log/search?${query}`).catch(() => null);
      if (turn !== asked) return;
      if (!answer?.ok) break;
      const found = await answer.json();
      if (turn !== asked) return;
      hits.push(...found.items);
      after = found.next;
      more = Boolean(after);
    } while (after && hits.length < 1000);
  }
  hitsBox.hidden = !text;
  tell();
  for (const i of loaded) mark(blocks[i]);
  highlight();
  listHits();
  if (hits.length) jump(1);
}
function tell() {
  const count = more ? `${hits.length}+` : `${hits.length}`;
  const what = hits.length === 1 ? 'hit' : 'hits';
  output.textContent = current >= 0 ? `${current + 1} of ${count} ${what}` : `${count} ${what}`;
}
async function jump(by) {
  if (!hits.length) return;
  current = (current + by + hits.length) % hits.length;
  tell();
  const line = hits[current].line;
  chosen = { from: line, to: line };
  choose(log);
  await show(line);
  highlight();
}
function mark(block) {
  const lines = new Set(hits.map((hit) => hit.line));
  for (const one of block.querySelectorAll('.l')) one.classList.toggle('hit', lines.has(number(one)));
}
function highlight() {
  if (!globalThis.Highlight || !CSS.highlights) return;
  const text = search.value.toLowerCase();
  const ranges = [];
  if (text) {
    for (const one of log.querySelectorAll('.l.hit .t')) {
      const walker = document.createTreeWalker(one, NodeFilter.SHOW_TEXT);
      for (let node = walker.nextNode(); node && ranges.length < 2000; node = walker.nextNode()) {
        const content = node.data.toLowerCase();
        for (let at = content.indexOf(text); at >= 0; at = content.indexOf(text, at + text.length)) {
          const range = new Range();
          range.setStart(node, at);
          range.setEnd(node, at + text.length);
          ranges.push(range);
        }
      }
    }
  }
  CSS.highlights.set('found', new Highlight(...ranges));
}
function listHits() {
  list.replaceChildren(...hits.map((hit) => {
    const item = document.createElement('li');
    item.className = 'l';
    const link = document.createElement('a');
    link.className = 'n';
    link.href = `#L${hit.line}`;
    link.dataset.n = hit.line;
    const text = document.createElement('span');
    text.className = 't';
    // eslint-disable-next-line no-control-regex
    text.textContent = hit.text.replace(/\x1b\[[0-9;:]*m/g, '').replace(/^.*\r(?=.)/, '');
    item.append(link, text);
    return item;
  }));
}
let timer = 0;
search.addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(find, 200); });
search.addEventListener('keydown', (event) => {
  if (event.key === 'Enter') { event.preventDefault(); jump(event.shiftKey ? -1 : 1); }
});
document.getElementById('next').addEventListener('click', () => jump(1));
document.getElementById('previous').addEventListener('click', () => jump(-1));
function onlyHits(on) {
  only.setAttribute('aria-pressed', String(on));
  list.hidden = !on;
  log.hidden = on;
}
only.addEventListener('click', () => onlyHits(list.hidden));
list.addEventListener('click', (event) => {
  const item = event.target.closest('.l');
  if (!item) return;
  event.preventDefault();
  onlyHits(false);
  const line = Number(item.firstChild.dataset.n);
  history.replaceState(null, '', `#L${line}`);
  go();
});

// How it is shown

const times = document.getElementById('times');
const wrap = document.getElementById('wrap');
const modes = ['off', 'relative', 'absolute'];
const kept = (name, usual) => { try { return localStorage.getItem(name) ?? usual; } catch { return usual; } };
const keep = (name, value) => { try { localStorage.setItem(name, value); } catch { /* It lasts for this page. */ } };
let mode = kept('kiln.times', 'off');
function stamp() {
  for (const one of [log, list]) {
    one.classList.toggle('relative', mode === 'relative');
    one.classList.toggle('absolute', mode === 'absolute');
  }
  times.textContent = `Times: ${mode}`;
}
times.hidden = false;
times.addEventListener('click', () => {
  mode = modes[(modes.indexOf(mode) + 1) % modes.length];
  keep('kiln.times', mode);
  stamp();
});
function wrapped(on) {
  log.classList.toggle('wrap', on);
  wrap.setAttribute('aria-pressed', String(on));
  keep('kiln.wrap', on);
}
wrap.hidden = false;
wrap.addEventListener('click', () => wrapped(!log.classList.contains('wrap')));

// The log as it grows. Following ends when the reader scrolls away from the end.

const live = document.getElementById('to-live');
let following = false;
let endAt = 0;
const isAtEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 80;
// Above where we put the page: somebody reads there.
const isAway = () => scrollY < endAt - 4 && !isAtEnd();
function toEnd() {
  scrollTo(0, document.documentElement.scrollHeight);
  endAt = scrollY;
}
function grow(event) {
  const { first, last, html } = JSON.parse(event.data);
  if (last <= total) return;
  if (isAway()) following = false;
  document.getElementById('silent')?.remove();
  const holder = document.createElement('template');
  holder.innerHTML = html;
  let line = first;
  for (const node of [...holder.content.childNodes]) {
    if (node.nodeType !== Node.ELEMENT_NODE) continue;
    if (node.classList.contains('l')) line = number(node);
    if (line <= total) continue;
    place(node, line);
  }
  total = last;
  log.dataset.lines = total;
  scale();
  if (following) toEnd(); else live.hidden = false;
}
// Boxes of a log that grows become lower, so that all of it can be scrolled to.
let scaled = total;
function scale() {
  if (total * HEIGHT <= TALLEST || total < scaled * 1.1) return;
  scaled = total;
  steadily(() => {
    for (const [i, block] of blocks.entries()) if (!loaded.has(i)) block.style.height = `${tall(size)}px`;
  });
}
// The block that one looks at.
function near(usual) {
  if (following) return usual;
  const seen = document.elementFromPoint(innerWidth / 2, innerHeight / 2)?.closest('#log .block');
  return seen ? Number(seen.dataset.block) : usual;
}
function place(node, line) {
  const i = Math.floor((line - 1) / size);
  let block = blocks[i];
  if (!block) {
    block = document.createElement('div');
    block.className = 'block';
    block.dataset.block = i;
    blocks[i] = block;
    loaded.add(i);
    log.append(block);
    observer.observe(block);
    forget(near(i));
  }
  if (node.classList.contains('l') && row(line)) return;
  // A block that is not here yet brings its lines when it is looked at. One that is on its way may lack these.
  const waits = pending.has(i);
  if (!loaded.has(i) && block.childElementCount === 0 && block.style.height && !waits) return;
  if (!waits) loaded.add(i);
  // The head of a step that the page has already.
  if (node.classList.contains('step-head')) {
    const heads = log.querySelectorAll('.step-head');
    if (heads.length && heads[heads.length - 1].dataset.step === node.dataset.step) return;
  }
  block.append(node);
  for (const one of node.querySelectorAll('[data-fg]')) one.style.color = one.dataset.fg;
  for (const one of node.querySelectorAll('[data-bg]')) one.style.backgroundColor = one.dataset.bg;
}
let stream = null;
let complete = log.dataset.follow === undefined;
let seat = log.dataset.after.split('-')[0];
function follow() {
  if (stream || complete) return;
  stream = new EventSource(`${here}/follow?after=${seat}-${total}`);
  stream.addEventListener('lines', grow);
  stream.addEventListener('restarted', begin);
  // A browser tries again by itself, but not after an answer that is none, such as that of a proxy.
  stream.addEventListener('error', () => {
    if (stream?.readyState !== EventSource.CLOSED) return;
    stream = null;
    setTimeout(() => { if (!document.hidden) follow(); }, 5000);
  });
  stream.addEventListener('complete', () => {
    complete = true;
    pause();
    live.hidden = true;
  });
}
// Another runner begins anew: the page goes on with an empty log, and waits for its first line.
function begin(event) {
  seat = String(JSON.parse(event.data).claim);
  claim = seat;
  total = 0;
  scaled = 0;
  log.dataset.lines = 0;
  loaded.clear();
  blocks.length = 0;
  folds.length = 0;
  for (const block of log.querySelectorAll('.block')) { observer.unobserve(block); block.remove(); }
}
function pause() { stream?.close(); stream = null; }
// A page in the background needs no connection.
document.addEventListener('visibilitychange', () => { if (document.hidden) pause(); else follow(); });
addEventListener('pagehide', pause);
addEventListener('scroll', () => {
  if (complete) return;
  if (isAway()) following = false;
  else if (isAtEnd()) { following = true; live.hidden = true; }
}, { passive: true });
live.addEventListener('click', () => { following = true; live.hidden = true; toEnd(); });

// Keys

let cursor = 0;
function walk(by) {
  const rows = [...log.querySelectorAll('.l')];
  if (!cursor) {
    const first = rows.find((one) => one.getBoundingClientRect().top > 120);
    cursor = chosen?.from ?? (first ? number(first) : 1);
  }
  cursor = Math.min(total, Math.max(1, cursor + by));
  chosen = { from: cursor, to: cursor };
  choose(log);
  const there = row(cursor);
  if (there) there.scrollIntoView({ block: 'nearest' }); else show(cursor);
}
document.addEventListener('kiln:key', (event) => {
  const actions = {
    n: () => jump(1),
    N: () => jump(-1),
    t: () => times.click(),
    j: () => walk(1),
    k: () => walk(-1),
    f: () => {
      const line = Number(log.dataset.error);
      if (line) { history.replaceState(null, '', `#L${line}`); go(); }
    },
  };
  if (actions[event.detail]) { event.preventDefault(); actions[event.detail](); }
});
document.getElementById('first-error')?.addEventListener('click', (event) => {
  event.preventDefault();
  history.replaceState(null, '', `#L${log.dataset.error}`);
  go();
});

log.classList.add('on');
lay();
stamp();
wrapped(kept('kiln.wrap', 'true') !== 'false');
if (read()) go();
else if (!complete) { following = true; toEnd(); }
else if (log.dataset.error) show(Number(log.dataset.error));
follow();
