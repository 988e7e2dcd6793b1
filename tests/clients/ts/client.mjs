// The TypeScript SDK's client, unmodified, against the real binary: node client.mjs PATH/TO/windlass
// Prints one line per step; ends with 1 on the first deviation.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import fs from 'node:fs'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { Readable, Writable } from 'node:stream'
import { client, methods, ndJsonStream } from '@agentclientprotocol/sdk'

const binary = process.argv[2]
const deadline = setTimeout(() => { console.error('TypeScript client: no end after 60 s'); process.exit(1) }, 60_000)
const step = text => console.log(`TypeScript client: ${text}`)

const root = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'windlass-ts-')))
const [home, work] = [path.join(root, 'home'), path.join(root, 'work')]
fs.mkdirSync(home); fs.mkdirSync(work)
const file = path.join(work, 'a.txt')
fs.writeFileSync(file, 'one\ntwo\n')
execFileSync('git', ['init', '-q'], { cwd: work })

// A scripted model: each request with tools takes the next answer.
const edit = { filePath: file, oldString: 'two', newString: 'zwei' }
const answers = [
  { text: 'editing', call: { name: 'edit', arguments: JSON.stringify(edit) } },
  { text: 'edited' },
  { text: 'for ever', hangs: true },
]
let hanging
const isHanging = new Promise(resolve => { hanging = resolve })
const llm = http.createServer((request, response) => {
  let body = ''
  request.on('data', data => { body += data })
  request.on('end', () => {
    const answer = JSON.parse(body).tools?.length ? answers.shift() : { text: 'Title' }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const send = (delta, finish = null) =>
      response.write(`data: ${JSON.stringify({ id: '1', object: 'chat.completion.chunk', created: 1, model: 'mock', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`)
    send({ role: 'assistant', content: answer.text })
    if (answer.hangs) return hanging()
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
  provider: { mock: { npm: '@ai-sdk/openai-compatible', options: { baseURL: `http://127.0.0.1:${llm.address().port}/v1`, apiKey: 'test' }, models: { mock: { limit: { context: 200000, output: 8192 } } } } },
}
const agent = spawn(binary, ['acp'], {
  cwd: work,
  env: { PATH: process.env.PATH, HOME: home, OPENCODE_CONFIG_CONTENT: JSON.stringify(config) },
  stdio: ['pipe', 'pipe', 'inherit'],
})
const exited = new Promise(resolve => agent.on('exit', resolve))

const updates = []
const permissions = []
let heard = () => {}
// The SDK hands updates over beside the answers, not before them.
const until = holds => new Promise(resolve => { heard = () => holds() && resolve(); heard() })
const said = () => updates.filter(u => u.sessionUpdate === 'agent_message_chunk').map(u => u.content.text).join('')

try {
  await client({ name: 'windlass-test' })
    .onNotification(methods.client.session.update, ({ params }) => { updates.push(params.update); heard() })
    .onRequest(methods.client.session.requestPermission, ({ params }) => {
      permissions.push(params)
      const option = params.options.find(option => option.kind === 'allow_once')
      return { outcome: { outcome: 'selected', optionId: option.optionId } }
    })
    .connectWith(ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout)), async context => {
      const initialized = await context.request(methods.agent.initialize, { protocolVersion: 1, clientCapabilities: {} })
      assert.equal(initialized.protocolVersion, 1)
      assert.equal(initialized.agentCapabilities.loadSession, true)
      step(`initialize: ${initialized.agentInfo.name} ${initialized.agentInfo.version}`)

      const { sessionId } = await context.request(methods.agent.session.new, { cwd: work, mcpServers: [] })
      step('session/new')

      const prompt = text => context.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: 'text', text }] })
      assert.equal((await prompt('edit it')).stopReason, 'end_turn')
      assert.equal(permissions.length, 1)
      const diff = permissions[0].toolCall.content.find(block => block.type === 'diff')
      assert.deepEqual([diff.path, diff.oldText, diff.newText], [file, 'one\ntwo\n', 'one\nzwei\n'])
      assert.equal(fs.readFileSync(file, 'utf8'), 'one\nzwei\n')
      assert.equal(said(), 'editingedited')
      step('session/prompt with a permission')

      const running = prompt('talk')
      await isHanging
      await until(() => said().endsWith('for ever'))
      await context.notify(methods.agent.session.cancel, { sessionId })
      assert.equal((await running).stopReason, 'cancelled')
      step('session/cancel')

      const live = said()
      updates.length = 0
      await context.request(methods.agent.session.load, { sessionId, cwd: work, mcpServers: [] })
      await until(() => said().length >= live.length)
      assert.equal(said(), live)
      assert.ok(updates.some(update => update.sessionUpdate === 'tool_call'))
      step('session/load')
    })
  agent.stdin.end()
  assert.equal(await exited, 0)
  step('exit 0')
} catch (error) {
  console.error('TypeScript client:', error)
  process.exitCode = 1
  agent.kill('SIGKILL')
} finally {
  clearTimeout(deadline)
  llm.closeAllConnections()
  llm.close()
  fs.rmSync(root, { recursive: true, force: true })
}
