// The palette: a few letters, and the page that they mean. The server finds; what is shown are the links of its page.

const dialog = document.getElementById('palette');
const field = document.getElementById('palette-text');
const list = document.getElementById('palette-list');
const said = document.getElementById('palette-said');

// Typing is faster than anybody reads: the server is asked when a hand rests.
const REST = 120;

let chosen = -1;
let waits = 0;
let question = null;

export function open() {
  if (dialog.open) { dialog.close(); return; }
  field.value = '';
  show([]);
  dialog.showModal();
  field.focus();
  ask();
}

async function ask() {
  question?.abort();
  const own = question = new AbortController();
  try {
    const address = `/jump?q=${encodeURIComponent(field.value)}`;
    const answer = await fetch(address, { headers: { accept: 'text/html' }, redirect: 'manual', signal: own.signal });
    if (!answer.ok) throw new Error('no answer');
    const found = new DOMParser().parseFromString(await answer.text(), 'text/html');
    if (own !== question) return;
    show([...found.querySelectorAll('#found a[data-kind]')]);
    const count = list.childElementCount;
    said.textContent = count === 1 ? '1 page' : count ? `${count} pages` : 'Nothing is called so.';
  } catch {
    if (own !== question) return;
    show([]);
    said.textContent = 'The server does not answer, or you have to sign in again.';
  }
}

function show(links) {
  list.replaceChildren(...links.map(option));
  field.setAttribute('aria-expanded', String(links.length > 0));
  choose(links.length ? 0 : -1);
  said.textContent = '';
}

function option(link, at) {
  const one = document.createElement('li');
  one.id = `palette-${at}`;
  one.setAttribute('role', 'option');
  one.dataset.href = link.getAttribute('href');
  const what = document.createElement('span');
  what.className = 'what';
  what.append(words('title', link.textContent));
  const about = link.parentElement.querySelector('.about');
  if (about) what.append(' ', words('about', about.textContent));
  const icon = link.closest('li').querySelector('svg.status');
  if (icon) one.append(document.importNode(icon, true));
  one.append(what, ' ', words('tag', link.dataset.kind));
  return one;
}

function words(name, text) {
  const one = document.createElement('span');
  one.className = name;
  one.textContent = text;
  return one;
}

function choose(at) {
  list.children[chosen]?.removeAttribute('aria-selected');
  chosen = at;
  const one = list.children[at];
  if (!one) { field.removeAttribute('aria-activedescendant'); return; }
  one.setAttribute('aria-selected', 'true');
  one.scrollIntoView({ block: 'nearest' });
  field.setAttribute('aria-activedescendant', one.id);
}

function go(one, elsewhere) {
  if (!one) return;
  if (elsewhere) window.open(one.dataset.href, '_blank', 'noopener');
  else location.assign(one.dataset.href);
  dialog.close();
}

field.addEventListener('input', () => {
  clearTimeout(waits);
  waits = setTimeout(ask, REST);
});
field.addEventListener('keydown', (event) => {
  const count = list.childElementCount;
  const steps = { ArrowDown: chosen + 1, ArrowUp: chosen - 1 + count, Home: 0, End: count - 1 };
  // In the text these two move the cursor.
  const edge = (event.key === 'Home' || event.key === 'End') && field.value !== '';
  if (event.key in steps && count && !edge) {
    event.preventDefault();
    choose(steps[event.key] % count);
  } else if (event.key === 'Enter') {
    event.preventDefault();
    go(list.children[chosen], event.ctrlKey || event.metaKey);
  }
});
list.addEventListener('click', (event) => go(event.target.closest('li'), event.ctrlKey || event.metaKey));
// A click beside it closes it, as Escape does.
dialog.addEventListener('click', (event) => { if (event.target === dialog) dialog.close(); });
dialog.addEventListener('close', () => { clearTimeout(waits); question?.abort(); question = null; });
