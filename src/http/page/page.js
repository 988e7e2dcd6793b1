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
  unwrite();
  if (matchMedia('(max-width: 45rem)').matches) $('list').open = false;
  await Promise.all([draw(), list(), status(), asks(), waiting()]);
}

// Lists the prompts that wait for their turn, each to be read at once or taken back into the line.
async function waiting() {
  const id = current;
  const { data } = id ? await call('GET', '/api/session/' + id + '/inbox') : { data: [] };
  if (id !== current) return;
  const box = $('waiting');
  box.replaceChildren(...data.map((item) => {
    const path = '/api/session/' + id + '/inbox/' + item.id;
    const row = element('li');
    const word = item.parked ? 'stopped' : item.delivery === 'steer' ? 'next step' : 'queued';
    row.append(element('small', word), element('span', item.payload.text, { dir: 'auto' }));
    const button = (text, act) => {
      const made = element('button', text, { type: 'button', 'aria-label': text + ': ' + item.payload.text });
      made.addEventListener('click', () => act().catch(() => {}));
      row.append(made);
    };
    if (item.parked || item.delivery === 'queue') button('Now', () => call('PATCH', path, { delivery: 'steer' }));
    button('Take back', async () => {
      await call('DELETE', path);
      const prompt = $('prompt');
      prompt.value = [prompt.value, item.payload.text].filter(Boolean).join('\n');
      prompt.focus();
    });
    return row;
  }));
  box.hidden = !data.length;
}

// The session that is shown: its turns with their stretches, and the number of the reading that they are of.
const nothing = () => ({ id: null, number: 0, turns: [] });
let shown = nothing();
let readings = 0;
// Parts of a turn that are drawn and laid out together: a turn may have thousands.
const STRETCH = 40;
// Characters of the newest stretches that are drawn at once, which is more than a screen holds.
const AT_ONCE = 20_000;

// Puts the server's drawing in the place of what was there. What is the same stays as it is, with its place and its parts
// unfolded; a long session is drawn from its end while the browser has nothing else to do.
async function draw() {
  if (!current) return;
  const [id, number] = [current, ++readings];
  const response = await fetch(route('/page/session/' + id));
  const text = await response.text();
  if (id !== current || (shown.id === id && number < shown.number)) return;
  if (!response.ok) return say('The session is not there.');
  const head = parse(text.slice(text.indexOf('<header class="page">'), text.indexOf('</header>')));
  const figures = head.querySelector('.figures');
  if (shown.id !== id) {
    shown = { ...nothing(), id };
    $('conversation').replaceChildren(figures, element('div', undefined, { class: 'session' }));
  } else {
    $('conversation').querySelector(':scope > .figures').replaceWith(figures);
  }
  shown.number = number;
  const session = $('conversation').querySelector(':scope > .session');
  const turns = pieces(text);
  turns.forEach((words, at) => {
    shown.turns[at] ??= { box: session.appendChild(turnBox(words)), stretches: [] };
    renewTurn(shown.turns[at], stretches(words));
  });
  for (const gone of shown.turns.splice(turns.length)) gone.box.remove();
  drawLater(shown);
  follow();
  $('title').textContent = head.querySelector('h1').textContent;
  $('more').hidden = false;
  entitle();
}

function parse(words) {
  const { body } = new DOMParser().parseFromString(words, 'text/html');
  body.querySelectorAll('script').forEach((it) => it.remove());
  return body;
}

// Takes the words of a session apart: those above its turns, and those of each turn. What was said is escaped, so that
// none of it looks like these marks.
function pieces(text) {
  const found = [];
  const end = text.lastIndexOf('</main>');
  for (let from = text.indexOf('>', text.indexOf('<main ')) + 1; from < end;) {
    const next = text.indexOf('<article class="turn"', from + 1);
    const to = next < 0 ? end : next;
    found.push(text.slice(from, to));
    from = to;
  }
  return found;
}

function turnBox(words) {
  const number = /^<article class="turn" id="t(\d+)"/.exec(words)?.[1];
  return number === undefined ? element('div') : element('article', undefined, { class: 'turn', id: 't' + number, 'aria-labelledby': 'h' + number });
}

// Takes the words of a turn apart, between parts that are not within others.
function stretches(words) {
  const open = /^<article[^>]*>/.exec(words)?.[0].length ?? 0;
  const end = open ? words.lastIndexOf('</article>') : words.length;
  const found = [];
  let [from, depth, n_parts] = [open, 0, 0];
  for (const tag of words.matchAll(/<(\/?)(?:div|details|p|figure|section|h2|footer)[ >]/g)) {
    depth += tag[1] ? -1 : 1;
    if (depth || ++n_parts < STRETCH) continue;
    const to = tag.index + tag[0].length;
    found.push(words.slice(from, to));
    [from, n_parts] = [to, 0];
  }
  found.push(words.slice(from, end));
  return found;
}

function renewTurn(turn, words) {
  words.forEach((piece, at) => {
    const stretch = turn.stretches[at];
    if (!stretch) {
      const box = turn.box.appendChild(element('div', undefined, { class: 'stretch' }));
      turn.stretches[at] = { box, words: piece, isLater: true };
      return;
    }
    if (!stretch.isLater && stretch.words !== piece) renew(stretch.box, parse(piece));
    // Also where they are the same: a piece keeps all of the text that it was cut from.
    stretch.words = piece;
  });
  for (const gone of turn.stretches.splice(words.length)) gone.box.remove();
}

// Replaces the parts of a stretch that are other ones now.
function renew(box, now) {
  const [old, fresh] = [[...box.children], [...now.children]];
  fresh.forEach((part, at) => {
    if (!old[at]) box.append(part);
    else if (!isSame(old[at], part)) old[at].replaceWith(part);
  });
  for (const gone of old.slice(fresh.length)) gone.remove();
}

// Compares two parts but for what the reader has folded and unfolded; what is unfolded stays so.
function isSame(old, fresh) {
  if (old.isEqualNode(fresh)) return true;
  const folds = (part) => [...(part.matches('details') ? [part] : []), ...part.querySelectorAll('details')];
  const [had, has] = [folds(old), folds(fresh)];
  const written = has.map((it) => it.open);
  has.forEach((it, at) => { it.open = had[at]?.open ?? it.open; });
  if (old.isEqualNode(fresh)) return true;
  has.forEach((it, at) => { it.open ||= written[at]; });
  return false;
}

const whenIdle = globalThis.requestIdleCallback ?? ((work) => setTimeout(work, 20));

// Draws the newest stretches that are not drawn yet, and the others by and by.
function drawLater(session) {
  const later = session.turns.flatMap((turn) => turn.stretches).filter((stretch) => stretch.isLater);
  for (let n_chars = 0; later.length && n_chars < AT_ONCE;) {
    const stretch = later.pop();
    stretch.box.append(...parse(stretch.words).childNodes);
    stretch.isLater = false;
    n_chars += stretch.words.length;
  }
  if (!later.length || session.isWaiting) return;
  session.isWaiting = true;
  whenIdle(() => {
    session.isWaiting = false;
    if (session === shown) drawLater(session);
  }, { timeout: 200 });
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

// Text that came since the last frame. Each frame shows it once, however many pieces it came in.
let unwritten = '';

// Shows text that is being written.
function write(text) {
  if (!unwritten) requestAnimationFrame(writeOut);
  unwritten += text;
}

function writeOut() {
  if (!unwritten) return;
  const live = $('live');
  live.append(unwritten);
  unwritten = '';
  live.hidden = false;
  live.scrollTop = live.scrollHeight;
  follow();
}

// Puts away text that was being written.
function unwrite() {
  unwritten = '';
  $('live').textContent = '';
  $('live').hidden = true;
  follow();
}

// The last time that events had the session drawn, and how long that took.
let drawnAt = 0;
let tookMs = 0;
let isOld = false;

// Draws again soon. A session that takes long to read leaves the browser more time for other things.
function redraw() {
  isOld = true;
  if (drawing) return;
  const pause = Math.max(300, 2 * tookMs) - (performance.now() - drawnAt);
  drawing = setTimeout(async () => {
    isOld = false;
    const began = performance.now();
    await draw().catch(() => {});
    drawnAt = performance.now();
    tookMs = drawnAt - began;
    drawing = null;
    if (isOld) redraw();
  }, Math.max(30, pause));
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
  if (!busy) unwrite();
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
  if (type.startsWith('session.inbox.')) {
    waiting().catch(() => {});
  } else if (type === 'message.part.delta') {
    write(properties.delta);
  } else if (type === 'session.status') {
    statusEvents += 1;
    show(properties.status.type !== 'idle');
    if (properties.status.type === 'retry') say('Trying again: ' + properties.status.message);
    redraw();
  } else if (type === 'session.error') {
    say(properties.error?.data?.message ?? 'The turn failed.');
    redraw();
  } else if (type.startsWith('message.') || type === 'todo.updated') {
    if (type === 'message.part.updated' && properties.part.time?.end) unwrite();
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
    await Promise.all([list(), draw(), status(), asks(), choices(), projects(), waiting()]);
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
// The prompt that was put into the line by an undo.
let undone = '';

onMenu('undo', async (id) => {
  const messages = await call('GET', '/session/' + id + '/message');
  const revert = (await call('GET', '/session/' + id)).revert?.messageID;
  const prompts = messages.filter(({ info }) => info.role === 'user' && (!revert || info.id < revert));
  const last = prompts.at(-1);
  if (!last) return say('There is nothing to undo.');
  await call('POST', '/session/' + id + '/revert', { messageID: last.info.id });
  const words = last.parts.filter((part) => part.type === 'text' && !part.synthetic).map((part) => part.text);
  undone = words.join('\n');
  if (!$('prompt').value) $('prompt').value = undone;
  $('prompt').focus();
  await draw();
});
onMenu('redo', async (id) => {
  await call('POST', '/session/' + id + '/unrevert');
  if ($('prompt').value === undone) $('prompt').value = '';
  await draw();
});
onMenu('fork', async (id) => { await open((await call('POST', '/session/' + id + '/fork', {})).id); });
onMenu('archive', async (id) => {
  await call('PATCH', '/session/' + id, { time: { archived: Date.now() } });
  [current, $('title').textContent, $('more').hidden] = [null, 'No session', true];
  history.replaceState(null, '', location.pathname + location.search);
  shown = nothing();
  $('conversation').replaceChildren(element('p', 'The session is archived. Choose another, or begin one by typing below.', { class: 'empty' }));
  entitle();
  $('prompt').focus();
  await list();
});
onMenu('notify', async () => { say(await globalThis.Notification?.requestPermission() === 'granted' ? 'You will be notified.' : 'The browser does not allow it.'); });

listen();
