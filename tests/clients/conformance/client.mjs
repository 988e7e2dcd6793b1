// windlass as the client of a scenario of MCP's conformance suite, started by the suite:
// node client.mjs PATH/TO/windlass SERVER_URL
// Logs in where the server wants that, with a program in the place of a browser, and has a scripted model call the tools.
import { spawn, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'
import readline from 'node:readline'

const [binary, url] = process.argv.slice(2)
const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? ''
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}')
const root = fs.mkdtempSync(path.join(os.tmpdir(), 'windlass-conformance-'))

// The arguments of the tools that need some.
const inputs = { add_numbers: { a: 5, b: 3 } }

const browser = path.join(root, 'bin', 'xdg-open')
fs.mkdirSync(path.dirname(browser))
fs.writeFileSync(browser, '#!/bin/sh\nexec curl -sL "$1"\n', { mode: 0o755 })

/** Answers each request with calls of the server's tools, and then with a word. */
const model = http.createServer((request, response) => {
  let body = ''
  request.on('data', data => { body += data })
  request.on('end', () => {
    const { messages, tools = [] } = JSON.parse(body)
    const own = tools.map(tool => tool.function.name).filter(name => name.startsWith('suite_'))
    const isAnswered = messages.at(-1).role === 'tool'
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const send = (delta, finish = null) =>
      response.write(`data: ${JSON.stringify({ id: '1', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`)
    if (isAnswered || own.length === 0) {
      send({ role: 'assistant', content: 'done' })
      send({}, 'stop')
    } else {
      own.forEach((name, index) => send({ tool_calls: [{ index, id: `call_${index}`, type: 'function', function: {
        name, arguments: JSON.stringify(inputs[name.slice('suite_'.length)] ?? {}) } }] }))
      send({}, 'tool_calls')
    }
    response.end('data: [DONE]\n\n')
  })
})
await new Promise(resolve => model.listen(0, '127.0.0.1', resolve))

const server = { type: 'remote', url }
if (context.client_id) {
  server.oauth = { clientId: context.client_id, ...(context.client_secret && { clientSecret: context.client_secret }) }
}
if (scenario === 'auth/basic-cimd') {
  server.oauth = { clientMetadataUrl: 'https://conformance-test.local/client-metadata.json' }
}
if (scenario.startsWith('auth/client-credentials')) {
  server.oauth = { ...server.oauth, grant: 'client_credentials', ...(context.private_key_pem && { privateKey: context.private_key_pem }) }
}
const config = {
  model: 'mock/mock',
  permission: { '*': 'allow' },
  mcp: { suite: server },
  windlass: { mcp: { start_wait: 20_000 } },
  provider: { mock: { npm: '@ai-sdk/openai-compatible', options: { baseURL: `http://127.0.0.1:${model.address().port}/v1`, apiKey: 'test' }, models: { mock: { limit: { context: 200_000, output: 8192 } } } } },
}
const env = {
  PATH: `${path.dirname(browser)}:${process.env.PATH}`, HOME: root, WINDLASS_TRUST: '1',
  OPENCODE_CONFIG_CONTENT: JSON.stringify(config),
}

function logIn() {
  const done = spawnSync(binary, ['mcp', 'auth', 'suite'], { cwd: root, env, encoding: 'utf8', timeout: 20_000 })
  console.log(done.stdout, done.stderr)
}

/** Has the model call the tools in a session; the user accepts each form as it is. */
async function talk() {
  const agent = spawn(binary, ['acp'], { cwd: root, env, stdio: ['pipe', 'pipe', 'inherit'] })
  const send = message => agent.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  const answers = new Map()
  const ask = (id, method, params) => {
    send({ id, method, params })
    return new Promise(resolve => answers.set(id, resolve))
  }
  let seen = ''
  readline.createInterface(agent.stdout).on('line', line => {
    const message = JSON.parse(line)
    seen += line
    if (message.method === 'elicitation/create') {
      send({ id: message.id, result: { action: 'accept', content: {} } })
    } else if (message.id !== undefined && message.method === undefined) {
      answers.get(message.id)?.(message.result ?? message)
    }
  })
  await ask(0, 'initialize', { protocolVersion: 1, clientCapabilities: { elicitation: { form: {}, url: {} } } })
  const { sessionId } = await ask(1, 'session/new', { cwd: root, mcpServers: [] })
  await ask(2, 'session/prompt', { sessionId, prompt: [{ type: 'text', text: 'call them' }] })
  agent.stdin.end()
  await new Promise(resolve => agent.on('exit', resolve))
  console.log(seen.slice(-4000))
  return seen
}

if (scenario.startsWith('auth/') && !scenario.startsWith('auth/client-credentials')) logIn()
let seen = await talk()
// A call may need a login that allows more; each is tried once.
for (let tries = 0; tries < 2 && /needs a login that allows more/.test(seen); tries++) {
  logIn()
  seen = await talk()
}
model.close()
model.closeAllConnections()
fs.rmSync(root, { recursive: true, force: true })
