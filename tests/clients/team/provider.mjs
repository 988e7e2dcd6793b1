// A real OpenID Connect provider with a login page of its own, and people by the names that they log in with.
import crypto from 'node:crypto'
import http from 'node:http'
import Provider from 'oidc-provider'

/** A signing key of the algorithm, as the provider takes it. */
export function signingKey(alg) {
  const { privateKey } = alg === 'ES256'
    ? crypto.generateKeyPairSync('ec', { namedCurve: 'P-256' })
    : crypto.generateKeyPairSync('rsa', { modulusLength: 2048 })
  return { ...privateKey.export({ format: 'jwk' }), kid: crypto.randomUUID(), alg, use: 'sig' }
}

/** Keeps the provider's records in memory: those of one provider alone, and over a change of its keys. */
function records() {
  const kept = new Map()
  return class {
    constructor(kind) { this.kind = kind }
    key(id) { return `${this.kind}:${id}` }
    #where(holds) { return [...kept].find(([key, it]) => key.startsWith(`${this.kind}:`) && holds(it))?.[1] }
    async upsert(id, payload) { kept.set(this.key(id), payload) }
    async find(id) { return kept.get(this.key(id)) }
    async findByUid(uid) { return this.#where(it => it.uid === uid) }
    async findByUserCode(code) { return this.#where(it => it.userCode === code) }
    async consume(id) { kept.get(this.key(id)).consumed = Math.floor(Date.now() / 1000) }
    async destroy(id) { kept.delete(this.key(id)) }
    async revokeByGrantId(id) { for (const [key, it] of kept) if (it.grantId === id) kept.delete(key) }
  }
}

/**
 * Starts a provider whose `clients` are pairs of an id and a secret that come back to `redirect(id)`.
 * `people` are claims by the names of logins; `inToken` puts them into the ID token, and else the userinfo endpoint has them.
 */
export async function startProvider({ name, alg, inToken, clients, redirect, people }) {
  const Records = records()
  let provider
  const handle = async (request, response) => {
    const page = /^\/interaction\/([\w-]+)$/.exec(request.url)
    if (!page) return provider.callback()(request, response)
    if (request.method === 'GET') {
      response.writeHead(200, { 'content-type': 'text/html' })
      return response.end(`<form method="post" action="${request.url}"><input name="login"><button>Log in</button></form>`)
    }
    let body = ''
    for await (const data of request) body += data
    const login = new URLSearchParams(body).get('login')
    const result = login === 'no' ? { error: 'access_denied', error_description: '<b>not</b> today' } : { login: { accountId: login } }
    return provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false })
  }
  const server = http.createServer((request, response) => {
    handle(request, response).catch(error => { console.error(`${name}:`, error); response.destroy() })
  })
  const listen = port => new Promise((resolve, reject) => { server.once('error', reject); server.listen(port, '127.0.0.1', resolve) })
  await listen(0)
  const { port } = server.address()
  const issuer = `http://127.0.0.1:${port}`

  const use = key => {
    provider = new Provider(issuer, {
      adapter: Records,
      clients: clients.map(([id, secret]) => ({
        client_id: id,
        client_secret: secret,
        redirect_uris: [redirect(id)],
        grant_types: ['authorization_code', 'refresh_token'],
        id_token_signed_response_alg: alg,
      })),
      claims: { openid: ['sub'], profile: ['name', 'preferred_username'], email: ['email', 'email_verified'] },
      conformIdTokenClaims: !inToken,
      // Browsers send the cookies of one port to all others of the host.
      cookies: { keys: ['a key of the test'], names: { session: `${name}_session`, interaction: `${name}_interaction`, resume: `${name}_resume` } },
      features: { devInteractions: { enabled: false }, rpInitiatedLogout: { enabled: true }, userinfo: { enabled: true } },
      findAccount: (_, id) => people[id] && { accountId: id, claims: () => ({ sub: id, ...people[id] }) },
      interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
      issueRefreshToken: () => true,
      jwks: { keys: [key] },
      // Nobody is asked for consent.
      async loadExistingGrant({ oidc }) {
        const grant = new provider.Grant({ clientId: oidc.client.clientId, accountId: oidc.session.accountId })
        grant.addOIDCScope([...oidc.requestParamScopes].join(' '))
        await grant.save()
        return grant
      },
      pkce: { required: () => true },
      ttl: { AccessToken: 600, AuthorizationCode: 60, Grant: 600, IdToken: 600, Interaction: 600, RefreshToken: 600, Session: 600 },
    })
  }
  use(signingKey(alg))
  const stop = () => new Promise(resolve => { server.close(resolve); server.closeAllConnections() })
  return {
    issuer,
    /** Signs with a new key from now on, and publishes that one alone. */
    rotate: () => use(signingKey(alg)),
    stop,
    again: () => listen(port),
  }
}
