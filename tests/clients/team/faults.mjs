// The faults of logins: answers that were carried elsewhere, a wrong secret, a provider that is down, and new keys.
import assert from 'node:assert/strict'
import { refresh } from './browser.mjs'
import { refused, words } from './ways.mjs'

export async function faults(team) {
  const { scratch, check, browser, callback, logIn, me, people } = team
  const arrive = (who, url) => who.visit(url, { from: 'elsewhere' })

  await check('an answer in another browser is refused, and is used up by that', async () => {
    const [one, other] = [browser(), browser()]
    const url = await callback(one, 'corp', 'ann')
    await refused(team, other, await arrive(other, url), /begun in another browser/)
    await refused(team, one, await arrive(one, url), /not known any more/)
  })
  await check('so it is in a browser with a login of its own under way', async () => {
    const [one, other] = [browser(), browser()]
    const url = await callback(one, 'corp', 'ann')
    await callback(other, 'corp', 'bob')
    await refused(team, other, await arrive(other, url), /begun in another browser/)
  })
  await check('an answer that is replayed is refused, and the login goes on', async () => {
    const one = browser()
    const url = await callback(one, 'corp', 'ann')
    assert.equal((await arrive(one, url)).status, 200)
    const again = await arrive(one, url)
    assert.equal(again.status, 403)
    assert.match(words(again), /not known any more/)
    assert.equal((await me(one)).account.name, 'Ann')
  })
  await check('an answer with no state, or an invented one, is refused', async () => {
    const one = browser()
    const url = new URL(await callback(one, 'corp', 'ann'))
    url.searchParams.set('state', 'invented')
    await refused(team, one, await arrive(one, url), /not known any more/)
    url.searchParams.delete('state')
    await refused(team, one, await arrive(one, url), /not known any more/)
  })
  await check('the answer of one provider at the address of another is refused', async () => {
    const one = browser()
    const url = await callback(one, 'corp', 'ann')
    await refused(team, one, await arrive(one, url.replace('/callback/corp', '/callback/guild')), /begun elsewhere/)
  })
  await check('an answer that names another issuer, or none, is refused', async () => {
    for (const issuer of [team.guild.issuer, undefined]) {
      const one = browser()
      const url = new URL(await callback(one, 'corp', 'ann'))
      assert.equal(url.searchParams.get('iss'), team.corp.issuer)
      if (issuer) url.searchParams.set('iss', issuer)
      else url.searchParams.delete('iss')
      await refused(team, one, await arrive(one, url), /was not given by it/)
    }
  })
  await check('a code of another login is refused by the provider, for PKCE', async () => {
    const [one, other] = [browser(), browser()]
    const stolen = new URL(await callback(other, 'corp', 'bob'))
    const url = new URL(await callback(one, 'corp', 'ann'))
    url.searchParams.set('code', stolen.searchParams.get('code'))
    await refused(team, one, await arrive(one, url), /does not accept this login any more \(invalid_grant/)
  })
  await check('a person who says no at the provider is told so, in its words as text', async () => {
    const one = browser()
    const answer = await logIn(one, 'corp', 'no')
    await refused(team, one, answer, /Corp did not allow the login \(access_denied: <b>not<\/b> today\)/)
    assert.ok(!answer.text.includes('<b>'))
  })
  await check('a wrong client secret is for the administrator to mend', async () => {
    const one = browser()
    await refused(team, one, await logIn(one, 'wrong', 'ann'), /does not accept this server as a client .* client secret/)
  })
  await check('no provider has the id: words', async () => {
    const answer = await browser().visit(`${scratch.url}/account/login/nobody`, { from: scratch.url })
    assert.ok(answer.status >= 400 && answer.status < 600)
    assert.match(words(answer), /no login provider with the id "nobody"/)
  })

  const away = ['//evil.example', 'https://evil.example', '/\\evil.example', '\\\\evil.example', '/\t/evil.example', 'javascript:alert(1)', 'evil.example', '']
  await check('a login leads nowhere else than to this server', async () => {
    for (const back of away) {
      const one = browser()
      const answer = await logIn(one, 'guild', 'ida', back)
      assert.equal(refresh(answer), '/account', JSON.stringify(back))
      const page = await browser().visit(`${scratch.url}/account?back=${encodeURIComponent(back)}`)
      assert.ok(page.text.includes('/account/login/corp?back=%2Faccount"'), JSON.stringify(back))
    }
  })
  await check('nor does one whose cookie was written by another', async () => {
    const one = browser()
    const url = await callback(one, 'guild', 'ida', '/session')
    one.cookies.find(it => it.name === 'windlass_login_back').value = encodeURIComponent('//evil.example')
    assert.equal(refresh(await arrive(one, url)), '/account')
  })
  await check('a page elsewhere cannot use the cookie of a person', async () => {
    const body = new URLSearchParams({ action: 'token', name: 'stolen' })
    const answer = await people.ann.visit(`${scratch.url}/account`, { method: 'POST', body, from: 'http://evil.example' })
    assert.equal(answer.status, 403)
    const read = await people.ann.visit(`${scratch.url}/account/me`, { from: 'http://evil.example', headers: { 'sec-fetch-mode': 'cors' } })
    assert.equal(read.status, 403)
  })
}

export async function outage(team) {
  const { scratch, check, browser, callback, logIn, me, people, corp } = team
  await check('a provider that was never there is told with words', async () => {
    const one = browser()
    const answer = await one.visit(`${scratch.url}/account/login/dead`, { from: scratch.url })
    await refused(team, one, answer, /dead cannot be reached .* try again in a moment/, 502)
  })
  const one = browser()
  const url = await callback(one, 'corp', 'ann')
  await corp.stop()
  await check('a login whose provider goes down is told so, with the status of the provider\'s fault', async () => {
    await refused(team, one, await one.visit(url, { from: 'elsewhere' }), /Corp cannot be reached .* try again in a moment/, 502)
  })
  await check('people who are logged in, programs, and logins elsewhere go on meanwhile', async () => {
    assert.equal((await me(people.ann)).account.name, 'Ann')
    assert.equal((await scratch.api('/account/me', { token: people.token })).status, 200)
    assert.equal((await scratch.api(`/session?directory=${encodeURIComponent(scratch.work)}`, { method: 'POST', token: people.token, body: {} })).status, 200)
    const other = browser()
    await logIn(other, 'guild', 'ida')
    assert.equal((await me(other)).account.name, 'Ida')
  })
  await corp.again()
  await check('a provider that is there again logs people in', async () => {
    await logIn(one, 'corp', 'ann')
    assert.equal((await me(one)).account.name, 'Ann')
  })
}

export async function rotation(team) {
  const { check, browser, logIn, me, corp } = team
  await check('a login after a change of the provider\'s keys', async () => {
    corp.rotate()
    // Keys are asked for again ten seconds after the last time at the earliest: until then there are words.
    const end = Date.now() + 15_000
    for (;;) {
      const one = browser()
      const answer = await logIn(one, 'corp', 'ann')
      if (answer.status === 200) {
        assert.equal((await me(one)).account.name, 'Ann')
        return
      }
      await refused(team, one, answer, /not signed by a key of its issuer/)
      assert.ok(Date.now() < end, 'the new keys are never taken')
      await new Promise(resolve => setTimeout(resolve, 200))
    }
  })
}
