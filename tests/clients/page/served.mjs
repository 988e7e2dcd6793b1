// `windlass web` with a home and a project of its own, a scripted model behind it, and long sessions for it.
import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * Starts a model that gives `answers` one after another: `{thought, text, call: [name, input], deltas, ms, hangs}`.
 * Requests without tools ask for a title.
 */
async function startModel() {
  const answers = []
  const server = createServer((request, response) => {
    let text = ''
    request.on('data', data => { text += data })
    request.on('end', async () => {
      const answer = JSON.parse(text).tools?.length ? answers.shift() ?? { text: 'No answer is left.' } : { text: 'A scripted title' }
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const say = (delta, finish_reason = null) =>
        response.write(`data: ${JSON.stringify({ id: '1', object: 'chat.completion.chunk', created: 1, model: 'mock', choices: [{ index: 0, delta, finish_reason }] })}\n\n`)
      if (answer.thought) say({ reasoning_content: answer.thought })
      if (answer.text) say({ content: answer.text })
      for (let n = 0; n < (answer.deltas ?? 0); n++) {
        say({ content: `word ${n} ` })
        await new Promise(resolve => setTimeout(resolve, answer.ms))
      }
      if (answer.hangs) return
      if (answer.call) {
        const [name, input] = answer.call
        say({ tool_calls: [{ index: 0, id: `call_${Math.random()}`, type: 'function', function: { name, arguments: JSON.stringify(input) } }] })
      }
      say({}, answer.call ? 'tool_calls' : 'stop')
      response.end('data: [DONE]\n\n')
    })
  })
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
  return { answers, server, url: `http://127.0.0.1:${server.address().port}/v1` }
}

export async function serve(binary) {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'windlass-page-')))
  const [home, work] = ['home', 'work'].map(name => join(root, name))
  for (const folder of [home, work]) mkdirSync(folder)
  writeFileSync(join(work, 'a.txt'), 'one\ntwo\nthree\n')
  const git = (...words) => execFileSync('git', ['-c', 'user.name=T', '-c', 'user.email=t@example.invalid', ...words], { cwd: work })
  git('init', '-q')
  git('add', '.')
  git('commit', '-q', '-m', 'first')
  const model = await startModel()
  const config = {
    model: 'mock/mock',
    permission: { edit: 'ask', bash: 'allow' },
    windlass: { file_time: false },
    command: { tidy: { template: 'Tidy up', description: 'Tidies up' } },
    provider: { mock: { npm: '@ai-sdk/openai-compatible', options: { baseURL: model.url, apiKey: 'secret-key' }, models: { mock: { limit: { context: 50_000_000, output: 8192 } } } } },
  }
  const env = { PATH: process.env.PATH, HOME: home, OPENCODE_CONFIG_CONTENT: JSON.stringify(config) }
  const windlass = (...words) => execFileSync(binary, words, { cwd: work, env, encoding: 'utf8' })
  return {
    home, model, work,
    /** Stores a session, and returns its id. */
    store(session) {
      const file = join(root, `${session.info.id}.json`)
      writeFileSync(file, JSON.stringify(session))
      windlass('import', file)
      return session.info.id
    },
    /** Writes a session as a page, and returns the file. */
    export(id) {
      const file = join(root, `${id}.html`)
      windlass('session', 'export', id, '-o', file)
      return file
    },
    /** Starts the server, and returns the link to its page. */
    async start() {
      this.child = spawn(binary, ['web', '--no-open', '--port', '0'], { cwd: work, env, stdio: ['ignore', 'pipe', 'pipe'] })
      this.ended = new Promise(resolve => this.child.on('close', resolve))
      return new Promise((resolve, reject) => {
        let said = ''
        const read = data => {
          said += data
          const link = /http:\S+\/enter\?key=\w+/.exec(said)
          if (link) resolve(link[0])
        }
        this.child.stdout.on('data', read)
        this.child.stderr.on('data', read)
        this.ended.then(() => reject(new Error(`windlass web ended: ${said}`)))
      })
    },
    async end() {
      this.child?.kill('SIGINT')
      await this.ended
      model.server.closeAllConnections()
      model.server.close()
      rmSync(root, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

const PATCH = ['--- a/src/part.rs', '+++ b/src/part.rs', '@@ -1,6 +1,7 @@', ' fn draw(part: &Part) {', '-    let text = part.text();', '+    let text = part.text().trim();', '+    log(text);', '     out.push(text);', ' }'].join('\n')

/** Returns an export of a session with so many turns and parts: prompts, text, thoughts, and calls with outputs and diffs. */
export function longSession(id, n_turns, n_parts, directory) {
  let n = 0
  const next = kind => `${kind}_${id.slice(4)}${String(++n).padStart(8, '0')}`
  const began = Date.now() - 3_600_000
  const time = { start: began, end: began + 900 }
  const called = (tool, input, output, metadata) =>
    ({ type: 'tool', callID: `call_${n}`, tool, state: { status: 'completed', input, output, title: 'title', metadata, time } })
  const kinds = [
    at => ({ type: 'text', text: `## Step ${at}\n\nPart ${at} has **some** words, \`code\` and a list:\n\n- one\n- two\n\n\`\`\`rust\nlet part = ${at};\n\`\`\`\n` }),
    at => called('bash', { command: `grep -rn part${at} src`, description: 'looks' }, `src/part.rs:${at}: some line of the output\n`.repeat(12), { exit: 0 }),
    at => called('read', { filePath: join(directory, `src/part${at}.rs`) }, `${at}: fn part() {}\n`.repeat(20), {}),
    at => called('edit', { filePath: join(directory, 'src/part.rs'), oldString: 'a', newString: 'b' }, 'Edited.', { diff: PATCH, filediff: { file: join(directory, `src/part${at % 20}.rs`), patch: PATCH, additions: 2, deletions: 1 } }),
    at => ({ type: 'reasoning', text: `I think about part ${at}. `.repeat(6), time }),
  ]
  const messages = []
  const add = (info, parts) => {
    const message = { ...info, sessionID: id, agent: 'build' }
    messages.push({ info: message, parts: parts.map(part => ({ id: next('prt'), sessionID: id, messageID: info.id, ...part })) })
  }
  let at = 0
  for (let turn = 0; turn < n_turns; turn++) {
    const asked = next('msg')
    add({ id: asked, role: 'user', time: { created: began }, model: { providerID: 'mock', modelID: 'mock' } }, [{ type: 'text', text: `Prompt ${turn} of the long session` }])
    at++
    const end = Math.round((turn + 1) * n_parts / n_turns)
    while (at < end) {
      const parts = []
      for (; at < end && parts.length < kinds.length; at++) parts.push(kinds[parts.length](at))
      if (at === n_parts) parts[parts.length - 1] = { type: 'text', text: 'The end of the long session.' }
      add({
        id: next('msg'), role: 'assistant', mode: 'build', parentID: asked, providerID: 'mock', modelID: 'mock', path: { cwd: directory, root: directory }, cost: 0, finish: 'stop',
        time: { created: began, completed: began + 1000 }, tokens: { input: 100, output: 10, reasoning: 0, cache: { read: 0, write: 0 } },
      }, parts)
    }
  }
  const info = { id, slug: 'long', projectID: 'global', directory, title: `A session of ${n_parts} parts in ${n_turns} turns`, version: '1.0.0', time: { created: began, updated: began + 1000 } }
  return { info, messages }
}
