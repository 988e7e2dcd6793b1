// A browser of one person: cookies by host and path, as browsers keep them, and forms.
import assert from 'node:assert/strict'
import http from 'node:http'

/** Sends one request and follows nothing. The body is text, a form (URLSearchParams), or an object, which is sent as JSON. */
export function send(url, { method = 'GET', headers = {}, body } = {}) {
  const isForm = body instanceof URLSearchParams
  const isJson = body !== undefined && !isForm && typeof body !== 'string'
  const text = isJson ? JSON.stringify(body) : body?.toString()
  const type = isForm ? 'application/x-www-form-urlencoded' : isJson ? 'application/json' : undefined
  const length = text === undefined ? {} : { 'content-length': Buffer.byteLength(text) }
  return new Promise((resolve, reject) => {
    const request = http.request(url, { method, agent: false, timeout: 15_000, headers: { ...(type && { 'content-type': type }), ...length, ...headers } }, response => {
      let answer = ''
      response.setEncoding('utf8')
      response.on('data', data => { answer += data })
      response.on('error', reject)
      response.on('end', () => resolve({ url: String(url), status: response.statusCode, headers: response.headers, text: answer, json: () => JSON.parse(answer) }))
    })
    request.on('timeout', () => request.destroy(new Error(`no answer of ${url}`)))
    request.on('error', reject)
    request.end(text)
  })
}

/** Undoes the escapes of a text in HTML. */
export function plain(html) {
  const letters = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" }
  return html.replace(/&(amp|lt|gt|quot|#39);/g, (_, name) => letters[name])
}

/** The address that a page leads to by itself. */
export function refresh(page) {
  const found = /<meta http-equiv="refresh" content="0;url=([^"]*)">/.exec(page.text)
  return found && plain(found[1])
}

export class Browser {
  cookies = []

  /** The value of a cookie, by the beginning of its name. */
  cookie(start) {
    return this.cookies.find(it => it.name.startsWith(start))?.value
  }

  /** Visits an address as a person does who writes it into the bar, or as a page of `from` makes the browser do. */
  async visit(url, { method = 'GET', body, headers = {}, from } = {}) {
    const { hostname, pathname, origin } = new URL(url)
    const sent = this.cookies.filter(it => it.host === hostname && (pathname === it.path || pathname.startsWith(it.path.endsWith('/') ? it.path : `${it.path}/`)))
    const site = from === undefined ? 'none' : from === origin ? 'same-origin' : 'cross-site'
    const answer = await send(url, {
      method,
      body,
      headers: {
        accept: 'text/html,*/*',
        'sec-fetch-mode': 'navigate',
        'sec-fetch-dest': 'document',
        'sec-fetch-site': site,
        ...(method === 'GET' || from === undefined ? {} : { origin: from }),
        ...(sent.length ? { cookie: sent.map(it => `${it.name}=${it.value}`).join('; ') } : {}),
        ...headers,
      },
    })
    for (const line of answer.headers['set-cookie'] ?? []) this.#keep(hostname, line)
    return answer
  }

  #keep(host, line) {
    const [pair, ...attributes] = line.split(';').map(it => it.trim())
    const [name, value] = [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]
    const of = key => attributes.find(it => it.toLowerCase().startsWith(`${key}=`))?.slice(key.length + 1)
    const path = of('path') ?? '/'
    const isOver = of('max-age') !== undefined ? Number(of('max-age')) <= 0 : of('expires') !== undefined && new Date(of('expires')) <= new Date()
    this.cookies = this.cookies.filter(it => it.host !== host || it.name !== name || it.path !== path)
    if (!isOver) this.cookies.push({ host, name, value, path })
  }

  /** Follows redirects until a page comes, or an address that `until` knows, which is returned unvisited. */
  async follow(url, { until = () => false, ...options } = {}) {
    let from = options.from
    for (let hops = 0; hops < 12; hops += 1) {
      if (until(url)) return { reached: url, from }
      const answer = await this.visit(url, { ...options, from })
      options = {}
      if (![301, 302, 303, 307].includes(answer.status)) return answer
      const next = new URL(answer.headers.location, url)
      // A redirect over another site stays one of another site.
      if (next.origin !== new URL(url).origin || from === 'elsewhere') from = 'elsewhere'
      else from ??= new URL(url).origin
      url = next.href
    }
    throw new Error(`too many redirects, at ${url}`)
  }

  /** Sends the form of a page, with these fields. */
  async submit(page, fields, options = {}) {
    const action = /<form[^>]*action="([^"]*)"/.exec(page.text)
    assert.ok(action, `no form at ${page.url}: ${page.status} ${page.text.slice(0, 300)}`)
    const hidden = [...page.text.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)"/g)].map(([, name, value]) => [plain(name), plain(value)])
    const body = new URLSearchParams([...hidden, ...Object.entries(fields)])
    return this.follow(new URL(plain(action[1]), page.url).href, { ...options, method: 'POST', body, from: new URL(page.url).origin })
  }
}
