// Measures an agent and prints the figures beside their budgets: node tests/bench/run.mjs AGENT acp
// REFERENCE="opencode acp" measures another agent in the same run. RUNS (3) and ONLY (comma-separated names) choose.
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Agent } from './client.mjs'
import { startModel } from './model.mjs'

const runs = +(process.env.RUNS ?? 3)
const only = process.env.ONLY?.split(',')
const median = values => [...values].sort((a, b) => a - b)[values.length >> 1]
const model = await startModel()
const root = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'windlass-bench-')))
const work = path.join(root, 'work')
fs.mkdirSync(work)
fs.writeFileSync(path.join(work, 'a.txt'), 'one\n')
execFileSync('git', ['init', '-q'], { cwd: work })
const big = path.join(work, 'big.txt')

const config = {
  model: 'mock/mock',
  permission: { '*': 'allow' },
  provider: { mock: { npm: '@ai-sdk/openai-compatible', options: { baseURL: model.url, apiKey: 'test' }, models: { mock: { limit: { context: 2000000, output: 8192 } } } } },
}

class Measured {
  constructor(name, command) {
    this.name = name
    this.command = command
    this.home = path.join(root, `home-${name}`)
    fs.mkdirSync(this.home)
    this.figures = new Map()
  }

  add(row, value) { this.figures.set(row, [...(this.figures.get(row) ?? []), value]) }

  start() {
    const env = {
      PATH: process.env.PATH,
      HOME: this.home,
      OPENCODE_CONFIG_CONTENT: JSON.stringify(config),
      OPENCODE_DISABLE_MODELS_FETCH: '1',
      OPENCODE_DISABLE_AUTOUPDATE: '1',
    }
    return new Agent(this.command, { cwd: work, env })
  }
}

async function timed(work) {
  const start = performance.now()
  const value = await work()
  return [performance.now() - start, value]
}

// Each scenario measures one agent once; rows are named in BUDGETS.
const scenarios = {
  async start(it) {
    const agent = it.start()
    await agent.initialize()
    it.add('spawn → initialize, ms', performance.now() - agent.started)
    const [first, session] = await timed(() => agent.session(work))
    it.add('first session/new, ms', first)
    it.add('memory after 1 session, MB', agent.memory())
    await agent.prompt(session, 'hello')
    it.add('spawn → first prompt answered, ms', performance.now() - agent.started)
    const warm = []
    for (let n = 0; n < 20; n++) {
      let chunk
      agent.onUpdate = update => { if (update.sessionUpdate === 'agent_message_chunk') chunk ??= performance.now() }
      const start = performance.now()
      await agent.prompt(session, 'hello again')
      warm.push(chunk - start)
    }
    it.add('warm prompt → first chunk, ms', median(warm))
    agent.onUpdate = () => {}
    const [stop] = await timed(() => agent.stop())
    it.add('end of input → exit, ms', stop)
  },

  async sessions(it) {
    const agent = it.start()
    await agent.initialize()
    for (let n = 0; n < 100; n++) await agent.session(work)
    it.add('memory after 100 sessions, MB', agent.memory())
    await agent.stop()
  },

  async stream(it) {
    const agent = it.start()
    await agent.initialize()
    const session = await agent.session(work)
    await agent.prompt(session, 'hello')
    for (const count of [5000, 50000]) {
      const before = agent.cpu()
      const [elapsed] = await timed(() => agent.prompt(session, `stream ${count}`))
      it.add(`${count} deltas, ms`, elapsed)
      it.add(`${count} deltas, µs of processor each`, (agent.cpu() - before) * 1000 / count)
    }
    it.add('peak memory of the streams, MB', agent.memory('VmHWM'))
    await agent.stop()
  },

  async steps(it) {
    const agent = it.start()
    await agent.initialize()
    const session = await agent.session(work)
    await agent.prompt(session, 'hello')
    for (const count of [50, 200]) {
      const [elapsed] = await timed(() => agent.prompt(session, `steps ${count} bash {"command":"true %N","description":"nothing"}`))
      it.add(`a bash step (${count} in a turn), ms`, elapsed / count)
    }
    await agent.stop()
  },

  async load(it) {
    const agent = it.start()
    await agent.initialize()
    const session = await agent.session(work)
    for (let n = 0; n < 221; n++) await agent.prompt(session, `hello ${n}`)
    await agent.stop()
    const fresh = it.start()
    await fresh.initialize()
    const [elapsed] = await timed(() => fresh.call('session/load', { sessionId: session, cwd: work, mcpServers: [] }))
    it.add('session/load of 221 turns, ms', elapsed)
    await fresh.stop()
  },

  async parallel(it) {
    const agent = it.start()
    await agent.initialize()
    const sessions = []
    for (let n = 0; n < 50; n++) sessions.push(await agent.session(work))
    const [elapsed] = await timed(() => Promise.all(sessions.map(session => agent.prompt(session, 'slow 10 100'))))
    it.add('50 parallel turns of 1 s, ms', elapsed)
    await agent.stop()
  },

  async file(it) {
    if (!fs.existsSync(big)) {
      const piece = Buffer.from(('x'.repeat(79) + '\n').repeat(13107))
      const file = fs.openSync(big, 'w')
      for (let written = 0; written < 1 << 30; written += piece.length) fs.writeSync(file, piece)
      fs.closeSync(file)
    }
    const agent = it.start()
    await agent.initialize()
    const session = await agent.session(work)
    await agent.prompt(session, 'hello')
    const before = agent.memory('VmHWM')
    const [elapsed] = await timed(() => agent.prompt(session, `steps 1 read {"filePath":"${big}","limit":100}`))
    it.add('head of a 1 GB file, ms', elapsed)
    it.add('head of a 1 GB file, more MB', agent.memory('VmHWM') - before)
    await agent.stop()
  },
}

const BUDGETS = {
  'spawn → initialize, ms': 10,
  'first session/new, ms': 8,
  'memory after 1 session, MB': 14,
  'memory after 100 sessions, MB': 30,
  'warm prompt → first chunk, ms': 2,
  '5000 deltas, µs of processor each': 8,
  '50000 deltas, µs of processor each': 8,
  'a bash step (50 in a turn), ms': 8,
  'a bash step (200 in a turn), ms': 8,
  'session/load of 221 turns, ms': 20,
  '50 parallel turns of 1 s, ms': 1300,
  'head of a 1 GB file, ms': 300,
  'head of a 1 GB file, more MB': 2,
}

const agents = [new Measured('windlass', process.argv.slice(2))]
if (process.env.REFERENCE) agents.push(new Measured('reference', process.env.REFERENCE.split(' ')))
let status = 0
for (const [name, scenario] of Object.entries(scenarios)) {
  if (only && !only.includes(name)) continue
  for (let run = 0; run < runs; run++) {
    for (const agent of agents) {
      try { await scenario(agent) } catch (error) { console.error(`${agent.name}, ${name}: ${error.message}`); status = 1 }
    }
  }
}

const cell = (text, width = 14) => String(text).padStart(width)
console.log('figure (median)'.padEnd(42) + agents.map(agent => cell(agent.name)).join('') + cell('budget'))
for (const row of new Set(agents.flatMap(agent => [...agent.figures.keys()]))) {
  const values = agents.map(agent => agent.figures.has(row) ? median(agent.figures.get(row)) : undefined)
  const budget = BUDGETS[row]
  const verdict = budget === undefined || values[0] === undefined ? '' : values[0] <= budget ? '  met' : '  OVER'
  console.log(row.padEnd(42) + values.map(value => cell(value === undefined ? '-' : value.toFixed(value < 100 ? 1 : 0))).join('') + cell(budget ?? '') + verdict)
}
const size = fs.statSync(agents[0].command[0]).size / (1 << 20)
console.log('binary, MB'.padEnd(42) + cell(size.toFixed(1)) + (agents.length > 1 ? cell('') : '') + cell(20) + (size <= 20 ? '  met' : '  OVER'))
model.close()
fs.rmSync(root, { recursive: true, force: true })
process.exit(status)
