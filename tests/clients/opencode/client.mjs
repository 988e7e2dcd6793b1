// OpenCode's SDK, unmodified, both of its clients, against the real binary: node client.mjs PATH/TO/windlass
// Prints one line per step; ends with 1 on the first deviation.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { createOpencode, createOpencodeClient } from '@opencode-ai/sdk'
import { createOpencodeClient as createV2 } from '@opencode-ai/sdk/v2'

const binary = path.resolve(process.argv[2])
const deadline = setTimeout(() => { console.error('OpenCode SDK: no end after 60 s'); process.exit(1) }, 60_000)
const step = text => console.log(`OpenCode SDK: ${text}`)

const root = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'windlass-oc-')))
const [home, work, other, bin] = ['home', 'work', 'other', 'bin'].map(name => path.join(root, name))
for (const directory of [home, work, other, bin]) fs.mkdirSync(directory)
const file = path.join(work, 'a.txt')
fs.writeFileSync(file, 'one\ntwo\n')
const git = (...args) => execFileSync('git', ['-c', 'user.name=T', '-c', 'user.email=t@example.invalid', ...args], { cwd: work })
git('init', '-q'); git('add', '.'); git('commit', '-q', '-m', 'first')
// The SDK starts a program of this name.
fs.symlinkSync(binary, path.join(bin, 'opencode'))

// A scripted model: each request with tools takes the next answer.
const call = (name, args) => ({ name, arguments: JSON.stringify(args) })
const answers = []
const llm = http.createServer((request, response) => {
  let body = ''
  request.on('data', data => { body += data })
  request.on('end', () => {
    const { tools, messages } = JSON.parse(body)
    const isTitle = !tools?.length && !JSON.stringify(messages).includes('summar')
    const answer = isTitle ? { text: 'Title' } : answers.shift() ?? { text: 'more' }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const send = (delta, finish = null) =>
      response.write(`data: ${JSON.stringify({ id: '1', object: 'chat.completion.chunk', created: 1, model: 'mock', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`)
    send({ role: 'assistant', content: answer.text ?? '' })
    if (answer.hangs) return
    if (answer.call) send({ tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: answer.call }] })
    send({}, answer.call ? 'tool_calls' : 'stop')
    response.end('data: [DONE]\n\n')
  })
})
await new Promise(resolve => llm.listen(0, '127.0.0.1', resolve))

const config = {
  model: 'mock/mock',
  permission: { edit: 'ask' },
  windlass: { file_time: false },
  provider: { mock: { npm: '@ai-sdk/openai-compatible', options: { baseURL: `http://127.0.0.1:${llm.address().port}/v1`, apiKey: 'secret-key' }, models: { mock: { limit: { context: 200000, output: 8192 } } } } },
}
process.env.PATH = `${bin}:${process.env.PATH}`
process.env.HOME = home
process.chdir(work)

const opencode = await createOpencode({ port: 0, timeout: 20_000, config })
const parts = text => [{ type: 'text', text }]

// Collects the events of a stream, and waits for what has come or will come.
function collect(stream) {
  const events = []
  let heard = () => {}
  const reading = (async () => { for await (const event of stream) { events.push(event); heard() } })()
  const until = holds => new Promise(resolve => {
    heard = () => { const found = events.findIndex(holds); if (found >= 0) resolve(events.splice(0, found + 1)) }
    heard()
  })
  return { until, reading }
}

try {
  step(`started at ${opencode.server.url}`)
  const client = opencode.client
  const must = async promise => {
    const { data, error } = await promise
    assert.equal(error, undefined)
    return data
  }
  const session = await must(client.session.create({ body: { title: 'demo' } }))
  assert.equal(session.title, 'demo')
  const stop = new AbortController()
  const { stream } = await client.event.subscribe({ signal: stop.signal })
  const events = collect(stream)
  await events.until(event => event.type === 'server.connected')

  // A turn with a tool; another client grants it.
  const second = createV2({ baseUrl: opencode.server.url, directory: work })
  answers.push({ text: 'editing', call: call('edit', { filePath: file, oldString: 'two', newString: 'zwei' }) }, { text: 'edited' })
  const turn = must(client.session.prompt({ path: { id: session.id }, body: { parts: parts('edit it') } }))
  const asked = (await events.until(event => event.type === 'permission.asked')).at(-1).properties
  const waiting = await must(second.permission.list())
  assert.deepEqual(waiting.map(it => it.id), [asked.id])
  assert.deepEqual(Object.keys(await must(second.session.status())), [session.id])
  assert.equal(await must(second.permission.reply({ requestID: asked.id, reply: 'once' })), true)
  const answered = await turn
  assert.equal(answered.info.role, 'assistant')
  assert.equal(answered.parts.find(part => part.type === 'text').text, 'edited')
  assert.equal(fs.readFileSync(file, 'utf8'), 'one\nzwei\n')
  const seen = (await events.until(event => event.type === 'session.idle')).map(event => event.type)
  assert.ok(seen.includes('permission.replied') && seen.includes('message.part.updated'), seen)
  step('a turn with a tool, granted by a second client')

  const messages = await must(client.session.messages({ path: { id: session.id } }))
  assert.deepEqual(messages.map(it => it.info.role), ['user', 'assistant', 'assistant'])
  const page = await second.session.messages({ sessionID: session.id, limit: 1 })
  assert.deepEqual(page.data.map(it => it.info.id), [messages[2].info.id])
  assert.ok(page.response.headers.get('x-next-cursor'))
  const diff = await must(second.session.diff({ sessionID: session.id, messageID: messages[0].info.id }))
  assert.equal(diff[0].file, 'a.txt')
  step('messages, a page, a diff')

  // Abort: last updates first, then one idle.
  answers.push({ text: 'for ever', hangs: true })
  assert.equal((await client.session.promptAsync({ path: { id: session.id }, body: { parts: parts('talk') } })).response.status, 204)
  await events.until(event => event.type === 'message.part.delta')
  assert.equal(await must(client.session.abort({ path: { id: session.id } })), true)
  const ended = await events.until(event => event.type === 'session.idle')
  assert.ok(ended.some(event => event.properties.info?.error?.name === 'MessageAbortedError'))
  step('abort')

  const undone = await must(client.session.revert({ path: { id: session.id }, body: { messageID: messages[0].info.id } }))
  assert.equal(undone.revert.messageID, messages[0].info.id)
  assert.equal(fs.readFileSync(file, 'utf8'), 'one\ntwo\n')
  await must(client.session.unrevert({ path: { id: session.id } }))
  assert.equal(fs.readFileSync(file, 'utf8'), 'one\nzwei\n')
  const copy = await must(client.session.fork({ path: { id: session.id }, body: {} }))
  assert.equal(copy.title, 'demo (fork #1)')
  step('revert, unrevert, fork')

  answers.push({ text: 'a summary' })
  assert.equal(await must(client.session.summarize({ path: { id: session.id }, body: { providerID: 'mock', modelID: 'mock' } })), true)
  step('compaction')

  // What a client shows around its sessions.
  const { providers } = await must(client.config.providers())
  assert.ok(providers.some(it => it.id === 'mock'))
  const all = await must(client.provider.list())
  assert.ok(all.all.length > 50 && all.connected.includes('mock'))
  const agents = await must(client.app.agents())
  assert.equal(agents[0].name, 'build')
  assert.ok((await must(client.command.list())).some(it => it.name === 'init'))
  assert.equal((await must(client.path.get())).directory, work)
  const shown = JSON.stringify([await must(client.config.get()), providers])
  assert.ok(!shown.includes('secret-key'), 'a key is shown')
  step('providers, agents, commands, paths, configuration')

  // Two directories in one server: each stream shows its own.
  const elsewhere = createOpencodeClient({ baseUrl: opencode.server.url, directory: other })
  const { stream: otherStream } = await elsewhere.event.subscribe({ signal: stop.signal })
  const otherEvents = collect(otherStream)
  await otherEvents.until(event => event.type === 'server.connected')
  const there = await must(elsewhere.session.create({ body: {} }))
  assert.equal(there.directory, other)
  answers.push({ text: 'there' })
  await must(elsewhere.session.prompt({ path: { id: there.id }, body: { parts: parts('go') } }))
  const theirs = await otherEvents.until(event => event.type === 'session.idle')
  assert.ok(theirs.every(event => (event.properties.sessionID ?? there.id) === there.id))
  assert.deepEqual((await must(elsewhere.session.list())).map(it => it.id), [there.id])
  step('two directories')

  const refused = await client.session.prompt({ path: { id: session.id }, body: { parts: parts('x'), agent: 'nobody' } })
  assert.equal(refused.error.name, 'BadRequest')
  await assert.rejects(client.session.get({ path: { id: 'ses_nope' }, throwOnError: true }), error => error.message.includes('ses_nope'))
  assert.equal(await must(client.session.delete({ path: { id: copy.id } })), true)
  step('errors, delete')
  stop.abort()
} catch (error) {
  console.error('OpenCode SDK:', error)
  process.exitCode = 1
} finally {
  opencode.server.close()
  clearTimeout(deadline)
  llm.closeAllConnections()
  llm.close()
  process.chdir('/')
  // The server ends by itself; its last files may still be there for a moment.
  setTimeout(() => { fs.rmSync(root, { recursive: true, force: true, maxRetries: 5 }); process.exit() }, 500)
}
