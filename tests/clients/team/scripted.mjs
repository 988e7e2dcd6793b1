// A scripted GitHub, and a gateway that signs tokens with keys of its own.
import crypto from 'node:crypto'
import http from 'node:http'
import { signingKey } from './provider.mjs'

async function listening(handle) {
  const server = http.createServer((request, response) => {
    let body = ''
    request.on('data', data => { body += data })
    request.on('end', () => handle(request, body, response))
  })
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${server.address().port}`, stop: () => { server.close(); server.closeAllConnections() } }
}

const json = (response, status, value) => {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(value))
}

/** A GitHub with one OAuth app; `people` have an id, a login, a name and mail addresses. */
export async function startGithub({ id, secret, people }) {
  const codes = new Map()
  const tokens = new Map()
  return listening((request, body, response) => {
    const url = new URL(request.url, 'http://github.invalid')
    const form = new URLSearchParams(body)
    const person = tokens.get(request.headers.authorization?.replace('Bearer ', ''))
    switch (`${request.method} ${url.pathname}`) {
      case 'GET /login/oauth/authorize': {
        const action = `/session${url.search}`.replaceAll('&', '&amp;')
        response.writeHead(200, { 'content-type': 'text/html' })
        return response.end(`<form method="post" action="${action}"><input name="login"></form>`)
      }
      case 'POST /session': {
        const query = url.searchParams
        if (query.get('client_id') !== id || query.get('code_challenge_method') !== 'S256' || !query.get('state')) return json(response, 400, {})
        const code = crypto.randomUUID()
        codes.set(code, { person: people[form.get('login')], challenge: query.get('code_challenge'), redirect: query.get('redirect_uri') })
        const back = new URL(query.get('redirect_uri'))
        back.search = new URLSearchParams({ code, state: query.get('state') })
        response.writeHead(302, { location: back.href })
        return response.end()
      }
      case 'POST /login/oauth/access_token': {
        if (form.get('client_id') !== id || form.get('client_secret') !== secret) return json(response, 200, { error: 'incorrect_client_credentials' })
        const code = codes.get(form.get('code'))
        codes.delete(form.get('code'))
        const challenge = crypto.createHash('sha256').update(form.get('code_verifier') ?? '').digest('base64url')
        if (code?.challenge !== challenge || code.redirect !== form.get('redirect_uri')) return json(response, 200, { error: 'bad_verification_code' })
        const token = `gho_${crypto.randomUUID()}`
        tokens.set(token, code.person)
        return json(response, 200, { access_token: token, token_type: 'bearer', scope: 'read:user,user:email' })
      }
      case 'GET /user':
        // The address of the profile is not a verified one.
        return person ? json(response, 200, { id: person.id, login: person.login, name: person.name, email: person.emails[0]?.email }) : json(response, 401, {})
      case 'GET /user/emails':
        return person ? json(response, 200, person.emails) : json(response, 401, {})
      default:
        return json(response, 404, {})
    }
  })
}

/** A gateway's keys behind an address, and the tokens that it signs. */
export async function startGateway() {
  const key = signingKey('RS256')
  const { kty, n, e, kid, alg, use } = key
  let isDown = false
  const server = await listening((_, __, response) => isDown ? json(response, 503, {}) : json(response, 200, { keys: [{ kty, n, e, kid, alg, use }] }))
  const now = () => Math.floor(Date.now() / 1000)
  const sign = (claims, { by = key, algorithm = 'RS256' } = {}) => {
    const part = value => Buffer.from(JSON.stringify(value)).toString('base64url')
    const usual = { iss: server.url, aud: 'windlass', iat: now(), exp: now() + 300 }
    const signed = `${part({ alg: algorithm, kid, typ: 'JWT' })}.${part({ ...usual, ...claims })}`
    if (algorithm === 'none') return `${signed}.`
    // The mix-up of a public key with a shared secret.
    if (algorithm === 'HS256') return `${signed}.${crypto.createHmac('sha256', crypto.createPublicKey({ key, format: 'jwk' }).export({ type: 'spki', format: 'pem' })).update(signed).digest('base64url')}`
    return `${signed}.${crypto.sign('sha256', Buffer.from(signed), crypto.createPrivateKey({ key: by, format: 'jwk' })).toString('base64url')}`
  }
  return { ...server, sign, now, other: signingKey('RS256'), set isDown(value) { isDown = value } }
}
