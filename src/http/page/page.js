'use strict';
// Sessions, one live session, and what it asks. Everything is drawn as text, but for the server's own drawing of a session.
const $ = (id) => document.getElementById(id);
const directory = new URLSearchParams(location.search).get('directory');
let current = location.hash.slice(1) || null;
let drawing = null;
let busy = false;
let statusEvents = 0;
// True while the newest part of the conversation is in view, where it then stays.
let follows = true;

const route = (path) => {
  if (!directory) return path;
  return path + (path.includes('?') ? '&' : '?') + 'directory=' + encodeURIComponent(directory);
};

async function call(method, path, body) {
  const init = { method, headers: { 'content-type': 'application/json' } };
  if (body !== undefined) init.body = JSON.stringify(body);
  const response = await fetch(route(path), init);
  const text = await response.text();
  if (response.ok) return text ? JSON.parse(text) : null;
  let words = 'The server answered ' + response.status + '.';
  try {
    const refusal = JSON.parse(text);
    words = refusal.data?.message ?? refusal.message ?? words;
  } catch { /* no words */ }
  say(words);
  throw new Error(words);
}

function say(words) { $('state').textContent = words; }

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

async function list() {
  const sessions = await call('GET', '/session?roots=true&limit=100');
  const rows = sessions.map((session) => {
    const row = element('li');
    const button = element('button', session.title, { type: 'button' });
    button.append(element('small', new Date(session.time.updated).toLocaleString()));
    if (session.id === current) button.setAttribute('aria-current', 'true');
    button.addEventListener('click', () => open(session.id));
    row.append(button);
    return row;
  });
  $('sessions').replaceChildren(...rows);
}

async function open(id, keepsChoice = false) {
  current = id;
  follows = true;
  history.replaceState(null, '', '#' + id);
  if (!keepsChoice) for (const name of ['agent', 'model']) $(name).value = '';
  write('');
  if (matchMedia('(max-width: 45rem)').matches) $('list').open = false;
  await Promise.all([draw(), list(), status(), asks()]);
}

// Puts the server's drawing in the place of what was there, at the same place and with the same parts unfolded.
async function draw() {
  if (!current) return;
  const id = current;
  const response = await fetch(route('/page/session/' + id));
  if (!response.ok || id !== current) {
    if (!response.ok) say('The session is not there.');
    return;
  }
  const drawn = new DOMParser().parseFromString(await response.text(), 'text/html');
  const box = $('conversation');
  const unfolded = new Set([...box.querySelectorAll('details')].flatMap((it, idx) => (it.open ? [idx] : [])));
  const parts = [drawn.querySelector('.figures'), drawn.querySelector('main')].filter(Boolean);
  const place = box.scrollTop;
  for (const part of parts) part.querySelectorAll('script').forEach((it) => it.remove());
  const main = parts.map((part) => document.importNode(part, true));
  for (const part of main) part.removeAttribute('id');
  box.replaceChildren(...main);
  box.querySelectorAll('details').forEach((it, idx) => { if (unfolded.has(idx)) it.open = true; });
  box.scrollTop = place;
  follow();
  $('title').textContent = drawn.querySelector('h1')?.textContent ?? 'Session';
}

function follow() {
  if (follows) $('conversation').scrollTop = $('conversation').scrollHeight;
}

// Shows text that is being written, or puts it away.
function write(text, isMore = false) {
  const live = $('live');
  if (isMore) live.append(text);
  else live.textContent = text;
  live.hidden = !live.textContent;
  live.scrollTop = live.scrollHeight;
  follow();
}

function redraw() {
  if (drawing) return;
  drawing = setTimeout(async () => {
    drawing = null;
    await draw().catch(() => {});
  }, 300);
}

// Offers the agents and models of the directory; the first of each leaves the choice to the session.
async function choices() {
  const [agents, usable] = await Promise.all([call('GET', '/agent'), call('GET', '/config/providers')]);
  const offered = agents.filter((agent) => agent.mode !== 'subagent' && !agent.hidden);
  offer($('agent'), offered.map((agent) => element('option', agent.name, { value: agent.name })));
  offer($('model'), usable.providers.map((provider) => {
    const group = element('optgroup', undefined, { label: provider.name });
    for (const model of Object.values(provider.models)) {
      group.append(element('option', model.name, { value: provider.id + '/' + model.id }));
    }
    return group;
  }));
}

function offer(select, options) {
  const before = select.value;
  select.replaceChildren(element('option', 'As before', { value: '' }), ...options);
  select.value = before;
  if (select.selectedIndex < 0) select.value = '';
}

// What the user chose for the next prompts, in the words of the API.
function chosen() {
  const named = {};
  if ($('agent').value) named.agent = $('agent').value;
  const [providerID, ...modelID] = $('model').value.split('/');
  if (providerID) named.model = { providerID, modelID: modelID.join('/') };
  return named;
}

// What an event told meanwhile is newer than the answer.
async function status() {
  const [id, before] = [current, statusEvents];
  const states = await call('GET', '/session/status');
  if (id === current && before === statusEvents) show(Boolean(id && states[id]));
}

function show(isBusy) {
  busy = isBusy;
  $('stop').hidden = !busy;
  say(busy ? 'Working…' : 'Ready');
  if (!busy) write('');
}

async function asks() {
  const [permissions, questions] = await Promise.all([call('GET', '/permission'), call('GET', '/question')]);
  const box = $('asks');
  const hadFocus = box.contains(document.activeElement);
  // A card that stays keeps what was typed into it.
  const kept = new Map([...box.children].map((card) => [card.id, card]));
  const cards = [
    ...permissions.map((ask) => kept.get(ask.id) ?? permission(ask)),
    ...questions.map((ask) => kept.get(ask.id) ?? question(ask)),
  ];
  const gone = [...box.children].filter((card) => !cards.includes(card));
  const isNew = cards.some((card) => !kept.has(card.id));
  for (const card of gone) card.remove();
  for (const card of cards) if (!card.isConnected) box.append(card);
  // Never a button: a key that was meant for something else must not allow anything.
  if (isNew && document.activeElement !== $('prompt')) cards[cards.length - 1].focus();
  else if (hadFocus && !box.contains(document.activeElement)) (cards[0] ?? $('prompt')).focus();
  follow();
}

function permission(ask) {
  const card = element('section', undefined, { class: 'ask', id: ask.id, tabindex: '-1', 'aria-label': 'Permission: ' + ask.permission });
  card.append(element('h2', 'Allow ' + ask.permission + '?'));
  card.append(element('pre', ask.words.title, { dir: 'auto' }));
  if (ask.metadata?.diff) card.append(element('pre', ask.metadata.diff, { dir: 'auto', 'aria-label': 'Change' }));
  const row = element('div', undefined, { class: 'row' });
  const { always } = ask.words;
  const replies = [['once', 'Allow once'], ...(always ? [['always', 'Always allow ' + always]] : []), ['reject', 'Reject']];
  for (const [reply, words] of replies) {
    const button = element('button', words, { type: 'button' });
    button.addEventListener('click', () => call('POST', '/permission/' + ask.id + '/reply', { reply }).finally(asks));
    row.append(button);
  }
  card.append(row);
  return card;
}

function question(ask) {
  const card = element('form', undefined, { class: 'ask', id: ask.id, tabindex: '-1', 'aria-label': 'Question' });
  const readers = ask.questions.map((one, at) => {
    const set = element('fieldset');
    set.append(element('legend', one.question));
    const boxes = one.options.map((option) => {
      const label = element('label');
      const box = element('input', undefined, { type: one.multiple ? 'checkbox' : 'radio', name: ask.id + at });
      box.value = option.label;
      label.append(box, ' ' + option.label + (option.description ? ' – ' + option.description : ''));
      set.append(label);
      return box;
    });
    const own = element('input', undefined, { type: 'text', 'aria-label': 'Own answer to: ' + one.question, placeholder: 'Own answer' });
    if (one.custom !== false) set.append(own);
    card.append(set);
    return () => [...boxes.filter((box) => box.checked).map((box) => box.value), ...(own.value.trim() ? [own.value.trim()] : [])];
  });
  const row = element('div', undefined, { class: 'row' });
  row.append(element('button', 'Answer', { type: 'submit' }));
  const reject = element('button', 'Dismiss', { type: 'button' });
  reject.addEventListener('click', () => call('POST', '/question/' + ask.id + '/reject').finally(asks));
  row.append(reject);
  card.append(row);
  card.addEventListener('submit', (event) => {
    event.preventDefault();
    const answers = readers.map((read) => read());
    call('POST', '/question/' + ask.id + '/reply', { answers }).finally(asks);
  });
  return card;
}

function happened({ type, properties }) {
  const isHere = properties.sessionID === current || properties.info?.sessionID === current;
  if (type === 'config.updated') choices().catch(() => {});
  if (type.startsWith('permission.') || type.startsWith('question.')) asks().catch(() => {});
  if (['session.created', 'session.updated', 'session.deleted'].includes(type)) list().catch(() => {});
  if (!isHere) return;
  if (type === 'message.part.delta') {
    write(properties.delta, true);
  } else if (type === 'session.status') {
    statusEvents += 1;
    show(properties.status.type !== 'idle');
    if (properties.status.type === 'retry') say('Trying again: ' + properties.status.message);
    redraw();
  } else if (type === 'session.error') {
    say(properties.error?.data?.message ?? 'The turn failed.');
    redraw();
  } else if (type.startsWith('message.') || type === 'todo.updated') {
    if (type === 'message.part.updated' && properties.part.time?.end) write('');
    redraw();
  }
}

function listen() {
  const events = new EventSource(route('/event'));
  events.addEventListener('open', () => refresh());
  events.addEventListener('message', (event) => happened(JSON.parse(event.data)));
  events.addEventListener('error', () => {
    say('The connection is lost; trying again…');
    if (events.readyState === EventSource.CLOSED) setTimeout(listen, 2000);
  });
}

// What happened while nobody listened is read again.
async function refresh() {
  try {
    await Promise.all([list(), draw(), status(), asks(), choices()]);
  } catch { /* said already */ }
}

$('conversation').addEventListener('scroll', () => {
  const box = $('conversation');
  follows = box.scrollHeight - box.scrollTop - box.clientHeight < 80;
});

// A box that shrinks shows the same end, and is not scrolled by the reader.
new ResizeObserver(follow).observe($('conversation'));

if (current && matchMedia('(max-width: 45rem)').matches) $('list').open = false;

$('new').addEventListener('click', async () => {
  const session = await call('POST', '/session', {});
  await open(session.id);
  $('prompt').focus();
});

$('stop').addEventListener('click', () => call('POST', '/session/' + current + '/abort'));

$('form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const text = $('prompt').value.trim();
  if (!text) return;
  if (!current) await open((await call('POST', '/session', {})).id, true);
  const before = statusEvents;
  await call('POST', '/session/' + current + '/prompt_async', { ...chosen(), parts: [{ type: 'text', text }] });
  $('prompt').value = '';
  // A short turn may have ended before its prompt is answered.
  if (before === statusEvents) show(true);
  follows = true;
  follow();
});

$('prompt').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) $('form').requestSubmit();
});

listen();
