// The lines of a log. They lie in blocks of a fixed number, which the server draws, and blocks lie in chunks. A block
// that is far away is an empty box as high as it was, and so is a chunk: a million lines are about a hundred boxes.

export const log = document.getElementById('log');
export const here = log.dataset.here;
// How many lines there are, which claim is shown (none for the last one), and whether the end is followed.
export const state = { total: Number(log.dataset.lines), claim: log.dataset.claim ?? '', following: false };
const size = Number(log.dataset.size);
const HEIGHT = 19;
// Browsers scroll no further than 2^24 pixels: boxes of a very long log are lower than their lines.
const TALLEST = 12_000_000;
// More than a screen and what lies around it; each line that is drawn makes every jump slower.
const KEPT = 6;
// Blocks in a chunk.
const CHUNK = 50;
// Blocks in an answer.
const TOGETHER = 5;
// What is so near to the screen is brought before somebody looks at it, in pixels.
const MARGIN = 1200;

const chunks = [];
// Of chunks that are open.
const blocks = new Map();
const loaded = new Set();
const pending = new Map();
// Grows when another log takes the place of this one.
let epoch = 0;
// Groups that are folded: the lines behind `from`, up to `to`.
export const folds = [];

export const number = (row) => Number(row.id.slice(1));
export const row = (line) => document.getElementById(`L${line}`);
export const asked = (query) => {
  const wanted = new URLSearchParams(query);
  if (state.claim) wanted.set('claim', state.claim);
  return wanted;
};
export const drawn = () => [...loaded].map((i) => blocks.get(i));

// What else is done with lines when they are drawn.
const painters = [];
export const onPaint = (painter) => { painters.push(painter); };
// Colours that the server cannot say by classes.
export function colours(within) {
  for (const one of within.querySelectorAll('[data-fg]')) one.style.color = one.dataset.fg;
  for (const one of within.querySelectorAll('[data-bg]')) one.style.backgroundColor = one.dataset.bg;
}
function paint(block) {
  colours(block);
  if (folds.length) fold(block);
  for (const painter of painters) painter(block);
}

// Boxes

const tall = (lines) => lines * Math.min(HEIGHT, TALLEST / Math.max(1, state.total));
const blockOf = (line) => Math.floor((line - 1) / size);
const chunkOf = (i) => Math.floor(i / CHUNK);
const count = () => Math.max(1, Math.ceil(state.total / size));
const isOpen = (c) => chunks[c].childElementCount > 0;
// How many lines can be seen of those behind one.
function seen(line, most) {
  const end = Math.min(line + most, state.total);
  const away = folds.map(({ from, to }) => Math.max(0, Math.min(to, end) - Math.max(from, line)));
  return Math.max(0, end - line - away.reduce((sum, lines) => sum + lines, 0));
}

function empty(i) {
  const box = document.createElement('div');
  box.className = 'block';
  box.dataset.block = i;
  blocks.set(i, box);
  return box;
}
function lower(i) {
  blocks.get(i).style.height = state.total ? `${tall(seen(i * size, size))}px` : '';
}
function addChunk() {
  const box = document.createElement('div');
  box.className = 'chunk';
  chunks.push(box);
  log.append(box);
}
function close(c) {
  for (const box of chunks[c].children) blocks.delete(Number(box.dataset.block));
  chunks[c].replaceChildren();
  chunks[c].style.height = `${tall(seen(c * CHUNK * size, CHUNK * size))}px`;
}
function open(c) {
  if (isOpen(c)) return;
  const boxes = [];
  for (let i = c * CHUNK; i < Math.min((c + 1) * CHUNK, count()); i++) { boxes.push(empty(i)); lower(i); }
  chunks[c].style.height = '';
  chunks[c].append(...boxes);
}

// The page has two blocks of lines as the server wrote them; all others become boxes.
export function lay() {
  for (const one of log.querySelectorAll('.elsewhere')) one.remove();
  const written = [...log.querySelectorAll('.block')];
  for (let c = 0; c <= chunkOf(count() - 1); c++) { addChunk(); close(c); }
  for (const block of written) {
    const i = Number(block.dataset.block);
    open(chunkOf(i));
    blocks.get(i).replaceWith(block);
    blocks.set(i, block);
    loaded.add(i);
    paint(block);
  }
  if (!state.total) { open(0); loaded.add(0); }
  new ResizeObserver(soon).observe(log);
  addEventListener('scroll', soon, { passive: true });
  addEventListener('resize', soon);
}

// Folds and unfolds what is here, and makes the boxes of what is not as high as what can be seen of it.
function fold(block) {
  for (const one of block.querySelectorAll('.l')) {
    const line = number(one);
    one.classList.toggle('folded-away', folds.some(({ from, to }) => line > from && line <= to));
  }
  for (const button of block.querySelectorAll('.fold')) {
    const line = number(button.closest('.l'));
    const open = !folds.some(({ from }) => from === line);
    button.textContent = open ? '▾' : '▸';
    button.setAttribute('aria-expanded', String(open));
  }
}
// Lines that say the same as the one before them.
export function repeat(first, on) {
  first.querySelector('.more')?.setAttribute('aria-expanded', String(on));
  for (let next = first.nextElementSibling; next?.matches('.same'); next = next.nextElementSibling) next.classList.toggle('shown', on);
}
// Lines that come live and say the same as those before them become one with a number, as the server draws them.
const REPEATED = 3;
const MEANS_MORE = '.group, .endgroup, .error, .warning, .note, .debug, .command, .slow';
const text = (one) => one.querySelector('.t')?.innerHTML ?? '';
function repeats(one) {
  const words = text(one);
  const says = (other) => other?.matches('.l') && !other.matches(MEANS_MORE) && text(other) === words;
  if (!words || one.matches(MEANS_MORE) || !says(one.previousElementSibling)) return;
  let first = one.previousElementSibling;
  if (first.matches('.same')) while (first?.matches('.same')) first = first.previousElementSibling;
  else while (number(one) - number(first) < REPEATED && says(first.previousElementSibling)) first = first.previousElementSibling;
  const more = first ? number(one) - number(first) : 0;
  if (more < REPEATED) return;
  // Who follows is taken to the end in any case.
  if (state.following) gather(first, one, more); else steadily(() => gather(first, one, more));
}
function gather(first, last, more) {
  let button = first.querySelector('.more');
  if (!button) {
    button = document.createElement('button');
    Object.assign(button, { className: 'more', type: 'button', title: 'The same line again', ariaExpanded: 'false' });
    first.append(button);
  }
  button.textContent = `× ${more + 1}`;
  const isOpen = button.getAttribute('aria-expanded') === 'true';
  for (let one = last; one !== first; one = one.previousElementSibling) {
    const isNew = !one.matches('.same');
    one.classList.add('same');
    one.classList.toggle('shown', isOpen);
    if (!isNew) break;
  }
}
export function refold() {
  for (const block of drawn()) fold(block);
  for (const i of blocks.keys()) if (!loaded.has(i)) lower(i);
  for (let c = 0; c < chunks.length; c++) if (!isOpen(c)) close(c);
  soon();
}

// Brings blocks that follow each other.
function bring(first, last) {
  const mine = epoch;
  const work = (async () => {
    const query = asked({ from: first * size + 1, count: (last - first + 1) * size });
    const answer = await fetch(`${here}/lines?${query}`, { redirect: 'manual' });
    if (!answer.ok) return null;
    const html = await answer.text();
    return mine === epoch ? html : null;
  })().catch(() => null).finally(() => {
    for (let i = first; i <= last; i++) if (mine === epoch) pending.delete(i);
  });
  for (let i = first; i <= last; i++) pending.set(i, work);
  return work;
}
function fill(first, last, html) {
  const holder = document.createElement('div');
  holder.innerHTML = html;
  const parts = new Map();
  let waiting = [];
  for (const node of [...holder.childNodes]) {
    waiting.push(node);
    if (node.nodeType !== Node.ELEMENT_NODE || !node.classList.contains('l')) continue;
    // The head of a step belongs to the line behind it.
    const i = blockOf(number(node));
    if (!parts.has(i)) parts.set(i, []);
    parts.get(i).push(...waiting);
    waiting = [];
  }
  for (let i = first; i <= last; i++) {
    const block = blocks.get(i);
    if (!block || loaded.has(i)) continue;
    const nodes = parts.get(i) ?? [];
    // Lines that came live in the meantime, and that the answer does not have yet, stay.
    const live = [...block.children];
    block.replaceChildren(...nodes);
    const end = nodes.length ? number(nodes[nodes.length - 1]) : 0;
    let line = 0;
    for (const node of live) {
      if (node.classList.contains('l')) line = number(node);
      if (line > end) block.append(node);
    }
    block.style.height = '';
    loaded.add(i);
    paint(block);
  }
}

// What one looks at stays where it is while boxes above it become higher or lower.
export function steadily(change) {
  const line = document.elementFromPoint(innerWidth / 2, innerHeight / 2)?.closest('#log .l');
  const before = line?.getBoundingClientRect().top;
  change();
  if (line?.isConnected) scrollBy(0, line.getBoundingClientRect().top - before);
}

// What is far away, and how high it is; what is in sight stays, and the end of a log that grows. Asked before anything changes, so that
// the page is laid out once.
function far(near, more, measured) {
  const kept = loaded.size + more - KEPT;
  if (kept <= 0) return [];
  const last = count() - 1;
  const stays = (i) => i === last || (measured && isNear(blocks.get(i).getBoundingClientRect()));
  const order = [...loaded].filter((i) => !stays(i)).sort((a, b) => Math.abs(b - near) - Math.abs(a - near));
  return order.slice(0, kept).map((i) => [i, measured ? Math.min(blocks.get(i).offsetHeight, tall(size)) : tall(seen(i * size, size))]);
}
function forget(list, near) {
  for (const [i, height] of list) {
    const block = blocks.get(i);
    block.replaceChildren();
    block.style.height = `${height}px`;
    loaded.delete(i);
  }
  if (!list.length) return;
  const used = new Set([...loaded].map(chunkOf));
  for (let c = 0; c < chunks.length; c++) {
    if (!used.has(c) && Math.abs(c - chunkOf(near)) > 1 && isOpen(c)) close(c);
  }
}

// The block that one looks at.
function near(usual) {
  if (state.following) return usual;
  const seen = document.elementFromPoint(innerWidth / 2, innerHeight / 2)?.closest('#log .block');
  return seen ? Number(seen.dataset.block) : usual;
}

// Brings what is in sight and is not here.

let waits = false;
export function soon() {
  if (waits) return;
  waits = true;
  requestAnimationFrame(() => { waits = false; look(); });
}
const isNear = (box) => box.bottom > -MARGIN && box.top < innerHeight + MARGIN;
function missing() {
  // Boxes lie below each other: the first one in sight is found by halves.
  let [low, high] = [0, chunks.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (chunks[middle].getBoundingClientRect().bottom <= -MARGIN) low = middle + 1; else high = middle;
  }
  const found = [];
  for (let c = low; c < chunks.length && isNear(chunks[c].getBoundingClientRect()); c++) {
    open(c);
    for (const box of chunks[c].children) {
      const i = Number(box.dataset.block);
      if (loaded.has(i) || pending.has(i) || !seen(i * size, size)) continue;
      if (isNear(box.getBoundingClientRect())) found.push(i);
    }
  }
  return found;
}
let busy = false;
async function look() {
  // Whoever drags the bar through a long log passes by much: one answer at a time, then where one is by then.
  if (busy || log.hidden) return;
  const wanted = missing();
  if (!wanted.length) return;
  let last = wanted[0];
  while (wanted.includes(last + 1) && last - wanted[0] + 1 < TOGETHER) last += 1;
  busy = true;
  const html = await bring(wanted[0], last);
  busy = false;
  if (html === null) { setTimeout(soon, 5000); return; }
  steadily(() => {
    const middle = near(wanted[0]);
    const list = far(middle, last - wanted[0] + 1, true);
    fill(wanted[0], last, html);
    forget(list, middle);
  });
  soon();
}

// Shows a line in the middle: one question, and one layout of the page.
export async function show(line) {
  const wanted = Math.min(Math.max(1, line), Math.max(1, state.total));
  state.following = false;
  const group = folds.findIndex(({ from, to }) => wanted > from && wanted <= to);
  if (group >= 0) { folds.splice(group, 1); refold(); }
  const i = blockOf(wanted);
  const mine = epoch;
  // Whoever has asked for it draws it first.
  if (pending.has(i)) await pending.get(i);
  if (!loaded.has(i)) {
    // Half a screen around it is to be seen at once, too; what lies behind that comes afterwards.
    const half = Math.ceil(innerHeight / 2 / HEIGHT);
    const at = (wanted - 1) % size;
    const lacks = (k) => k >= 0 && k < count() && !loaded.has(k) && !pending.has(k);
    const first = at < half && lacks(i - 1) ? i - 1 : i;
    const last = at + half >= size && lacks(i + 1) ? i + 1 : i;
    const html = await bring(first, last);
    if (mine !== epoch) return;
    if (html !== null && !loaded.has(i)) {
      open(chunkOf(first));
      open(chunkOf(last));
      const list = far(i, last - first + 1, false);
      fill(first, last, html);
      forget(list, i);
    }
  }
  // The end of a group is a line that is not shown.
  let there = row(wanted);
  if (there?.matches('.same:not(.shown)')) {
    let first = there;
    while (first?.matches('.same')) first = first.previousElementSibling;
    if (first) repeat(first, true);
  }
  while (there && !there.getClientRects().length) there = there.previousElementSibling;
  there?.scrollIntoView({ block: 'center' });
  soon();
}

// The log as it grows

export function place(node, line) {
  const i = blockOf(line);
  const c = chunkOf(i);
  if (c < chunks.length && !isOpen(c)) return;
  if (c >= chunks.length) addChunk();
  let block = blocks.get(i);
  if (!block) {
    const middle = near(i);
    const list = far(middle, 1, true);
    block = empty(i);
    chunks[c].append(block);
    loaded.add(i);
    steadily(() => forget(list, middle));
  }
  if (node.classList.contains('l') && row(line)) return;
  // A block that is not here yet brings its lines when it is looked at. One that is on its way may lack these.
  const coming = pending.has(i);
  if (!loaded.has(i) && block.childElementCount === 0 && block.style.height && !coming) return;
  if (!coming) loaded.add(i);
  // The head of a step that the page has already.
  if (node.classList.contains('step-head')) {
    const heads = log.querySelectorAll('.step-head');
    if (heads.length && heads[heads.length - 1].dataset.step === node.dataset.step) return;
  }
  block.append(node);
  colours(node);
  if (node.classList.contains('l')) repeats(node);
}
// Boxes of a log that grows become lower, so that all of it can be scrolled to.
let scaled = state.total;
export function grown(total) {
  state.total = total;
  log.dataset.lines = total;
  const end = chunks.length - 1;
  if (!isOpen(end)) close(end);
  if (total * HEIGHT <= TALLEST || total < scaled * 1.1) return;
  scaled = total;
  steadily(() => {
    for (let c = 0; c < chunks.length; c++) if (!isOpen(c)) close(c);
    for (const i of blocks.keys()) if (!loaded.has(i)) lower(i);
  });
}
// Another log takes the place of this one, and has no lines yet.
export function restart(claim) {
  epoch += 1;
  state.claim = claim;
  state.total = 0;
  scaled = 0;
  log.dataset.lines = 0;
  loaded.clear();
  pending.clear();
  blocks.clear();
  folds.length = 0;
  for (const box of chunks.splice(0)) box.remove();
  addChunk();
  open(0);
  loaded.add(0);
}
