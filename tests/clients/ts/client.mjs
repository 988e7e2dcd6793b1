// The TypeScript SDK's clients of both versions, unmodified, on the pipes of the real binary:
// node client.mjs PATH/TO/windlass [PATH/TO/THE/RUST/CLIENT]
// The Rust SDK's clients do the same where that program is named.
// Prints one line per step; ends with 1 on the first deviation.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import fs from 'node:fs'
import { Readable, Writable } from 'node:stream'
import { promisify } from 'node:util'
import { ndJsonStream } from '@agentclientprotocol/sdk'
import { first, second } from './conversations.mjs'
import { scratch, within } from './support.mjs'

const [binary, rustClient] = process.argv.slice(2)

for (const [name, converse] of [['TypeScript client', first], ['TypeScript client, version 2', second]]) {
  const step = text => console.log(`${name}: ${text}`)
  await within(name, 60, async () => {
    const place = await scratch()
    const agent = spawn(binary, ['acp'], { cwd: place.work, env: place.env, stdio: ['pipe', 'pipe', 'inherit'] })
    const exited = new Promise(resolve => agent.on('exit', resolve))
    try {
      await converse(ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout)), place, step)
      agent.stdin.end()
      assert.equal(await exited, 0)
      step('exit 0')
    } finally {
      agent.kill('SIGKILL')
      place.end()
    }
  })
}

for (const conversation of rustClient ? ['1', '2', 'shop'] : []) {
  const name = `Rust client, ${conversation === 'shop' ? 'with a server of its own' : `version ${conversation}`}`
  await within(name, 60, async () => {
    const place = await scratch()
    try {
      if (conversation === 'shop') place.beginShop()
      else place.begin()
      await promisify(execFile)(rustClient, [conversation, binary, place.work], { env: place.env })
      if (conversation !== 'shop') assert.equal(fs.readFileSync(place.file, 'utf8'), 'one\nzwei\n')
      console.log(`${name}: a whole conversation`)
    } finally {
      place.end()
    }
  })
}
