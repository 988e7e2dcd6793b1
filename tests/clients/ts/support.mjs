// A scratch directory with a scripted model behind a provider, for the clients of this folder.
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'

/** Ends the script when it takes too long, or at the first deviation. */
export async function within(name, seconds, run) {
  const deadline = setTimeout(() => { console.error(`${name}: no end after ${seconds} s`); process.exit(1) }, seconds * 1000)
  try {
    await run()
  } catch (error) {
    console.error(`${name}:`, error)
    process.exitCode = 1
  } finally {
    clearTimeout(deadline)
  }
}

/** The directory, the model, and the environment in which the program finds both. */
export async function scratch() {
  const root = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'windlass-ts-')))
  const [home, work] = [path.join(root, 'home'), path.join(root, 'work')]
  fs.mkdirSync(home); fs.mkdirSync(work)
  execFileSync('git', ['init', '-q'], { cwd: work })
  const file = path.join(work, 'a.txt')

  // Each request with tools takes the next answer.
  let answers = []
  let hanging = () => {}
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

  return {
    work,
    file,
    env: { PATH: process.env.PATH, HOME: home, OPENCODE_CONFIG_CONTENT: JSON.stringify(config) },
    /** Prepares an edit, a last word, and an answer without an end, whose beginning the promise tells. */
    begin() {
      fs.writeFileSync(file, 'one\ntwo\n')
      const edit = { filePath: file, oldString: 'two', newString: 'zwei' }
      answers = [
        { text: 'editing', call: { name: 'edit', arguments: JSON.stringify(edit) } },
        { text: 'edited' },
        { text: 'for ever', hangs: true },
      ]
      return new Promise(resolve => { hanging = resolve })
    },
    /** Prepares a call of a server's tool, and the word behind it. */
    beginShop() {
      answers = [{ text: '', call: { name: 'shop_price', arguments: '{}' } }, { text: 'it is ninety' }]
    },
    end() {
      llm.closeAllConnections()
      llm.close()
      fs.rmSync(root, { recursive: true, force: true })
    },
  }
}
