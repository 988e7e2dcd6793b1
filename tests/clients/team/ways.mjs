// The ways in: the first administrator's link, the provider, GitHub, a gateway; and the end of the server.
import assert from 'node:assert/strict'
import { plain, send } from './browser.mjs'
import { soon } from './program.mjs'

/** The words of a page, as a person reads them. */
export const words = answer => plain(answer.text.replace(/<style.*?<\/style>/gs, '').replace(/<[^>]*>/g, ' ')).replace(/\s+/g, ' ')

/** Asserts that nobody was let in, and that the page says why. */
export async function refused(team, browser, answer, pattern, status = 403) {
  assert.equal(answer.status, status, words(answer))
  assert.match(words(answer), pattern)
  assert.equal(browser.cookie('windlass_account'), undefined)
  assert.equal(await team.me(browser), undefined)
}

export async function invitation({ scratch, check, browser, me, link, people }) {
  const admin = browser()
  await check('the administrator\'s link shows its account, and looking at it uses nothing up', async () => {
    for (let i = 0; i < 2; i += 1) {
      const page = await admin.visit(link)
      assert.equal(page.status, 200)
      assert.match(words(page), /Log in as admin/)
    }
    assert.equal(await me(admin), undefined)
  })
  await check('a page elsewhere cannot press the link\'s button', async () => {
    const body = new URLSearchParams({ key: new URL(link).searchParams.get('key') })
    const answer = await browser().visit(`${scratch.url}/account/enter`, { method: 'POST', body, from: 'http://evil.example' })
    assert.equal(answer.status, 403)
    assert.equal(answer.headers['set-cookie'], undefined)
  })
  await check('the link logs in, by a cookie that is HttpOnly and SameSite=Lax', async () => {
    const answer = await admin.submit(await admin.visit(link), {})
    assert.equal(answer.status, 200, words(answer))
    const line = answer.headers['set-cookie'].find(it => it.startsWith('windlass_account'))
    assert.match(line, /; HttpOnly/)
    assert.match(line, /; SameSite=Lax/)
    assert.match(line, /; Path=\//)
    const { account, scope } = await me(admin)
    assert.deepEqual([account.name, account.role, scope], ['admin', 'admin', 'admin'])
  })
  await check('the link logs in once alone', async () => {
    const late = browser()
    const key = new URL(link).searchParams.get('key')
    for (const answer of [await late.visit(link), await late.visit(`${scratch.url}/account/enter`, { method: 'POST', body: new URLSearchParams({ key }), from: scratch.url })]) {
      assert.equal(answer.status, 403)
      assert.match(words(answer), /has been followed already/)
      assert.equal(answer.headers['set-cookie'], undefined)
    }
  })
  people.admin = admin
}

export async function logins(team) {
  const { scratch, check, browser, logIn, me, people } = team
  const ann = browser()
  let first
  await check('the page offers the providers, and a page that needs an account leads there and back', async () => {
    const page = await ann.follow(`${scratch.url}/session?limit=1`)
    assert.equal(new URL(page.url).pathname, '/account')
    for (const name of ['Corp', 'Guild', 'Hub']) assert.match(words(page), new RegExp(name))
    assert.match(page.text, /href="\/account\/login\/corp\?back=%2Fsession%3Flimit%3D1"/)
    const answer = await logIn(ann, 'corp', 'ann', '/session?limit=1')
    assert.equal(answer.status, 200, words(answer))
    assert.equal(answer.next.url, `${scratch.url}/session?limit=1`)
    assert.deepEqual(answer.next.json(), [])
  })
  await check('a person of a domain that may join has a member\'s account', async () => {
    first = (await me(ann)).account
    const { name, role, provider, directories } = first
    assert.deepEqual({ name, role, provider, directories }, { name: 'Ann', role: 'member', provider: 'corp', directories: [scratch.work] })
  })
  await check('the same person in another browser has the same account', async () => {
    const again = browser()
    await logIn(again, 'corp', 'ann')
    assert.equal((await me(again)).account.id, first.id)
  })
  await check('a domain is the same in capital letters', async () => {
    const bob = browser()
    await logIn(bob, 'corp', 'bob')
    assert.equal((await me(bob)).account.name, 'Bob')
    people.bob = bob
  })
  const others = { cid: 'another domain', dan: 'an address that is not verified', dot: 'a domain below', ema: 'a domain with the same end', two: 'an address with two domains' }
  for (const [login, what] of Object.entries(others)) {
    await check(`${what} is refused with words, and gets no cookie`, async () => {
      const stranger = browser()
      await refused(team, stranger, await logIn(stranger, 'corp', login), /has no account here: an administrator invites people/)
    })
  }
  await check('where everybody may join, so does that person, by an ID token with all claims', async () => {
    const ida = browser()
    await logIn(ida, 'guild', 'ida')
    const { account } = await me(ida)
    assert.deepEqual([account.name, account.provider], ['Ida', 'guild'])
  })
  await check('one name at two providers is two accounts', async () => {
    const other = browser()
    await logIn(other, 'guild', 'ann')
    assert.notEqual((await me(other)).account.id, first.id)
  })
  await check('a logout ends the browser\'s login, at the server too', async () => {
    const short = browser()
    await logIn(short, 'corp', 'ann')
    const { name, value } = short.cookies.find(it => it.name.startsWith('windlass_account'))
    const kept = { cookie: `${name}=${value}` }
    assert.equal((await send(`${scratch.url}/account/me`, { headers: kept })).status, 200)
    const answer = await short.follow(`${scratch.url}/account/logout`, { method: 'POST', from: scratch.url, body: new URLSearchParams() })
    assert.equal(answer.status, 200)
    assert.equal(short.cookie('windlass_account'), undefined)
    assert.equal((await send(`${scratch.url}/account/me`, { headers: kept })).status, 401)
  })
  people.ann = ann
}

export async function github(team) {
  const { check, browser, logIn, me } = team
  await check('a person of GitHub with a verified address of the domain joins, named by the login', async () => {
    const hal = browser()
    await logIn(hal, 'hub', 'hal')
    const { account } = await me(hal)
    assert.deepEqual([account.name, account.provider, account.role], ['hal', 'hub', 'member'])
    const again = browser()
    await logIn(again, 'hub', 'hal')
    assert.equal((await me(again)).account.id, account.id)
  })
  for (const [login, what] of [['ivy', 'an address that GitHub has not verified'], ['jon', 'a main address of another domain']]) {
    await check(`${what} does not join`, async () => {
      const stranger = browser()
      await refused(team, stranger, await logIn(stranger, 'hub', login), /has no account here/)
    })
  }
}

export async function gateway({ scratch, check, gate }) {
  const ask = (token, options = {}) => scratch.api('/account/me', { ...options, headers: { 'x-gateway-token': token, ...options.headers } })
  await check('keys of the gateway that cannot be had are no wrong token', async () => {
    gate.isDown = true
    const answer = await ask(gate.sign({ sub: 'kim' }))
    gate.isDown = false
    assert.match(answer.text, /the gateway cannot be reached/)
    assert.equal(answer.status, 503)
  })
  await check('a gateway\'s token is an account, the same each time', async () => {
    const answers = [await ask(gate.sign({ sub: 'kim', name: 'Kim', email: 'kim@corp.example' })), await ask(`Bearer ${gate.sign({ sub: 'kim' })}`)]
    const [one, other] = answers.map(it => it.json().account)
    assert.deepEqual([one.name, one.role, one.provider], ['Kim', 'member', 'gateway'])
    assert.equal(other.id, one.id)
  })
  const now = gate.now()
  const wrong = {
    'for another audience': [gate.sign({ sub: 'kim', aud: 'another' }), /addressed to another client/],
    'of another issuer': [gate.sign({ sub: 'kim', iss: 'http://127.0.0.1:1' }), /names another issuer/],
    'that has expired': [gate.sign({ sub: 'kim', iat: now - 900, exp: now - 600 }), /expired/],
    'of tomorrow': [gate.sign({ sub: 'kim', nbf: now + 900 }), /not valid yet/],
    'with the algorithm none': [gate.sign({ sub: 'kim' }, { algorithm: 'none' }), /not accepted/],
    'signed with its public key as a secret': [gate.sign({ sub: 'kim' }, { algorithm: 'HS256' }), /not accepted/],
    'signed by another key': [gate.sign({ sub: 'kim' }, { by: gate.other }), /not signed by a key/],
    'that is none': ['nonsense', /not a signed token/],
  }
  for (const [what, [token, pattern]] of Object.entries(wrong)) {
    await check(`a gateway's token ${what} is refused with words`, async () => {
      const answer = await ask(token)
      assert.equal(answer.status, 401, answer.text)
      assert.match(answer.text, pattern)
    })
  }
  await check('a page elsewhere cannot act by a browser whose gateway adds the token', async () => {
    const headers = { 'x-gateway-token': gate.sign({ sub: 'kim' }), origin: 'http://evil.example', 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' }
    const body = new URLSearchParams({ action: 'token', name: 'stolen', scope: 'work', days: '9' })
    const answer = await scratch.api('/account', { method: 'POST', headers, body })
    assert.equal(answer.status, 403, words(answer))
  })
}

export async function names({ scratch, check, browser, logIn, me, people }) {
  // Nothing that a page takes for markup, no control character, and no change of the direction.
  const isText = (answer, part) => {
    assert.ok(words(answer).includes(part), words(answer))
    assert.ok(!/<(script|img|b)\b/i.test(answer.text), answer.text)
    assert.ok(!/[\u0000-\u0008\u000b-\u001f\u007f\u202e]/.test(answer.text), JSON.stringify(answer.text))
    assert.match(answer.headers['content-security-policy'], /default-src 'none'/)
  }
  await check('a name with markup and control characters is text on the account\'s page', async () => {
    const eve = browser()
    const answer = await logIn(eve, 'corp', 'eve')
    isText(answer, '<script>alert(1)</script>')
    isText(await eve.visit(`${scratch.url}/account`, { from: scratch.url }), '<script>alert(1)</script>')
    assert.ok(!/[\u0000-\u001f\u202e]/.test((await me(eve)).account.name))
  })
  await check('so it is for an administrator, on the page and in the terminal', async () => {
    isText(await people.admin.visit(`${scratch.url}/account`, { from: scratch.url }), '<script>alert(1)</script>')
    const { code, out } = await scratch.run(['account', 'list'])
    assert.equal(code, 0)
    assert.match(out, /alert\(1\)/)
    assert.ok(!/[\u0000-\u0008\u000b-\u001f\u202e]/.test(out), JSON.stringify(out))
  })
  await check('so it is in the words to a person who may not join', async () => {
    const fay = browser()
    isText(await logIn(fay, 'corp', 'fay'), '<img src=x onerror=alert(1)>')
  })
  await check('so is the name of a program that waits', async () => {
    const begun = await scratch.api('/account/device', { method: 'POST', body: { name: '<b>\u001b[2J</b>\u202e' } })
    isText(await people.ann.visit(begun.json().verification_uri_complete), '<b>')
  })
}

export async function ending({ scratch, check, people }) {
  await check('the server ends with code 0 at SIGTERM, with a stream open', async () => {
    const stream = await people.stream()
    scratch.server.child.kill('SIGTERM')
    const { code, signal } = await soon(scratch.server.ended, 'the end of the server')
    assert.deepEqual({ code, signal }, { code: 0, signal: null }, scratch.server.err)
    await soon(stream.ended, 'the end of the stream')
  })
  await check('nothing of it listens any more', async () => {
    await assert.rejects(scratch.api('/account'), { code: 'ECONNREFUSED' })
  })
}
