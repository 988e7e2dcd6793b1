// OpenCode's own program, unmodified, at a windlass server: node programs.mjs PATH/TO/windlass
// `opencode run --attach` by itself, `opencode attach` in a pseudo-terminal. Without the program: one line, no failure.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import fs from 'node:fs'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'

const windlass = path.resolve(process.argv[2])
const packaged = path.resolve('node_modules/opencode-linux-x64/bin/opencode')
const opencode = process.env.OPENCODE_BINARY ?? packaged
const step = text => console.log(`OpenCode's program: ${text}`)
if (!fs.existsSync(opencode)) {
  step('not run, because its package is not for this machine or was not installed')
  process.exit(0)
}
try { execFileSync('script', ['--version']) } catch {
  step('not run, because there is no `script` for a pseudo-terminal')
  process.exit(0)
}
const deadline = setTimeout(() => { console.error("OpenCode's program: no end after 180 s"); process.exit(1) }, 180_000)

const root = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'windlass-ocp-')))
const [home, clientHome, work] = ['home', 'client', 'work'].map(name => path.join(root, name))
for (const directory of [home, clientHome, work]) fs.mkdirSync(directory)
execFileSync('git', ['init', '-q'], { cwd: work })

// A scripted model: the title, a tool where the prompt wants one, else an answer that names the prompt.
const llm = http.createServer((request, response) => {
  let body = ''
  request.on('data', data => { body += data })
  request.on('end', () => {
    const { tools, messages } = JSON.parse(body)
    const last = messages.at(-1)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const send = (delta, finish = null) =>
      response.write(`data: ${JSON.stringify({ id: '1', object: 'chat.completion.chunk', created: 1, model: 'mock', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`)
    const call = { index: 0, id: 'call_1', type: 'function', function: { name: 'bash', arguments: JSON.stringify({ command: 'echo from-the-tool', description: 'prints' }) } }
    if (tools?.length && last.role === 'user' && JSON.stringify(last).includes('use a tool')) {
      send({ role: 'assistant', tool_calls: [call] })
      send({}, 'tool_calls')
    } else {
      send({ role: 'assistant', content: tools?.length ? 'The-answer-is-here.' : 'Title' })
      send({}, 'stop')
    }
    response.end('data: [DONE]\n\n')
  })
})
await new Promise(resolve => llm.listen(0, '127.0.0.1', resolve))
const config = {
  model: 'mock/mock',
  permission: { bash: 'ask' },
  provider: { mock: { npm: '@ai-sdk/openai-compatible', options: { baseURL: `http://127.0.0.1:${llm.address().port}/v1`, apiKey: 'key' }, models: { mock: { limit: { context: 200000, output: 8192 } } } } },
}

const server = spawn(windlass, ['serve', '--port=0'], {
  cwd: work,
  env: { PATH: process.env.PATH, HOME: home, OPENCODE_CONFIG_CONTENT: JSON.stringify(config), OPENCODE_DISABLE_MODELS_FETCH: '1' },
  stdio: ['ignore', 'pipe', 'inherit'],
})
const url = await new Promise((resolve, reject) => {
  let out = ''
  server.stdout.on('data', data => {
    out += data
    const found = /on\s+(https?:\/\/\S+)/.exec(out)
    if (found) resolve(found[1])
  })
  server.on('exit', code => reject(new Error(`windlass serve ended with ${code}`)))
})
const get = async route => (await fetch(url + route)).json()
const post = (route, body) => fetch(url + route, { method: 'POST', body: JSON.stringify(body) })
const env = { PATH: process.env.PATH, HOME: clientHome, TERM: 'xterm-256color', OPENCODE_DISABLE_AUTOUPDATE: '1' }
// The text of a terminal's output, without what moves and colours it.
const plain = text => text.replace(/\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[[\]()?][0-9;?<>=]*[ -/]*[@-~]|\x1b[=>78]/g, '')

async function until(what, holds) {
  for (const end = Date.now() + 60_000; Date.now() < end; await new Promise(resolve => setTimeout(resolve, 100))) {
    const found = await holds()
    if (found) return found
  }
  throw new Error(`it never came to this: ${what}`)
}

let failed = false
try {
  const ran = await new Promise(resolve => {
    const child = spawn(opencode, ['run', '--attach', url, '--dir', work, '--auto', 'please use a tool'], { cwd: work, env, stdio: ['ignore', 'pipe', 'pipe'] })
    let out = ''
    child.stdout.on('data', data => { out += data })
    child.stderr.on('data', data => { out += data })
    child.on('exit', code => resolve({ code, out: plain(out) }))
  })
  assert.equal(ran.code, 0, ran.out)
  assert.match(ran.out, /The-answer-is-here\./)
  assert.match(ran.out, /echo from-the-tool/)
  step('run --attach had a prompt answered, with a tool and its permission')

  const terminal = spawn('script', ['-qfc', `stty rows 40 cols 120; exec ${opencode} attach ${url} --dir ${work}`, '/dev/null'], { cwd: work, env, stdio: ['pipe', 'pipe', 'inherit'] })
  let screen = ''
  terminal.stdout.on('data', data => { screen += data })
  const ended = new Promise(resolve => terminal.on('exit', resolve))
  await until('the prompt of the terminal', () => /Ask anything|Build/.test(plain(screen)))
  const before = (await get('/session')).length
  terminal.stdin.write('please use a tool')
  await until('the typed words', () => plain(screen).includes('use a tool'))
  terminal.stdin.write('\r')
  await until('a session of the terminal', async () => (await get('/session')).length > before)
  const [asked] = await until('the permission', async () => { const waiting = await get('/permission'); return waiting.length && waiting })
  await until('the dialogue', () => /Permission required|Allow once/i.test(plain(screen)))
  await post(`/permission/${asked.id}/reply`, { reply: 'once' })
  await until('the answer on the screen', () => plain(screen).includes('The-answer-is-here.'))
  terminal.stdin.write('\x03')
  const left = await Promise.race([ended.then(() => true), new Promise(resolve => setTimeout(resolve, 5000, false))])
  if (!left) { terminal.stdin.write('\x03'); terminal.kill() }
  step('attach showed a turn in a pseudo-terminal, with a permission that another client answered')
} catch (error) {
  failed = true
  console.error(error)
} finally {
  server.kill('SIGTERM')
  llm.close()
  llm.closeAllConnections()
  clearTimeout(deadline)
  await new Promise(resolve => server.on('exit', resolve))
  fs.rmSync(root, { recursive: true, force: true, maxRetries: 5 })
}
process.exit(failed ? 1 : 0)
