// The program in a scratch directory: its server, its commands, and the homes that they have.
import { spawn } from 'node:child_process'
import fs from 'node:fs'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { send } from './browser.mjs'

/** Waits for a promise, and says what did not come. */
export function soon(promise, what, seconds = 15) {
  let timer
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(`${what}: nothing after ${seconds} s`)), seconds * 1000) })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

/** A process whose output can be waited for. */
export class Running {
  out = ''
  err = ''
  #heard = () => {}

  constructor(binary, args, { input, ...options }) {
    this.child = spawn(binary, args, options)
    this.child.stdin.end(input)
    for (const [stream, key] of [[this.child.stdout, 'out'], [this.child.stderr, 'err']]) {
      stream.setEncoding('utf8')
      stream.on('data', data => { this[key] += data; this.#heard() })
    }
    this.ended = new Promise((resolve, reject) => {
      this.child.on('error', reject)
      this.child.on('close', (code, signal) => { this.isOver = true; this.#heard(); resolve({ code, signal, out: this.out, err: this.err }) })
    })
  }

  /** Waits for a text in either output. */
  said(pattern, what) {
    const said = new Promise((resolve, reject) => {
      this.#heard = () => {
        const found = pattern.exec(this.out) ?? pattern.exec(this.err)
        if (found) resolve(found)
        else if (this.isOver) reject(new Error(`${what}: it ended with ${this.out}${this.err}`))
      }
      this.#heard()
    })
    return soon(said, what)
  }
}

export async function freePort() {
  const server = net.createServer()
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address()
  await new Promise(resolve => server.close(resolve))
  return port
}

/** The scratch directory, the server's user in it, and the server once it is started. */
export class Scratch {
  constructor(binary, port) {
    this.binary = binary
    this.port = port
    this.url = `http://127.0.0.1:${port}`
    this.root = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'windlass-team-')))
    this.work = path.join(this.root, 'work')
    fs.mkdirSync(this.work)
    this.env = this.home('server')
  }

  /** The environment of a user with a home of this name. */
  home(name) {
    const home = path.join(this.root, name)
    const xdg = { XDG_CONFIG_HOME: 'config', XDG_DATA_HOME: 'data', XDG_CACHE_HOME: 'cache', XDG_STATE_HOME: 'state', XDG_RUNTIME_DIR: 'run' }
    const env = { PATH: process.env.PATH, HOME: home }
    for (const [key, folder] of Object.entries(xdg)) {
      env[key] = path.join(home, folder)
      fs.mkdirSync(env[key], { recursive: true, mode: 0o700 })
    }
    return env
  }

  /** Starts the server, and returns the link of its first administrator. */
  async serve(accounts) {
    const config = path.join(this.env.XDG_CONFIG_HOME, 'opencode')
    fs.mkdirSync(config, { recursive: true })
    fs.writeFileSync(path.join(config, 'opencode.json'), JSON.stringify({ windlass: { accounts } }))
    const args = ['serve', '--accounts', '--port', String(this.port), '--hostname', '127.0.0.1']
    this.server = new Running(this.binary, args, { cwd: this.work, env: this.env })
    await this.server.said(/listening on http:/, 'the server')
    return (await this.server.said(/logs in by this link, once: (\S+)/, 'the first link'))[1]
  }

  /** Starts a command with this text as its standard input. */
  start(args, env = this.env, input = '') {
    return new Running(this.binary, args, { cwd: this.work, env, input })
  }

  run(args, env) {
    return soon(this.start(args, env).ended, args.join(' '))
  }

  /** Sends a program's request, with a token if there is one. */
  api(pathname, { token, ...options } = {}) {
    const headers = { ...(token && { authorization: `Bearer ${token}` }), ...options.headers }
    return send(this.url + pathname, { ...options, headers })
  }

  end() {
    if (this.server && !this.server.isOver) this.server.child.kill('SIGKILL')
    fs.rmSync(this.root, { recursive: true, force: true, maxRetries: 5 })
  }
}
