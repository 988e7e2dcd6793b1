// The TypeScript SDK's clients of both versions, unmodified, on the pipes of the real binary:
// node client.mjs PATH/TO/windlass
// Prints one line per step; ends with 1 on the first deviation.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { Readable, Writable } from 'node:stream'
import { ndJsonStream } from '@agentclientprotocol/sdk'
import { first, second } from './conversations.mjs'
import { scratch, within } from './support.mjs'

const binary = process.argv[2]

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
