// The web page in the Chromium of the machine: axe-core looks at each of its states, and what it costs is measured.
// `node page.mjs PATH/TO/windlass [axe|paint|long]`
// A violation that axe calls serious or critical fails; others, and the measures, are printed.
// With WINDLASS_PAGE_FILES=src/http/page, files of that folder are shown instead of those in the binary.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { Browser, program } from './browser.mjs'
import { longSession, serve } from './served.mjs'

const path = program()
if (!path) {
  console.log('skipped: the page in a browser: there is no chromium on PATH')
  process.exit(0)
}
const only = process.argv[3]
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const READY = "document.getElementById('state').textContent === 'Ready'"
const LOOKS = ['light', 'dark'].flatMap(scheme => [
  { name: `desk, ${scheme}`, width: 1280, height: 800, isPhone: false, scheme },
  { name: `phone, ${scheme}`, width: 390, height: 844, isPhone: true, scheme },
])
const MARKDOWN = 'Done, and **well**:\n\n# A heading\n\n1. `one`\n2. [two](#two)\n\n> said before\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n- [x] tested\n- [ ] read\n\n```rust\nfn main() {}\n```\n'

const served = await serve(resolve(process.argv[2]))
const long = [[100, 'ses_longmanyturns0000000001'], [1, 'ses_longoneturn000000000002']].map(([n_turns, id]) => served.store(longSession(id, n_turns, 5000, served.work)))
const link = await served.start()
const origin = new URL(link).origin
const browser = new Browser(path, served.home)
// Chromium ends by itself when its pipe does.
process.on('exit', () => served.child.kill('SIGKILL'))
let failed = false

async function openPage() {
  const page = await browser.page()
  if (process.env.WINDLASS_PAGE_FILES) await page.takeFilesOf(resolve(process.env.WINDLASS_PAGE_FILES))
  return page
}

const $ = id => `document.getElementById('${id}')`
const shows = text => `${$('conversation')}.textContent.includes(${JSON.stringify(text)})`

async function prompt(page, words, ...answers) {
  served.model.answers.push(...answers)
  await page.read(`${$('prompt')}.focus()`)
  await page.send('Input.insertText', { text: words })
  await page.key('Enter')
}

/** Has axe look at the page as it is, in each of the looks. */
async function look(page, state) {
  const seen = new Map()
  for (const looks of LOOKS) {
    await page.looks(looks)
    await page.read('new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))')
    const found = await page.read(`axe.run(document, { resultTypes: ['violations'], rules: { 'target-size': { enabled: true } } })
      .then(({ violations }) => violations.flatMap(({ id, impact, help, nodes }) => nodes.map(({ target, failureSummary }) => ({ id, impact, help, target: target.join(' '), failureSummary }))))`)
    for (const { id, impact, help, target, failureSummary } of found) {
      const line = `${impact}: ${id}: ${help}: ${target}`
      const summary = failureSummary.split('\n')[1].trim()
      if (!seen.has(line)) seen.set(line, { isGrave: ['serious', 'critical'].includes(impact), summary, names: [] })
      seen.get(line).names.push(looks.name)
    }
  }
  const n_grave = [...seen.values()].filter(({ isGrave }) => isGrave).length
  failed ||= n_grave > 0
  console.log(`page: ${state}: ${n_grave ? `${n_grave} serious violations` : 'nothing serious'}${seen.size > n_grave ? `, ${seen.size - n_grave} others` : ''}`)
  for (const [line, { summary, names }] of seen) {
    console.log(`  ${line} (${names.length === LOOKS.length ? 'all looks' : names.join('; ')})\n    ${summary}`)
  }
}

async function accessibility() {
  const page = await openPage()
  await page.visit(`${origin}/`)
  await page.until(READY)
  await page.until(`${$('model')}.options.length > 1`)
  await page.read(axe)
  const list = isOpen => page.read(`${$('list')}.open = ${isOpen}`)
  await list(false)
  await look(page, 'empty')

  await prompt(page, 'write it', { thought: 'A thought.', text: 'First this.', call: ['edit', { filePath: 'a.txt', oldString: 'two', newString: 'zwei' }] },
    { call: ['bash', { command: 'ls; exit 3', description: 'looks' }] }, { call: ['read', { filePath: 'missing.txt' }] },
    { call: ['todowrite', { todos: ['completed', 'in_progress', 'pending', 'cancelled'].map(status => ({ id: status, content: `${status} work`, status, priority: 'low' })) }] },
    { text: MARKDOWN })
  await page.until("document.querySelector('#asks .diff .add')")
  await look(page, 'a permission with a change asked for')
  await page.read("[...document.querySelectorAll('#asks button')].find(it => it.textContent === 'Reject, and say why').click()")
  await look(page, 'a reason for a refusal asked for')
  await page.read("document.querySelector('#asks button').click()")
  await page.until(shows('Done, and well'))
  await page.until(READY)
  await look(page, 'after a turn with a change, a failure, a plan and prose')
  await page.read("document.querySelectorAll('#conversation details').forEach(it => { it.open = true })")
  await look(page, 'with every part of the turn unfolded')

  const questions = [
    { question: 'Which colour?', header: 'Colour', options: [{ label: 'red', description: 'warm' }, { label: 'blue', description: 'cold' }] },
    { question: 'Which sizes?', header: 'Size', multiple: true, options: [{ label: 'small', description: 'S' }, { label: 'large', description: 'L' }] },
  ]
  await prompt(page, 'ask me', { call: ['question', { questions }] }, { text: 'half an answer', hangs: true })
  await page.until("document.querySelectorAll('#asks legend').length === 2")
  await look(page, 'a question with options asked')
  await page.read("document.querySelector('#asks input').click(); document.querySelector('#asks button').click()")
  await page.until(`${$('live')}.textContent.includes('half')`)
  await look(page, 'while an answer is written')
  await prompt(page, 'afterwards')
  await page.until("document.querySelectorAll('#waiting li').length === 1")
  await page.read(`${$('project')}.hidden = false`)
  await look(page, 'with a prompt that waits, and several projects')
  await page.read("document.querySelector('#waiting li button:last-child').click()")
  await page.until(`${$('waiting')}.hidden`)
  await page.read(`${$('prompt')}.value = ''`)
  await page.read(`${$('stop')}.click()`)
  await page.until(READY)

  await list(true)
  await page.until("document.querySelectorAll('#sessions button').length > 2")
  await look(page, 'with the list of sessions')
  await page.read(`${$('more')}.open = true`)
  await look(page, "with the session's menu")
  await page.read(`${$('rename')}.click()`)
  await page.until(`${$('dialog')}.open`)
  await look(page, 'with the dialog for a name')
  await page.read(`${$('dialog-no')}.click()`)
  await list(false)
  await page.read(`${$('prompt')}.focus()`)
  await page.key('/')
  await page.until("document.querySelectorAll('#offers [role=option]').length > 1")
  await look(page, 'with completions')
  await page.close()
}

const median = values => values.toSorted((a, b) => a - b)[values.length >> 1]
const ms = value => `${Math.round(value)} ms`

/** Notes, in the page, long tasks and the times from a key to what is painted behind it. */
const NOTES = `
  window.noted = { tasks: [], keys: [], shown: {} }
  new PerformanceObserver(list => noted.tasks.push(...list.getEntries().map(it => it.duration))).observe({ type: 'longtask', buffered: true })
  addEventListener('keydown', ({ timeStamp }) => requestAnimationFrame(() => setTimeout(() => noted.keys.push(performance.now() - timeStamp))), true)
  new MutationObserver(() => {
    const box = document.getElementById('conversation')
    if (!box || noted.shown.all) return
    noted.shown.end ??= box.lastElementChild?.lastElementChild?.textContent.includes('The end of the long session.') ? performance.now() : undefined
    if (box.textContent.includes('Prompt 0 of the long session')) noted.shown.all = performance.now()
  }).observe(document, { childList: true, subtree: true })
`

async function firstPaint() {
  const page = await openPage()
  const loads = { opened: [], 'loaded again': [] }
  for (let n = 0; n < 7; n++) {
    // The first has a process of the browser to start too.
    for (const [name, load] of [['opened', () => page.visit(`${origin}/`)], ['loaded again', () => page.send('Page.reload')]]) {
      await page.read('window.isOld = true')
      await load()
      await page.until("!window.isOld && performance.getEntriesByName('first-contentful-paint').length")
      loads[name].push(await page.read(`({ paint: performance.getEntriesByName('first-contentful-paint')[0].startTime, answer: performance.getEntriesByType('navigation')[0].responseEnd })`))
    }
  }
  for (const [name, seen] of Object.entries(loads)) {
    const paints = seen.map(({ paint }) => paint)
    console.log(`page: ${name}: first contentful paint after ${ms(median(paints))} in the median, ${ms(Math.max(...paints))} at most; the server's answer was there after ${ms(median(seen.map(({ answer }) => answer)))}`)
  }
  await page.close()
}

async function types(page, n_keys) {
  await page.read(`${$('prompt')}.focus(); noted.keys = []; noted.tasks = []`)
  for (let n = 0; n < n_keys; n++) {
    await page.key('abcdefgh '[n % 9])
    await new Promise(resolve => setTimeout(resolve, 60))
  }
  return keys(page)
}

async function keys(page) {
  const noted = await page.read('noted')
  return `a key shown after ${ms(median(noted.keys))}, at most ${ms(Math.max(...noted.keys))}; longest task ${tasks(noted)}`
}

const tasks = noted => noted.tasks.length ? `${ms(Math.max(...noted.tasks))} of ${noted.tasks.length} over 50 ms` : 'under 50 ms'

async function longSessions() {
  for (const [idx, id] of long.entries()) {
    const name = ['5000 parts in 100 turns', '5000 parts in one turn'][idx]
    const page = await openPage()
    await page.looks(LOOKS[0])
    await page.send('Page.addScriptToEvaluateOnNewDocument', { source: NOTES })
    await page.visit(`${origin}/#${id}`)
    await page.until('noted.shown.all')
    await page.until(READY)
    await page.read('new Promise(done => setTimeout(done, 1000))')
    const noted = await page.read('noted')
    const answer = await page.read("(({ requestStart, responseEnd, decodedBodySize }) => ({ ms: responseEnd - requestStart, kb: decodedBodySize / 1024 }))(performance.getEntriesByType('resource').find(it => it.name.includes('/page/session/')))")
    console.log(`page: ${name}: its end shown after ${ms(noted.shown.end)}, all of it after ${ms(noted.shown.all)}, of which the server's answer of ${Math.round(answer.kb)} KB took ${ms(answer.ms)}; longest task ${tasks(noted)}; ${await weighs(page)}`)
    console.log(`page: ${name}: typing: ${await types(page, 40)}`)
    await page.read("document.getElementById('prompt').value = ''; performance.clearResourceTimings(); noted.tasks = []; noted.sent = performance.now()")
    const call = n => ({ text: `Next, ${n}.`, call: ['bash', { command: `echo ${n}`, description: 'prints' }] })
    await prompt(page, 'one more turn', call(1), call(2), call(3), { deltas: 700, ms: 10, ...call(4) }, { text: 'The turn is over.' })
    await page.until("document.querySelector('#conversation').lastElementChild.lastElementChild.textContent.includes('one more turn')")
    console.log(`page: ${name}: a prompt shown after ${ms(await page.read('performance.now() - noted.sent'))}`)
    await page.until(`!${$('live')}.hidden || ${READY}`)
    console.log(`page: ${name}: typing while an answer is written: ${await types(page, 30)}`)
    await page.until(shows('The turn is over.'))
    await page.until(READY)
    const over = await page.read("(all => ({ n: all.length, mb: all.reduce((sum, it) => sum + it.decodedBodySize, 0) / 1e6 }))(performance.getEntriesByType('resource').filter(it => it.name.includes('/page/session/')))")
    console.log(`page: ${name}: to the end of the turn: ${await keys(page)}; the turn read the session ${over.n} times, ${over.mb.toFixed(1)} MB; ${await weighs(page)}`)
    await page.close()
  }
}

async function weighs(page) {
  await page.send('HeapProfiler.collectGarbage')
  await page.send('Performance.enable')
  const { metrics } = await page.send('Performance.getMetrics')
  return `${metrics.find(({ name }) => name === 'Nodes').value} nodes, ${await browser.megabytes() ?? 'an unknown number of'} MB`
}

try {
  const first = await openPage()
  await first.visit(link)
  await first.until(READY)
  await first.close()
  if (!only || only === 'axe') await accessibility()
  if (!only || only === 'paint') await firstPaint()
  if (!only || only === 'long') await longSessions()
} catch (error) {
  console.error(error)
  failed = true
} finally {
  await browser.close()
  await served.end()
}
process.exit(failed ? 1 : 0)
