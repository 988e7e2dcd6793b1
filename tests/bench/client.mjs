// A raw ACP client for measuring: spawns an agent, speaks JSON lines, reads the process's accounts from /proc.
import { spawn } from 'node:child_process'
import fs from 'node:fs'

const TICK_MS = 10

export class Agent {
  constructor(command, { cwd, env }) {
    this.started = performance.now()
    this.process = spawn(command[0], command.slice(1), { cwd, env, stdio: ['pipe', 'pipe', 'pipe'] })
    this.pending = new Map()
    this.count = 0
    this.stderr = ''
    this.onUpdate = () => {}
    this.process.stderr.on('data', data => { this.stderr = (this.stderr + data).slice(-2000) })
    this.exited = new Promise(resolve => this.process.on('exit', code => {
      for (const { reject } of this.pending.values()) reject(new Error(`the agent ended with ${code}: ${this.stderr}`))
      resolve(code)
    }))
    let rest = ''
    this.process.stdout.setEncoding('utf8').on('data', data => {
      const lines = (rest + data).split('\n')
      rest = lines.pop()
      for (const line of lines) if (line) this.receive(JSON.parse(line))
    })
  }

  receive(message) {
    if (message.method === 'session/update') return this.onUpdate(message.params.update)
    if (message.method === 'session/request_permission') {
      const option = message.params.options.find(option => option.kind === 'allow_once')
      return this.write({ jsonrpc: '2.0', id: message.id, result: { outcome: { outcome: 'selected', optionId: option.optionId } } })
    }
    if (message.method) return
    const waiting = this.pending.get(message.id)
    this.pending.delete(message.id)
    if (message.error) waiting?.reject(new Error(JSON.stringify(message.error)))
    else waiting?.resolve(message.result)
  }

  write(message) { this.process.stdin.write(JSON.stringify(message) + '\n') }

  call(method, params) {
    const id = this.count++
    return new Promise((resolve, reject) => {
      this.pending.set(id, { resolve, reject })
      this.write({ jsonrpc: '2.0', id, method, params })
    })
  }

  initialize() { return this.call('initialize', { protocolVersion: 1, clientCapabilities: {}, clientInfo: { name: 'bench', version: '1' } }) }

  async session(cwd) { return (await this.call('session/new', { cwd, mcpServers: [] })).sessionId }

  prompt(sessionId, text) { return this.call('session/prompt', { sessionId, prompt: [{ type: 'text', text }] }) }

  // The process and its descendants.
  tree(pid = this.process.pid) {
    const pids = [pid]
    try {
      for (const thread of fs.readdirSync(`/proc/${pid}/task`)) {
        const children = fs.readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').trim()
        if (children) for (const child of children.split(' ')) pids.push(...this.tree(+child))
      }
    } catch { /* It has ended meanwhile. */ }
    return [...new Set(pids)]
  }

  // Resident memory of the tree in MB.
  memory(field = 'VmRSS') {
    let kilobytes = 0
    for (const pid of this.tree()) {
      try { kilobytes += +(fs.readFileSync(`/proc/${pid}/status`, 'utf8').match(new RegExp(`${field}:\\s+(\\d+)`))?.[1] ?? 0) } catch { /* ended */ }
    }
    return kilobytes / 1024
  }

  // Processor time of the process and of the children it has waited for, in ms.
  cpu() {
    const stat = fs.readFileSync(`/proc/${this.process.pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return TICK_MS * (+fields[11] + +fields[12] + +fields[13] + +fields[14])
  }

  async stop() {
    this.process.stdin.end()
    const timer = setTimeout(() => this.process.kill('SIGKILL'), 5000)
    await this.exited
    clearTimeout(timer)
  }
}
