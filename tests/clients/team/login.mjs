// Logins at a server with accounts, over HTTP as browsers and programs do them, by the certified OpenID Connect provider, a scripted
// GitHub and a gateway: node login.mjs PATH/TO/windlass
// Prints one line per check; ends with 1 if one of them fails.
import path from 'node:path'
import { Browser, refresh } from './browser.mjs'
import { faults, outage, rotation } from './faults.mjs'
import { Scratch, freePort } from './program.mjs'
import { guesses, programs, tokens } from './programs.mjs'
import { startProvider } from './provider.mjs'
import { startGateway, startGithub } from './scripted.mjs'
import { ending, gateway, github, invitation, logins, names } from './ways.mjs'

const deadline = setTimeout(() => { console.error('logins: no end after 60 s'); process.exit(1) }, 60_000)

const person = (name, email, isVerified = true) => ({ name, email, email_verified: isVerified })
const people = {
  ann: person('Ann', 'ann@corp.example'),
  bob: person('Bob', 'bob@CORP.example'),
  cid: person('Cid', 'cid@elsewhere.example'),
  dan: person('Dan', 'dan@corp.example', false),
  dot: person('Dot', 'dot@sub.corp.example'),
  ema: person('Ema', 'ema@evilcorp.example'),
  two: person('Two', 'two@corp.example@elsewhere.example'),
  eve: person('Eve\u0007\u001b[2J<script>alert(1)</script>\u202e"\' &amp;', 'eve@corp.example'),
  fay: person('<img src=x onerror=alert(1)>\u0000', 'fay@elsewhere.example'),
  gus: person('Gus', 'gus@corp.example'),
  ida: person('Ida', 'ida@anywhere.example'),
}
const mail = (email, verified, primary = true) => ({ email, verified, primary, visibility: null })
const githubPeople = {
  hal: { id: 11, login: 'hal', name: null, emails: [mail('hal@corp.example', true)] },
  ivy: { id: 12, login: 'ivy', name: 'Ivy', emails: [mail('ivy@corp.example', false)] },
  jon: { id: 13, login: 'jon', name: 'Jon', emails: [mail('jon@elsewhere.example', true), mail('jon@corp.example', true, false)] },
}

const scratch = new Scratch(path.resolve(process.argv[2]), await freePort())
const redirect = id => `${scratch.url}/account/callback/${id}`
const stops = []
let n_failed = 0

/** Runs a check, and goes on to the next if it fails. */
async function check(claim, run) {
  try {
    await run()
    console.log(`ok: ${claim}`)
  } catch (error) {
    n_failed += 1
    console.error(`FAILED: ${claim}\n`, error)
  }
}

/** Goes as far as the provider's answer, and returns its address, which is not visited yet. */
async function callback(browser, provider, login, back) {
  const until = url => url.startsWith(`${scratch.url}/account/callback/`)
  const query = back === undefined ? '' : `?back=${encodeURIComponent(back)}`
  let page = await browser.follow(`${scratch.url}/account/login/${provider}${query}`, { until, from: scratch.url })
  if (!page.reached && /name="login"/.test(page.text)) page = await browser.submit(page, { login }, { until })
  return page.reached ?? Promise.reject(new Error(`${provider} sends nobody back: ${page.status} ${page.text}`))
}

/** Logs a person in, and takes the step behind it. The answer has `next`, the page that it leads to. */
async function logIn(browser, provider, login, back) {
  const answer = await browser.visit(await callback(browser, provider, login, back), { from: 'elsewhere' })
  const next = refresh(answer)
  if (next) answer.next = await browser.follow(new URL(next, scratch.url).href, { from: scratch.url })
  return answer
}

/** The account of a browser, or none. */
async function me(browser) {
  const answer = await browser.visit(`${scratch.url}/account/me`, { from: scratch.url, headers: { accept: 'application/json' } })
  return answer.status === 200 ? answer.json() : undefined
}

try {
  const corp = await startProvider({ name: 'corp', alg: 'RS256', inToken: false, redirect, people, clients: [['corp', 'the secret of corp'], ['wrong', 'the right secret']] })
  stops.push(corp.stop)
  const guild = await startProvider({ name: 'guild', alg: 'ES256', inToken: true, redirect, people, clients: [['guild', 'the secret of guild']] })
  stops.push(guild.stop)
  const hub = await startGithub({ id: 'hub', secret: 'the secret of hub', people: githubPeople })
  stops.push(hub.stop)
  const gate = await startGateway()
  stops.push(gate.stop)
  const client = (id, more) => ({ client_id: id, client_secret: `the secret of ${id}`, ...more })
  const link = await scratch.serve({
    directories: [scratch.work],
    sandbox: false,
    providers: {
      corp: client('corp', { name: 'Corp', issuer: corp.issuer, domains: ['corp.example'] }),
      wrong: client('wrong', { issuer: corp.issuer, everybody: true }),
      guild: client('guild', { name: 'Guild', issuer: guild.issuer, everybody: true }),
      dead: client('dead', { issuer: `http://127.0.0.1:${await freePort()}`, everybody: true }),
      hub: client('hub', { name: 'Hub', site: hub.url, api: hub.url, domains: ['corp.example'] }),
    },
    gateway: { issuer: gate.url, audience: 'windlass', keys: `${gate.url}/keys`, header: 'x-gateway-token' },
  })
  const browser = () => new Browser()
  const team = { scratch, check, browser, callback, logIn, me, link, corp, guild, gate, people: {} }

  await invitation(team)
  await logins(team)
  await faults(team)
  await github(team)
  await gateway(team)
  await tokens(team)
  await programs(team)
  await names(team)
  await outage(team)
  await rotation(team)
  // An address has twenty wrong tokens in a minute; the checks above show fewer.
  await guesses(team)
  await ending(team)
} catch (error) {
  n_failed += 1
  console.error('logins:', error, scratch.server?.err)
} finally {
  await Promise.all(stops.map(stop => stop()))
  scratch.end()
  clearTimeout(deadline)
  console.log(n_failed ? `${n_failed} checks failed` : 'all checks hold')
  process.exitCode = n_failed ? 1 : 0
}
