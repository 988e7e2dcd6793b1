// The TypeScript SDK's clients of both versions over its HTTP and WebSocket streams, against `windlass serve` with a
// password: node transports.mjs PATH/TO/windlass [PATH/TO/THE/RUST/CLIENT]
// The Rust SDK's clients do the same where that program is named.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import fs from 'node:fs'
import readline from 'node:readline'
import { promisify } from 'node:util'
import { client, methods } from '@agentclientprotocol/sdk'
import { createHttpStream } from '@agentclientprotocol/sdk/experimental/http-client'
import { createWebSocketStream } from '@agentclientprotocol/sdk/experimental/ws-client'
import { WebSocket } from 'ws'
import { first, second } from './conversations.mjs'
import { scratch, within } from './support.mjs'

const [binary, rustClient] = process.argv.slice(2)
const password = 'a secret'
const basic = word => ({ Authorization: `Basic ${Buffer.from(`opencode:${word}`).toString('base64')}` })
const streams = {
  HTTP: (url, headers) => createHttpStream(`${url}/acp`, { headers }),
  WebSocket: (url, headers) => createWebSocketStream(`${url.replace('http', 'ws')}/acp`, { headers, WebSocket }),
}

await within('TypeScript client of the server', 120, async () => {
  const place = await scratch()
  const env = { ...place.env, OPENCODE_SERVER_PASSWORD: password }
  const server = spawn(binary, ['serve', '--port', '0'], { cwd: place.work, env, stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = new Promise(resolve => server.on('exit', resolve))
  try {
    const [line] = await new Promise(resolve => readline.createInterface(server.stdout).once('line', text => resolve([text])))
    const url = line.split(' ').at(-1)
    for (const [transport, open] of Object.entries(streams)) {
      for (const [version, converse] of [[1, first], [2, second]]) {
        const name = `TypeScript client, version ${version} over ${transport}`
        await converse(open(url, basic(password)), place, text => console.log(`${name}: ${text}`))
      }
      await assert.rejects(client({ name: 'windlass-test' }).connectWith(open(url, basic('another')), context =>
        context.request(methods.agent.initialize, { protocolVersion: 1, clientCapabilities: {} })), /401/)
      console.log(`TypeScript client over ${transport}: a wrong password is refused`)
    }
    for (const address of rustClient ? [url, url.replace('http', 'ws')] : []) {
      for (const version of ['1', '2']) {
        place.begin()
        await promisify(execFile)(rustClient, [version, address, basic(password).Authorization, place.work])
        assert.equal(fs.readFileSync(place.file, 'utf8'), 'one\nzwei\n')
        console.log(`Rust client, version ${version} over ${address.split(':')[0]}: a whole conversation`)
      }
    }
    server.kill('SIGTERM')
    assert.equal(await exited, 0)
  } finally {
    server.kill('SIGKILL')
    place.end()
  }
})
