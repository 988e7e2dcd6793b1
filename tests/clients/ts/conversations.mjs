// A whole conversation in each version of the protocol, over any of the SDK's streams.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import * as v1 from '@agentclientprotocol/sdk'
import * as v2 from '@agentclientprotocol/sdk/experimental/v2'

/** Collects updates and questions; the SDK hands updates over beside the answers, not before them. */
function listener() {
  const updates = []
  const permissions = []
  let heard = () => {}
  return {
    updates,
    permissions,
    hear: ({ params }) => { updates.push(params.update); heard() },
    allow({ params }) {
      permissions.push(params)
      const option = params.options.find(option => option.kind === 'allow_once')
      return { outcome: { outcome: 'selected', optionId: option.optionId } }
    },
    until: holds => new Promise(resolve => { heard = () => holds() && resolve(); heard() }),
    said: () => updates.filter(u => u.sessionUpdate === 'agent_message_chunk').map(u => u.content.text).join(''),
  }
}

export async function first(stream, scratch, step) {
  const isHanging = scratch.begin()
  const { updates, permissions, hear, allow, until, said } = listener()
  const { client, methods } = v1
  await client({ name: 'windlass-test' })
    .onNotification(methods.client.session.update, hear)
    .onRequest(methods.client.session.requestPermission, allow)
    .connectWith(stream, async context => {
      const initialized = await context.request(methods.agent.initialize, { protocolVersion: 1, clientCapabilities: {} })
      assert.equal(initialized.protocolVersion, 1)
      assert.equal(initialized.agentCapabilities.loadSession, true)
      step(`initialize: ${initialized.agentInfo.name} ${initialized.agentInfo.version}`)

      const { sessionId } = await context.request(methods.agent.session.new, { cwd: scratch.work, mcpServers: [] })
      step('session/new')

      const prompt = text => context.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: 'text', text }] })
      assert.equal((await prompt('edit it')).stopReason, 'end_turn')
      assert.equal(permissions.length, 1)
      const diff = permissions[0].toolCall.content.find(block => block.type === 'diff')
      assert.deepEqual([diff.path, diff.oldText, diff.newText], [scratch.file, 'one\ntwo\n', 'one\nzwei\n'])
      assert.equal(fs.readFileSync(scratch.file, 'utf8'), 'one\nzwei\n')
      await until(() => said() === 'editingedited')
      step('session/prompt with a permission')

      const running = prompt('talk')
      await isHanging
      await until(() => said().endsWith('for ever'))
      await context.notify(methods.agent.session.cancel, { sessionId })
      assert.equal((await running).stopReason, 'cancelled')
      step('session/cancel')

      const live = said()
      updates.length = 0
      await context.request(methods.agent.session.load, { sessionId, cwd: scratch.work, mcpServers: [] })
      await until(() => said().length >= live.length)
      assert.equal(said(), live)
      assert.ok(updates.some(update => update.sessionUpdate === 'tool_call'))
      step('session/load')
    })
}

export async function second(stream, scratch, step) {
  const isHanging = scratch.begin()
  const { updates, permissions, hear, allow, until, said } = listener()
  const { client, methods } = v2
  const idle = () => updates.find(u => u.sessionUpdate === 'state_update' && u.state === 'idle')
  await client({ name: 'windlass-test' })
    .onNotification(methods.client.session.update, hear)
    .onRequest(methods.client.session.requestPermission, allow)
    .connectWith(stream, async context => {
      const info = { name: 'windlass-test', version: '1' }
      const initialized = await context.request(methods.agent.initialize, { protocolVersion: 2, info, capabilities: {} })
      assert.equal(initialized.protocolVersion, 2)
      assert.ok(initialized.capabilities.session)
      step(`initialize: ${initialized.info.name} ${initialized.info.version}`)

      const { sessionId } = await context.request(methods.agent.session.new, { cwd: scratch.work, mcpServers: [] })
      step('session/new')

      const prompt = text => context.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: 'text', text }] })
      const { messageId } = await prompt('edit it')
      await until(idle)
      assert.equal(idle().stopReason, 'end_turn')
      assert.ok(updates.some(u => u.sessionUpdate === 'user_message' && u.messageId === messageId))
      assert.equal(permissions.length, 1)
      const { subject } = permissions[0]
      const diff = subject.toolCall.content.find(block => block.type === 'diff')
      assert.deepEqual(diff.changes.map(change => change.path), [scratch.file])
      assert.match(diff.patch.text, /-two\n\+zwei\n/)
      assert.equal(fs.readFileSync(scratch.file, 'utf8'), 'one\nzwei\n')
      assert.equal(said(), 'editingedited')
      step('session/prompt with a permission')

      const before = updates.splice(0)
      await prompt('talk')
      await isHanging
      await until(() => said().endsWith('for ever'))
      await context.notify(methods.agent.session.cancel, { sessionId })
      await until(idle)
      assert.equal(idle().stopReason, 'cancelled')
      step('session/cancel')

      updates.unshift(...before)
      const live = said()
      updates.length = 0
      await context.request(methods.agent.session.resume, { sessionId, cwd: scratch.work, mcpServers: [], replayFrom: { type: 'start' } })
      await until(() => idle() && said().length >= live.length)
      assert.equal(said(), live)
      assert.ok(updates.some(update => update.sessionUpdate === 'tool_call_update'))
      step('session/resume with a replay')

      const { sessions } = await context.request(methods.agent.session.list, { cwd: scratch.work })
      assert.ok(sessions.some(session => session.sessionId === sessionId))
      await assert.rejects(context.request('_unknown/method', {}), error => error.code === -32601)
      await context.request(methods.agent.session.close, { sessionId })
      await context.request(methods.agent.session.delete, { sessionId })
      step('session/list, session/close and session/delete')
    })
}
