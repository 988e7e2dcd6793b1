// The SDK's client with the channel in the place of the network.

import { notify, request } from "./channel.mjs";
import { name, within } from "./current.mjs";

const streams = new Map();
let nextStream = 0;

/** Makes the client that one plugin gets. */
export function create(library, plugin, { directory, serverUrl }) {
  const fetch = (...args) => within(plugin, () => send(new Request(...args)));
  return library.createOpencodeClient({ baseUrl: String(serverUrl), directory, fetch });
}

async function send(sent) {
  const url = new URL(sent.url);
  const stream = ++nextStream;
  const body = sent.body === null ? undefined : await sent.text();
  const params = {
    stream,
    plugin: name(),
    method: sent.method,
    path: url.pathname + url.search,
    headers: [...sent.headers],
    body,
  };
  const answer = await request("http", params, sent.signal);
  const headers = new Headers(answer.headers);
  const hasNoBody = [101, 204, 205, 304].includes(answer.status);
  if (!answer.streams) {
    return new Response(hasNoBody ? null : answer.body, { status: answer.status, headers });
  }
  const readable = new ReadableStream({
    start: (controller) => streams.set(stream, controller),
    cancel: () => {
      streams.delete(stream);
      notify("http/cancel", { stream });
    },
  });
  return new Response(readable, { status: answer.status, headers });
}

const encoder = new TextEncoder();

export function chunk({ stream, text }) {
  streams.get(stream)?.enqueue(encoder.encode(text));
}

export function end({ stream }) {
  streams.get(stream)?.close();
  streams.delete(stream);
}
