// Programs with tokens: made by hand or by `windlass login`, guessed, and ended with their account.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { soon } from './program.mjs'
import { words } from './ways.mjs'

/** Opens the stream of events, once its first one has come. */
function openStream(scratch, token) {
  const opened = new Promise((resolve, reject) => {
    const request = http.get(`${scratch.url}/event?directory=${encodeURIComponent(scratch.work)}`, { agent: false, headers: { authorization: `Bearer ${token}` } }, response => {
      const ended = new Promise(over => { response.on('close', over); response.on('error', over) })
      if (response.statusCode !== 200) return reject(new Error(`the stream: ${response.statusCode}`))
      response.once('data', () => resolve({ ended }))
      response.resume()
    })
    request.on('error', reject)
  })
  return soon(opened, 'the stream')
}

export async function tokens(team) {
  const { scratch, check, people } = team
  const url = `${scratch.url}/account`
  const json = { accept: 'application/json', 'sec-fetch-mode': 'cors' }
  const make = async body => {
    const answer = await people.ann.visit(`${url}/token`, { method: 'POST', body, from: scratch.url, headers: json })
    return { status: answer.status, ...answer.json() }
  }
  const list = async () => (await people.ann.visit(`${url}/token`, { from: scratch.url, headers: json })).json()
  const status = async (token, pathname = '/account/me', options = {}) => (await scratch.api(pathname, { token, ...options })).status
  const sessions = `/session?directory=${encodeURIComponent(scratch.work)}`

  await check('a token is shown once, and listed without its secret', async () => {
    const { token } = await make({ name: 'work', days: 30 })
    assert.match(token, /^wlt_/)
    people.token = token
    assert.equal(await status(token), 200)
    const [listed] = await list()
    assert.deepEqual([listed.name, listed.scope, Math.round((listed.ends - listed.created) / 86_400_000)], ['work', 'work', 30])
    const page = await people.ann.visit(url, { from: scratch.url })
    assert.match(words(page), /work work until/)
    for (const shown of [JSON.stringify(await list()), page.text]) assert.ok(!shown.includes(token) && !shown.includes(token.slice(4)))
    const stored = fs.readdirSync(path.join(scratch.env.XDG_DATA_HOME, 'windlass')).filter(it => it.startsWith('accounts'))
    for (const name of stored) {
      const file = path.join(scratch.env.XDG_DATA_HOME, 'windlass', name)
      if (fs.statSync(file).isFile()) assert.ok(!fs.readFileSync(file).includes(token.slice(4)), `${name} has the secret`)
    }
  })
  await check('a token makes sessions in its account\'s directories alone', async () => {
    assert.equal(await status(people.token, sessions, { method: 'POST', body: {} }), 200)
    assert.equal(await status(people.token, '/session?directory=%2F', { method: 'POST', body: {} }), 403)
  })
  await check('a token to read makes no session, and no greater token', async () => {
    const { token } = await make({ name: 'reads', scope: 'read' })
    assert.equal(await status(token, sessions), 200)
    assert.equal(await status(token, sessions, { method: 'POST', body: {} }), 403)
    const made = await scratch.api('/account/token', { method: 'POST', token, body: { name: 'more', scope: 'admin' } })
    if (made.status === 200) assert.equal(await status(made.json().token, sessions, { method: 'POST', body: {} }), 403)
    assert.ok((await list()).filter(it => it.name === 'more').every(it => it.scope === 'read'))
  })
  await check('a member\'s token of the scope admin is no administrator', async () => {
    const { token } = await make({ name: 'wants', scope: 'admin' })
    assert.equal(await status(token, '/global/config', { method: 'PATCH', body: {} }), 403)
  })
  await check('a token lasts for 1 to 365 days', async () => {
    for (const days of [0, -1, 366, 1e12]) assert.equal((await make({ name: 'odd', days })).status, 400, String(days))
    assert.equal((await make({ name: '  ' })).status, 400)
  })
  await check('a token that is revoked holds no more, and others cannot revoke it', async () => {
    const { token } = await make({ name: 'gone' })
    const { id } = (await list()).find(it => it.name === 'gone')
    await people.bob.visit(`${url}/token/${id}`, { method: 'DELETE', from: scratch.url, headers: json })
    assert.equal(await status(token), 200)
    assert.equal((await people.ann.visit(`${url}/token/${id}`, { method: 'DELETE', from: scratch.url, headers: json })).json(), true)
    const answer = await scratch.api('/account/me', { token })
    assert.equal(answer.status, 401)
    assert.match(answer.text, /wrong, revoked, or has ended/)
  })
  await check('a token goes as the password of clients that know no other, and in the address of streams', async () => {
    const basic = Buffer.from(`opencode:${people.token}`).toString('base64')
    assert.equal(await status(undefined, '/account/me', { headers: { authorization: `Basic ${basic}` } }), 200)
    assert.equal(await status(undefined, `/account/me?auth_token=${people.token}`), 200)
  })
  await check('a token that has ended holds no more', async () => {
    const { token } = await make({ name: 'ended', days: 1 })
    assert.equal(await status(token), 200)
    const file = path.join(scratch.env.XDG_DATA_HOME, 'windlass', 'accounts.db')
    // A day passes, by another process.
    try {
      execFileSync('sqlite3', [file, '.timeout 5000', "UPDATE credential SET ends = created WHERE name = 'ended'"])
    } catch (error) {
      if (error.code === 'ENOENT') return console.log('skipped: the end of a token\'s days: sqlite3 is not installed')
      throw error
    }
    assert.equal(await status(token), 401)
    assert.ok((await list()).every(it => it.name !== 'ended'))
  })
  people.stream = () => openStream(scratch, people.token)
}

export async function programs(team) {
  const { scratch, check, browser, logIn, me, people } = team
  const env = scratch.home('client')
  const waiting = async () => {
    const login = scratch.start(['login', scratch.url, '--name', 'laptop'], env)
    const [, code] = await login.said(/confirm the code ([A-Z]{4}-[A-Z]{4})/, 'the code')
    return { login, code }
  }
  const press = async (code, action) => {
    const body = new URLSearchParams({ code, action })
    return people.ann.visit(`${scratch.url}/account`, { method: 'POST', body, from: scratch.url })
  }

  await check('`windlass login` shows a code, and its person lets it in by the page', async () => {
    const { login, code } = await waiting()
    const stranger = await browser().visit(`${scratch.url}/account?code=${code}`)
    assert.match(words(stranger), /^ ?Log in Log in /)
    const page = await people.ann.visit(`${scratch.url}/account?code=${code}`)
    assert.match(words(page), new RegExp(`A program on laptop at 127\\.0\\.0\\.1 asks for a token of yours.*${code}`))
    assert.match(words(await press('BBBB-BBBB', 'confirm')), /No program waits with this code/)
    const elsewhere = await people.ann.visit(`${scratch.url}/account`, { method: 'POST', body: new URLSearchParams({ code, action: 'confirm' }), from: 'http://evil.example' })
    assert.equal(elsewhere.status, 403)
    assert.match(words(await press(code, 'confirm')), /It has got a token; go back to it/)
    const { code: exit, out, err } = await soon(login.ended, 'the login')
    assert.equal(exit, 0, err)
    assert.match(out, /Logged in at http:\/\/127\.0\.0\.1:\d+ as Ann\./)
    assert.match(words(await press(code, 'confirm')), /No program waits with this code/)
  })
  const file = path.join(env.XDG_DATA_HOME, 'windlass', 'servers.json')
  const stored = () => JSON.parse(fs.readFileSync(file, 'utf8'))
  const leave = async way => {
    let token
    await check(`the token of a login ${way} is in a file of the user alone, for no more than work`, async () => {
      assert.equal(fs.statSync(file).mode & 0o777, 0o600)
      ;({ token } = stored()[scratch.url])
      assert.equal((await scratch.api('/account/me', { token })).json().scope, 'work')
    })
    await check(`\`windlass whoami\` names the account after a login ${way}`, async () => {
      const { code, out, err } = await scratch.run(['whoami'], env)
      assert.equal(code, 0, err)
      assert.match(out, /^Ann \(member\) at http:\/\/127\.0\.0\.1:\d+, by a token for `work`/)
    })
    await check(`\`windlass logout\` after a login ${way} ends the token at the server, and says so`, async () => {
      const { code, out, err } = await scratch.run(['logout'], env)
      assert.equal((await scratch.api('/account/me', { token })).status, 401)
      assert.equal(code, 0, err)
      assert.match(out, /^Logged out at http:\/\/127\.0\.0\.1:\d+\./)
      const after = await scratch.run(['whoami'], env)
      assert.notEqual(after.code, 0)
      assert.match(after.err, /You are not logged in there/)
    })
  }
  await leave('by a code')
  await check('a program that is refused gets nothing, and says so', async () => {
    const { login, code } = await waiting()
    assert.match(words(await press(code, 'refuse')), /It got nothing/)
    const { code: exit, err } = await soon(login.ended, 'the refused login')
    assert.notEqual(exit, 0)
    assert.match(err, /The login was refused in the browser/)
    assert.deepEqual(stored(), {})
  })
  await check('`windlass login --with-token` takes a token from standard input', async () => {
    const made = await people.ann.visit(`${scratch.url}/account/token`, { method: 'POST', body: { name: 'given' }, from: scratch.url })
    const login = scratch.start(['login', scratch.url, '--with-token'], env, `${made.json().token}\n`)
    const { code, out, err } = await soon(login.ended, 'the login')
    assert.equal(code, 0, err)
    assert.match(out, /as Ann\./)
  })
  await leave('by a token')
  await check('an account that is removed ends its stream, token and cookie', async () => {
    const gus = browser()
    await logIn(gus, 'corp', 'gus')
    const { account } = await me(gus)
    const made = await gus.visit(`${scratch.url}/account/token`, { method: 'POST', body: { name: 'gus' }, from: scratch.url })
    const { token: his } = made.json()
    const [stream, other] = [await openStream(scratch, his), await people.stream()]
    let isOtherOver = false
    other.ended.then(() => { isOtherOver = true })
    const { code, err } = await scratch.run(['account', 'remove', account.id])
    assert.equal(code, 0, err)
    await soon(stream.ended, 'the end of the stream', 5)
    assert.equal((await scratch.api('/account/me', { token: his })).status, 401)
    assert.equal(await me(gus), undefined)
    assert.equal(isOtherOver, false)
  })
  await check('`windlass account logout` ends the tokens and cookies of one account', async () => {
    const { account } = await me(people.bob)
    const { token: his } = (await people.bob.visit(`${scratch.url}/account/token`, { method: 'POST', body: { name: 'bob' }, from: scratch.url })).json()
    assert.equal((await scratch.api('/account/me', { token: his })).status, 200)
    assert.equal((await scratch.run(['account', 'logout', account.id])).code, 0)
    assert.equal((await scratch.api('/account/me', { token: his })).status, 401)
    assert.equal(await me(people.bob), undefined)
    assert.equal((await scratch.api('/account/me', { token: people.token })).status, 200)
  })
  await check('the audit tells who came in, and who did not', async () => {
    const { out } = await scratch.run(['audit', '--limit', '1000'])
    for (const word of ['login', 'login refused', 'token made', 'token revoked', 'logout']) assert.ok(out.includes(word), `${word}: ${out}`)
    assert.ok(!/wlt_/.test(out))
  })
}

export async function guesses({ scratch, check, people, me }) {
  await check('tokens that are guessed 50 times get 429 with words, and right ones go on', async () => {
    const guessed = []
    for (let i = 0; i < 50; i += 1) guessed.push(await scratch.api('/account/me', { token: `wlt_${String(i).padStart(40, 'A')}` }))
    const of = status => guessed.filter(it => it.status === status).length
    assert.equal(of(401) + of(429), 50)
    assert.ok(of(429) >= 30, `${of(429)} of 50`)
    assert.match(guessed.at(-1).text, /Too many wrong tokens came from this address; wait a minute/)
    assert.equal((await scratch.api('/account/me', { token: people.token })).status, 200)
    assert.equal((await me(people.ann)).account.name, 'Ann')
  })
}
