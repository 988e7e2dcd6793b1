'use strict';
// Sessions, one live session, and what it asks. Everything is drawn as text, but for the server's own drawing of a session.
const $ = (id) => document.getElementById(id);
const directory = new URLSearchParams(location.search).get('directory');
let current = location.hash.slice(1) || null;
let drawing = null;
let busy = false;
let statusEvents = 0;
// Sessions as they were listed last, and the titles of others that ask.
let sessions = [];
// Commands that a prompt may begin with.
let commands = [];
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

const when = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });

async function list() {
  const wanted = $('search').value.trim();
  const search = wanted ? '&search=' + encodeURIComponent(wanted) : '';
  const listed = await call('GET', '/session?roots=true&limit=100' + search);
  sessions = listed.filter((session) => !session.time.archived);
  const held = document.activeElement?.dataset.session;
  const rows = sessions.map((session) => {
    const row = element('li');
    const button = element('button', session.title, { type: 'button', 'data-session': session.id });
    button.append(element('small', when.format(session.time.updated)));
    if (session.id === current) button.setAttribute('aria-current', 'true');
    button.addEventListener('click', () => open(session.id));
    row.append(button);
    return row;
  });
  if (!rows.length && wanted) rows.push(element('li', 'No session has these words in its title.'));
  const box = $('sessions');
  if (box.childElementCount === rows.length && rows.every((row, idx) => row.isEqualNode(box.children[idx]))) return;
  box.replaceChildren(...rows);
  if (held) rows.map((row) => row.firstElementChild).find((it) => it?.dataset.session === held)?.focus({ preventScroll: true });
}

// Offers the other projects, where there are some.
async function projects() {
  const known = await call('GET', '/project');
  const places = [...new Set(known.map((project) => project.worktree).filter((place) => place && place !== '/'))];
  const box = $('project');
  box.hidden = places.length < 2;
  box.replaceChildren(...places.map((place) => element('option', place, { value: place })));
  const here = directory ?? places.find((place) => place === box.dataset.here);
  if (here) {
    if (!places.includes(here)) box.prepend(element('option', here, { value: here }));
    box.value = here;
  } else {
    box.prepend(element('option', 'Project…', { value: '' }));
    box.value = '';
  }
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
  // The page has these styles already, and its policy allows none beside them.
  const text = (await response.text()).replace(/<style[^]*?<\/style>/g, '');
  const drawn = new DOMParser().parseFromString(text, 'text/html');
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
  $('more').hidden = false;
  entitle();
}

// Says in the tab's title what waits and what works.
function entitle() {
  const waiting = $('asks').childElementCount;
  const mark = waiting ? '(' + waiting + ') ' : busy ? '… ' : '';
  document.title = mark + (current ? $('title').textContent + ' – windlass' : 'windlass');
}

// Calls somebody who looks at something else.
function notify(words) {
  if (document.hidden && globalThis.Notification?.permission === 'granted') new Notification('windlass', { body: words });
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
  const [agents, usable, offeredCommands] = await Promise.all([
    call('GET', '/agent'), call('GET', '/config/providers'), call('GET', '/command'),
  ]);
  commands = offeredCommands;
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
  if (busy && !isBusy) notify('The work is done.');
  busy = isBusy;
  $('stop').hidden = !busy;
  say(busy ? 'Working…' : 'Ready');
  if (!busy) write('');
  entitle();
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
  for (const card of box.querySelectorAll('.diff')) card.scrollTop = Number(card.dataset.first) || card.scrollTop;
  if (isNew) notify('A question waits for you.');
  entitle();
  // Never a button: a key that was meant for something else must not allow anything.
  if (isNew && document.activeElement !== $('prompt')) cards[cards.length - 1].focus();
  else if (hadFocus && !box.contains(document.activeElement)) (cards[0] ?? $('prompt')).focus();
  follow();
}

function permission(ask) {
  const card = element('section', undefined, { class: 'ask', id: ask.id, tabindex: '-1', 'aria-label': 'Permission: ' + ask.permission });
  card.append(heading('Allow ' + ask.permission + '?', ask));
  card.append(element('pre', ask.words.title, { dir: 'auto', role: 'group', 'aria-label': 'Request', tabindex: '0' }));
  if (ask.metadata?.diff) card.append(change(ask.metadata.diff));
  const row = element('div', undefined, { class: 'row' });
  const { always } = ask.words;
  const replies = [['once', 'Allow once'], ...(always ? [['always', 'Always allow ' + always]] : []), ['reject', 'Reject']];
  for (const [reply, words] of replies) {
    const button = element('button', words, { type: 'button' });
    button.addEventListener('click', () => call('POST', '/permission/' + ask.id + '/reply', { reply }).finally(asks));
    row.append(button);
  }
  const why = element('input', undefined, { type: 'text', placeholder: 'Why not? The model reads it and goes on.', 'aria-label': 'Reason' });
  why.hidden = true;
  const because = element('button', 'Reject, and say why', { type: 'button' });
  const reject = () => call('POST', '/permission/' + ask.id + '/reply', { reply: 'reject', message: why.value.trim() }).finally(asks);
  because.addEventListener('click', () => {
    if (!why.hidden && why.value.trim()) return reject();
    why.hidden = false;
    why.focus();
  });
  why.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.isComposing && why.value.trim()) reject();
  });
  row.append(because);
  card.append(row, why);
  return card;
}

// Names the session that asks, where it is another one.
function heading(words, ask) {
  const made = element('h2', words);
  if (ask.sessionID !== current) {
    const title = sessions.find((session) => session.id === ask.sessionID)?.title;
    made.append(element('small', title ? 'in ' + title : 'in another session'));
  }
  return made;
}

// Draws a unified diff: its lines in colours, without the lines that only name files.
function change(diff) {
  const box = element('pre', undefined, { class: 'diff', dir: 'auto', role: 'group', 'aria-label': 'Change', tabindex: '0' });
  const lines = diff.split('\n').filter((line) => !/^(Index: |={3,}|--- |\+\+\+ |\\ No newline)/.test(line));
  while (lines.at(-1) === '') lines.pop();
  for (const line of lines) {
    const kind = { '+': 'add', '-': 'del', '@': 'place' }[line[0]] ?? '';
    box.append(element('span', kind === 'place' ? '⋯' : line || ' ', { class: kind }));
  }
  // The first line that changes is in view.
  requestAnimationFrame(() => {
    const first = box.querySelector('.add, .del');
    if (first) box.scrollTop = Math.max(0, first.offsetTop - box.offsetTop - 40);
  });
  return box;
}

function question(ask) {
  const card = element('form', undefined, { class: 'ask', id: ask.id, tabindex: '-1', 'aria-label': 'Question' });
  if (ask.sessionID !== current) card.append(heading('A question', ask));
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

let events = null;

function listen() {
  events?.close();
  events = new EventSource(route('/event'));
  events.addEventListener('open', () => refresh());
  events.addEventListener('message', (event) => happened(JSON.parse(event.data)));
  events.addEventListener('error', () => {
    say('The connection is lost; trying again…');
    if (events.readyState === EventSource.CLOSED) setTimeout(listen, 2000);
  });
}

// A browser may keep a page that was left, and has six connections to a server: a seventh page would wait for one.
addEventListener('pagehide', () => events.close());
addEventListener('pageshow', ({ persisted }) => { if (persisted) listen(); });

// What happened while nobody listened is read again.
async function refresh() {
  try {
    await Promise.all([list(), draw(), status(), asks(), choices(), projects()]);
  } catch { /* said already */ }
}

$('conversation').addEventListener('scroll', () => {
  const box = $('conversation');
  follows = box.scrollHeight - box.scrollTop - box.clientHeight < 80;
});

// A box that shrinks shows the same end, and is not scrolled by the reader.
new ResizeObserver(follow).observe($('conversation'));

// The address names the session, so a turn's own link must not.
$('conversation').addEventListener('click', (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (!link) return;
  event.preventDefault();
  $(link.hash.slice(1))?.scrollIntoView();
});

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
  const [word, ...rest] = text.split(/\s/);
  const command = word.startsWith('/') && commands.find(({ name }) => '/' + name === word);
  if (command) {
    const { agent, model } = chosen();
    const named = { command: command.name, arguments: rest.join(' '), agent, model: model && model.providerID + '/' + model.modelID };
    // Answered when its turn is over; the events show it meanwhile.
    call('POST', '/session/' + current + '/command', named).catch(() => {});
  } else {
    await call('POST', '/session/' + current + '/prompt_async', { ...chosen(), parts: [{ type: 'text', text }] });
  }
  $('prompt').value = '';
  offers([]);
  // A short turn may have ended before its prompt is answered.
  if (before === statusEvents) show(true);
  follows = true;
  follow();
});

// Completions of the word that is typed: commands at the beginning, files behind an @.
let offered = { items: [], at: 0, from: 0 };

function offers(items, from = 0) {
  offered = { items, at: 0, from };
  const box = $('offers');
  box.replaceChildren(...items.map(({ word, words }, idx) => {
    const row = element('li', word, { role: 'option', id: 'offer-' + idx });
    if (words) row.append(element('small', words));
    // The prompt keeps the focus.
    row.addEventListener('mousedown', (event) => { event.preventDefault(); take(idx); });
    return row;
  }));
  box.hidden = !items.length;
  // A prompt without completions is a text of several lines, which no combobox is.
  const roles = [['role', 'combobox'], ['aria-expanded', 'true']];
  for (const [name, value] of roles) {
    if (items.length) $('prompt').setAttribute(name, value);
    else $('prompt').removeAttribute(name);
  }
  mark(0);
}

function mark(at) {
  offered.at = at;
  for (const [idx, row] of [...$('offers').children].entries()) row.setAttribute('aria-selected', String(idx === at));
  $('offers').children[at]?.scrollIntoView({ block: 'nearest' });
  if (offered.items.length) $('prompt').setAttribute('aria-activedescendant', 'offer-' + at);
  else $('prompt').removeAttribute('aria-activedescendant');
}

function take(at) {
  const prompt = $('prompt');
  const { word } = offered.items[at];
  const behind = prompt.value.slice(prompt.selectionStart);
  prompt.value = prompt.value.slice(0, offered.from) + word + ' ' + behind.trimStart();
  prompt.selectionStart = prompt.selectionEnd = offered.from + word.length + 1;
  offers([]);
}

let looking = 0;
$('prompt').addEventListener('input', async () => {
  const before = $('prompt').value.slice(0, $('prompt').selectionStart);
  const slash = /^\/(\S*)$/.exec(before);
  if (slash) {
    const fits = commands.filter(({ name }) => name.startsWith(slash[1]));
    return offers(fits.map(({ name, description }) => ({ word: '/' + name, words: description })));
  }
  const file = /(?:^|\s)@(\S*)$/.exec(before);
  if (!file) return offers([]);
  const number = ++looking;
  const found = await call('GET', '/find/file?limit=8&query=' + encodeURIComponent(file[1])).catch(() => []);
  if (number === looking) offers(found.map((path) => ({ word: '@' + path })), before.length - file[1].length - 1);
});

$('prompt').addEventListener('keydown', (event) => {
  if (event.isComposing) return;
  const { items, at } = offered;
  if (items.length && ['ArrowDown', 'ArrowUp'].includes(event.key)) {
    event.preventDefault();
    return mark((at + (event.key === 'ArrowDown' ? 1 : items.length - 1)) % items.length);
  }
  // A command that is typed whole is sent.
  const isWhole = items.length && $('prompt').value.trim() === items[at].word;
  if (items.length && (event.key === 'Tab' || (event.key === 'Enter' && !event.ctrlKey && !event.metaKey && !isWhole))) {
    event.preventDefault();
    return take(at);
  }
  if (items.length && event.key === 'Escape') return offers([]);
  if (event.key !== 'Enter') return;
  const isPlain = !event.shiftKey && !event.altKey && $('enter').checked;
  if (event.ctrlKey || event.metaKey || isPlain) {
    event.preventDefault();
    $('form').requestSubmit();
  }
});
$('prompt').addEventListener('blur', () => offers([]));

// The keyboard of a phone has one Enter, which begins a line there.
const habit = localStorage.getItem('enter') ?? String(!matchMedia('(pointer: coarse)').matches);
$('enter').checked = habit === 'true';
const hint = () => {
  $('prompt').placeholder = $('enter').checked ? 'Enter sends, Shift+Enter begins a line; / for commands, @ for files' : 'Ctrl+Enter sends; / for commands, @ for files';
};
hint();
$('enter').addEventListener('change', () => { localStorage.setItem('enter', String($('enter').checked)); hint(); });

$('search').addEventListener('input', () => list().catch(() => {}));
$('project').addEventListener('change', () => {
  if ($('project').value) location.href = '/?directory=' + encodeURIComponent($('project').value);
});

// Asks for a line of text; null where it was given up.
function ask(words, text) {
  const [dialog, input] = [$('dialog'), $('dialog-text')];
  $('dialog-title').textContent = words;
  input.value = text;
  dialog.showModal();
  input.select();
  return new Promise((done) => {
    let line = null;
    const save = () => { line = input.value.trim() || null; dialog.close(); };
    $('dialog-yes').onclick = save;
    $('dialog-no').onclick = () => dialog.close();
    input.onkeydown = (event) => { if (event.key === 'Enter' && !event.isComposing) { event.preventDefault(); save(); } };
    // Escape closes it too.
    dialog.onclose = () => { $('prompt').focus(); done(line); };
  });
}

// Runs a command of the session's menu.
function onMenu(name, work) {
  $(name).addEventListener('click', async () => {
    $('more').open = false;
    // The button is gone, and its focus would be with it.
    $('more').querySelector('summary').focus();
    if (current) await work(current).catch(() => {});
  });
}

onMenu('rename', async (id) => {
  const title = await ask('Title of the session', $('title').textContent);
  if (title) await call('PATCH', '/session/' + id, { title });
  await Promise.all([draw(), list()]);
});
onMenu('undo', async (id) => {
  const messages = await call('GET', '/session/' + id + '/message');
  const revert = (await call('GET', '/session/' + id)).revert?.messageID;
  const prompts = messages.filter(({ info }) => info.role === 'user' && (!revert || info.id < revert));
  const last = prompts.at(-1);
  if (!last) return say('There is nothing to undo.');
  await call('POST', '/session/' + id + '/revert', { messageID: last.info.id });
  const words = last.parts.filter((part) => part.type === 'text' && !part.synthetic).map((part) => part.text);
  if (!$('prompt').value) $('prompt').value = words.join('\n');
  $('prompt').focus();
  await draw();
});
onMenu('redo', async (id) => { await call('POST', '/session/' + id + '/unrevert'); await draw(); });
onMenu('fork', async (id) => { await open((await call('POST', '/session/' + id + '/fork', {})).id); });
onMenu('archive', async (id) => {
  await call('PATCH', '/session/' + id, { time: { archived: Date.now() } });
  [current, $('title').textContent, $('more').hidden] = [null, 'No session', true];
  history.replaceState(null, '', location.pathname + location.search);
  $('conversation').replaceChildren(element('p', 'The session is archived. Choose another, or begin one by typing below.', { class: 'empty' }));
  entitle();
  $('prompt').focus();
  await list();
});
onMenu('notify', async () => { say(await globalThis.Notification?.requestPermission() === 'granted' ? 'You will be notified.' : 'The browser does not allow it.'); });

listen();
