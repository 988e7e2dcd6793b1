// A headless Chromium of the machine, spoken to by its DevTools protocol over a pipe, which needs no package.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'chrome']
const PATIENCE_MS = 60_000

/** Returns the path of the program; undefined where there is none on PATH. */
export function program() {
  const folders = (process.env.PATH ?? '').split(delimiter)
  return NAMES.flatMap(name => folders.map(folder => join(folder, name))).find(path => existsSync(path))
}

export class Browser {
  #last = 0
  #waiting = new Map()
  #heard = new Map()

  constructor(path, home) {
    this.child = spawn(path, [
      '--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--no-proxy-server',
      '--disable-background-networking', '--disable-component-update', '--disable-sync', '--remote-debugging-pipe',
      `--user-data-dir=${join(home, 'browser')}`, 'about:blank',
    ], { env: { ...process.env, HOME: home }, stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] })
    this.ended = new Promise(resolve => this.child.on('close', resolve))
    let text = ''
    this.child.stdio[4].setEncoding('utf8').on('data', data => {
      const messages = (text + data).split('\0')
      text = messages.pop()
      for (const message of messages) this.#take(JSON.parse(message))
    })
  }

  #take({ id, result, error, method, params, sessionId }) {
    if (!id) return this.#heard.get(`${sessionId} ${method}`)?.(params)
    const { resolve, reject, asked } = this.#waiting.get(id)
    this.#waiting.delete(id)
    if (error) reject(new Error(`${asked}: ${error.message}`))
    else resolve(result)
  }

  /** Gives a command and returns its result; without a page it is the browser's. */
  send(method, params = {}, sessionId = undefined) {
    const id = ++this.#last
    this.child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`)
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject, asked: method }))
  }

  on(sessionId, method, heard) { this.#heard.set(`${sessionId} ${method}`, heard) }

  async page() {
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' })
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true })
    const page = new Page(this, targetId, sessionId)
    await page.send('Page.enable')
    await page.send('Page.bringToFront')
    return page
  }

  /** Returns the memory of all pages in megabytes; undefined where the system does not tell it. */
  async megabytes() {
    const { processInfo } = await this.send('SystemInfo.getProcessInfo')
    const pages = processInfo.filter(({ type }) => type === 'renderer')
    try {
      const kb = ({ id }) => Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${id}/smaps_rollup`, 'utf8'))[1])
      return Math.round(pages.map(kb).reduce((sum, it) => sum + it, 0) / 1024)
    } catch {
      return undefined
    }
  }

  async close() {
    await this.send('Browser.close')
    await this.ended
  }
}

class Page {
  constructor(browser, targetId, sessionId) {
    Object.assign(this, { browser, targetId, sessionId })
  }

  send(method, params) { return this.browser.send(method, params, this.sessionId) }

  /** Evaluates an expression in the page. Its content policy does not hold for the protocol. */
  async read(expression) {
    const params = { expression, awaitPromise: true, returnByValue: true }
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', params)
    if (exceptionDetails) throw new Error(`${expression.slice(0, 200)}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`)
    return result.value
  }

  /** Waits until an expression is true in the page, also in one that takes its place. */
  async until(expression) {
    const looking = `new Promise(resolve => { const look = () => {
      let seen = false; try { seen = ${expression} } catch {}
      if (seen) resolve(true); else setTimeout(look, 20) }; look() })`
    const end = Date.now() + PATIENCE_MS
    for (;;) {
      // A page that is left takes its answer with it.
      const seen = this.read(looking).catch(() => false)
      let timer
      const late = new Promise(resolve => { timer = setTimeout(resolve, end - Date.now(), 'late') })
      const first = await Promise.race([seen, late])
      clearTimeout(timer)
      if (first === true) return
      if (first === 'late') throw new Error(`the page never showed ${expression}`)
    }
  }

  async visit(url) {
    await this.send('Page.navigate', { url: 'about:blank' })
    await this.until("location.href === 'about:blank'")
    await this.send('Page.navigate', { url })
    await this.until("location.href !== 'about:blank' && document.readyState === 'complete'")
  }

  async key(key) {
    const event = { key, text: key === 'Enter' ? '\r' : key, windowsVirtualKeyCode: key === 'Enter' ? 13 : key.toUpperCase().charCodeAt(0) }
    await this.send('Input.dispatchKeyEvent', { type: 'keyDown', ...event })
    await this.send('Input.dispatchKeyEvent', { type: 'keyUp', ...event })
  }

  async looks({ width, height, isPhone, scheme }) {
    await this.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: isPhone ? 2 : 1, mobile: isPhone })
    await this.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] })
  }

  /** Shows the page's files of a folder in place of those in the binary, so that they are tried without a build. */
  async takeFilesOf(folder) {
    await this.send('Fetch.enable', { patterns: [{ urlPattern: 'http://*', resourceType: 'Document', requestStage: 'Response' }] })
    const file = name => readFileSync(join(folder, name), 'utf8')
    this.browser.on(this.sessionId, 'Fetch.requestPaused', async ({ requestId, request, responseStatusCode, responseHeaders }) => {
      if (new URL(request.url).pathname !== '/' || responseStatusCode !== 200) return this.send('Fetch.continueRequest', { requestId })
      const policy = responseHeaders.find(({ name }) => name.toLowerCase() === 'content-security-policy').value
      const [, nonce] = /'nonce-([^']+)'/.exec(policy)
      const styles = file('../../../crates/engine/src/transcript/html/page.css') + file('page.css')
      const body = file('page.html')
        .replace('{{style}}', () => `<style nonce="${nonce}">${styles}</style>`)
        .replace('{{script}}', () => `<script nonce="${nonce}">${file('page.js')}</script>`)
      const headers = responseHeaders.filter(({ name }) => name.toLowerCase() !== 'content-length')
      await this.send('Fetch.fulfillRequest', { requestId, responseCode: 200, responseHeaders: headers, body: Buffer.from(body).toString('base64') })
    })
  }

  close() { return this.browser.send('Target.closeTarget', { targetId: this.targetId }) }
}
