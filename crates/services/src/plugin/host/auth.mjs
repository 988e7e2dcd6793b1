// Logins that plugins bring, the options that they set for providers, and the models that they list.

import { notify, reason, request } from "./channel.mjs";
import { announce, within } from "./current.mjs";

/** Callbacks of logins that are under way, by provider. */
const pending = new Map();

const withAuth = (plugins) => plugins.filter(({ hooks }) => typeof hooks.auth?.provider === "string");
const withModels = (plugins) => plugins.filter(({ hooks }) => typeof hooks.provider?.models === "function");

/** Returns what the daemon knows of logins: their methods, and the providers that have more. */
export function offered(plugins) {
  const logins = new Map();
  for (const { name, hooks } of withAuth(plugins)) {
    const { provider, methods, loader } = hooks.auth;
    const known = logins.get(provider);
    const hasLoader = typeof loader === "function" || known?.hasLoader === true;
    // The methods of a later plugin take the place of an earlier one's.
    logins.set(provider, { provider, plugin: name, hasLoader, methods: (methods ?? []).map(shown) });
  }
  const listed = withModels(plugins).map(({ hooks }) => hooks.provider.id);
  return { logins: [...logins.values()], models: [...new Set(listed)] };
}

function shown({ type, label, prompts, authorize }) {
  const fields = ({ type, key, message, placeholder, options }) => ({ type, key, message, placeholder, options });
  return { type, label, prompts: (prompts ?? []).map(fields), authorizes: typeof authorize === "function" };
}

function chosen(plugins, { provider, method }) {
  const plugin = withAuth(plugins).findLast(({ hooks }) => hooks.auth.provider === provider);
  const found = plugin?.hooks.auth.methods?.[method];
  if (!found) throw new Error(`there is no such login at ${provider}`);
  return { plugin, found };
}

function isAsked(prompt, inputs) {
  if (prompt.condition && !prompt.condition(inputs)) return false;
  if (!prompt.when) return true;
  return (inputs[prompt.when.key] === prompt.when.value) === (prompt.when.op === "eq");
}

/** Says if a prompt is to be shown after these answers. */
export function asks(plugins, params) {
  const { found } = chosen(plugins, params);
  const prompt = found.prompts?.find((it) => it.key === params.key);
  return prompt !== undefined && isAsked(prompt, params.inputs);
}

/** Begins a login; one by key ends with it. */
export async function authorize(plugins, params) {
  const { plugin, found } = chosen(plugins, params);
  const { inputs } = params;
  for (const prompt of found.prompts ?? []) {
    const problem = isAsked(prompt, inputs) ? prompt.validate?.(inputs[prompt.key] ?? "") : undefined;
    if (problem) return { invalid: { field: prompt.key, message: String(problem) } };
  }
  announce(plugin.name);
  const begun = await within(plugin.name, () => found.authorize(inputs));
  if (found.type === "api") return { ended: begun };
  pending.set(params.provider, { plugin, begun });
  const { url, instructions, method } = begun;
  return { url, instructions, method };
}

/** Waits for the end of a login, or ends it with a code. */
export async function callback(params) {
  const login = pending.get(params.provider);
  if (!login) return { missing: true };
  pending.delete(params.provider);
  const { plugin, begun } = login;
  return { ended: await within(plugin.name, () => (begun.method === "code" ? begun.callback(params.code ?? "") : begun.callback())) };
}

/** Functions that send the requests of providers. */
const fetches = new Map();

/** Lets plugins set options of a provider that has a stored login. */
export async function load(plugins, { provider, info }) {
  const options = {};
  const costs = () => Object.entries(info?.models ?? {}).map(([id, model]) => [id, JSON.stringify(model?.cost)]);
  const before = new Map(costs());
  for (const { name, hooks } of withAuth(plugins)) {
    const { provider: own, loader } = hooks.auth;
    if (own !== provider || typeof loader !== "function") continue;
    announce(name);
    const made = await within(name, () => loader(() => request("auth", { provider }), info));
    Object.assign(options, made ?? {});
    if (typeof made?.fetch === "function") fetches.set(provider, { plugin: name, fetch: made.fetch });
  }
  const { apiKey, baseURL, headers } = options;
  // A subscription's plugin sets the prices of its models to nothing, in place.
  const changed = costs().filter(([id, cost]) => cost !== undefined && cost !== before.get(id));
  return { apiKey, baseURL, headers, fetches: fetches.has(provider), costs: Object.fromEntries(changed.map(([id]) => [id, info.models[id].cost])) };
}

/** Lets plugins replace the models of a provider. */
export async function models(plugins, { provider, info, auth }) {
  let models = null;
  for (const { name, hooks } of withModels(plugins)) {
    if (hooks.provider.id !== provider) continue;
    announce(name);
    models = await within(name, () => hooks.provider.models({ ...info, models: models ?? info.models }, { auth: auth ?? undefined }));
  }
  return models;
}

/** Pieces of request bodies that are not complete yet, and requests that are under way, by stream. */
const bodies = new Map();
const running = new Map();
const MAX_PIECE = 1 << 20;

export function body({ stream, text }) {
  bodies.set(stream, (bodies.get(stream) ?? "") + text);
}

/** Sends a request by a plugin's own function; the body of the answer follows in pieces. */
export async function send({ provider, stream, url, headers }, signal) {
  const body = bodies.get(stream);
  bodies.delete(stream);
  const known = fetches.get(provider);
  if (!known) throw new Error(`no plugin sends the requests of ${provider}`);
  const controller = new AbortController();
  running.set(stream, controller);
  signal.addEventListener("abort", () => controller.abort(signal.reason));
  announce(known.plugin);
  try {
    const init = { method: "POST", headers: Object.fromEntries(headers), body, signal: controller.signal };
    const response = await within(known.plugin, () => known.fetch(url, init));
    forward(stream, response, controller);
    // The body comes unpacked.
    const unpacked = ["content-encoding", "content-length", "transfer-encoding"];
    return { status: response.status, headers: [...response.headers].filter(([name]) => !unpacked.includes(name)) };
  } catch (error) {
    running.delete(stream);
    if (isBroken(error)) return { broken: reason(error.cause ?? error) };
    throw error;
  }
}

/** Returns true for a server that was not reached, in the words of Node and of Bun. */
function isBroken(error) {
  const code = String(error?.cause?.code ?? error?.code ?? "");
  return /^(E(CONN|HOST|NET|NOTFOUND|PIPE|AI_|TIMEDOUT)|UND_ERR_|Connection|FailedToOpenSocket)/.test(code);
}

async function forward(stream, response, controller) {
  const { signal } = controller;
  const reader = response.body?.getReader();
  const close = () => reader?.cancel().catch(() => {});
  signal.addEventListener("abort", close);
  try {
    while (reader) {
      const { done, value } = await reader.read();
      if (done) break;
      const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
      for (let at = 0; at < bytes.length; at += MAX_PIECE) {
        // Answered once the daemon has use for more.
        await request("fetch/chunk", { stream, data: bytes.toString("base64", at, at + MAX_PIECE) }, signal);
      }
    }
    notify("fetch/end", { stream });
  } catch (error) {
    close();
    if (!signal.aborted) notify("fetch/end", { stream, error: reason(error) });
  } finally {
    running.delete(stream);
  }
}

export function cancel({ stream }) {
  bodies.delete(stream);
  running.get(stream)?.abort(new DOMException("The operation was aborted.", "AbortError"));
}
