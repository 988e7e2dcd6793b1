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

/**
 * Carries what goes to the server's address on the channel as well: the SDK subscribes to events by the global `fetch`,
 * whatever `fetch` its client was made with, and no server needs to listen.
 */
export function carry(serverUrl) {
  const { origin } = new URL(serverUrl);
  const network = globalThis.fetch;
  const isCarried = (to) => URL.canParse(to) && new URL(to).origin === origin;
  const fetch = (to, init) => (isCarried(to?.url ?? to) ? send(new Request(to, init)) : network(to, init));
  globalThis.fetch = Object.assign(fetch, network);
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
  // Made before the answer: the first events may come with it.
  const readable = new ReadableStream({
    start: (controller) => streams.set(stream, controller),
    cancel: () => {
      streams.delete(stream);
      notify("http/cancel", { stream });
    },
  });
  const answer = await request("http", params, sent.signal).catch((error) => {
    streams.delete(stream);
    throw error;
  });
  const headers = new Headers(answer.headers);
  if (answer.streams) {
    sent.signal.addEventListener("abort", () => abort(stream, sent.signal.reason));
    return new Response(readable, { status: answer.status, headers });
  }
  streams.delete(stream);
  const hasNoBody = [101, 204, 205, 304].includes(answer.status);
  return new Response(hasNoBody ? null : answer.body, { status: answer.status, headers });
}

/** Ends a stream whose reader gives it up. */
function abort(stream, reason) {
  if (!streams.has(stream)) return;
  streams.get(stream).error(reason);
  streams.delete(stream);
  notify("http/cancel", { stream });
}

const encoder = new TextEncoder();

export function chunk({ stream, text }) {
  streams.get(stream)?.enqueue(encoder.encode(text));
}

export function end({ stream }) {
  streams.get(stream)?.close();
  streams.delete(stream);
}
