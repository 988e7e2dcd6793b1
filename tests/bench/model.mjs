// A scripted model on loopback for measuring: OpenAI chat completions, the last user text picks the scenario.
//   stream N        N text deltas
//   steps N TOOL J  N steps with one call of TOOL each, %N in the arguments J counts them, then a text
//   slow MS N       N deltas, MS apart
// Anything else is a short text; a request without tools is one for a title.
import http from 'node:http'

const texts = content => typeof content === 'string' ? content : (content ?? []).map(part => part.text ?? '').join('\n')

function plan(body) {
  if (!body.tools?.length) return { deltas: ['Title'] }
  const messages = body.messages
  const at = messages.findLastIndex(message => message.role === 'user')
  const [name, ...words] = texts(messages[at].content).trim().split(' ')
  const results = messages.slice(at + 1).filter(message => message.role === 'tool').length
  switch (name) {
    case 'stream': return { deltas: Array.from({ length: +words[0] }, (_, n) => `token${n % 1000} `) }
    case 'slow': return { wait: +words[0], deltas: Array.from({ length: +words[1] }, (_, n) => `token${n} `) }
    case 'steps':
      if (results >= +words[0]) return { deltas: ['done'] }
      return { call: { name: words[1], arguments: words.slice(2).join(' ').replaceAll('%N', results) } }
    default: return { deltas: ['Hello ', 'there.'] }
  }
}

export async function startModel() {
  let count = 0
  const server = http.createServer((request, response) => {
    const parts = []
    request.on('data', part => parts.push(part))
    request.on('end', async () => {
      const answer = plan(JSON.parse(Buffer.concat(parts).toString() || '{}'))
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      let pending = ''
      const flush = async () => {
        const text = pending
        pending = ''
        if (text && !response.write(text)) await new Promise(resolve => response.once('drain', resolve))
      }
      const send = (delta, finish = null, more = {}) => {
        const choices = [{ index: 0, delta, finish_reason: finish }]
        pending += `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'mock', choices, ...more })}\n\n`
      }
      send({ role: 'assistant', content: '' })
      for (const delta of answer.deltas ?? []) {
        send({ content: delta })
        if (answer.wait) { await flush(); await new Promise(resolve => setTimeout(resolve, answer.wait)) }
        else if (pending.length > 65536) await flush()
      }
      if (answer.call) send({ tool_calls: [{ index: 0, id: `call_${count++}`, type: 'function', function: answer.call }] })
      send({}, answer.call ? 'tool_calls' : 'stop')
      send({}, null, { choices: [], usage: { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 } })
      pending += 'data: [DONE]\n\n'
      await flush()
      response.end()
    })
  })
  server.keepAliveTimeout = 60_000
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${server.address().port}/v1`, close: () => { server.closeAllConnections(); server.close() } }
}
