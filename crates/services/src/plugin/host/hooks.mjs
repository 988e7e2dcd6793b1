// Calls the hooks of all plugins in their order; each changes what it gets in place.

import { reason } from "./channel.mjs";
import { announce, within } from "./current.mjs";

/** Hooks that are no functions, or are not called by their names. */
const OTHERS = ["auth", "config", "dispose", "event", "provider", "tool"];
/** All hooks; an exported helper that was called as a plugin may have returned anything. */
const KNOWN = new Set([
  ...OTHERS,
  "chat.headers",
  "chat.message",
  "chat.params",
  "command.execute.before",
  "experimental.chat.messages.transform",
  "experimental.chat.system.transform",
  "experimental.compaction.autocontinue",
  "experimental.provider.small_model",
  "experimental.session.compacting",
  "experimental.text.complete",
  "permission.ask",
  "shell.env",
  "tool.definition",
  "tool.execute.after",
  "tool.execute.before",
]);

/** Returns the names of the hooks that somebody declares. */
export function declared(plugins) {
  const names = plugins.flatMap(({ hooks }) => Object.keys(hooks).filter((it) => KNOWN.has(it) && hooks[it] !== undefined));
  return [...new Set(names)];
}

const withHook = (plugins, name) => plugins.filter(({ hooks }) => typeof hooks[name] === "function");

/** Calls one hook of every plugin; a throw ends the row, and what was changed until then holds. */
export async function trigger(plugins, { name, input, output }) {
  if (OTHERS.includes(name)) return {};
  const before = copy(output);
  const args = output.args;
  for (const plugin of withHook(plugins, name)) {
    announce(plugin.name);
    try {
      await within(plugin.name, () => plugin.hooks[name](input, output));
    } catch (error) {
      return { failed: reason(error), plugin: plugin.name };
    }
  }
  // As OpenCode has it: other arguments in the place of these are not seen, changes of these are.
  if (name === "tool.execute.before") output.args = args;
  return { changed: changes(before, output) };
}

/** Providers by their ids, as the daemon has shown them last. */
const providers = new Map();

export const remember = ({ id, provider }) => providers.set(id, provider);

/** Asks which model of a provider is small. */
export async function smallModel(plugins, { providerID }) {
  const name = "experimental.provider.small_model";
  const end = await trigger(plugins, { name, input: { provider: providers.get(providerID) ?? null }, output: {} });
  return end.failed ? end : { changed: { model: end.changed.model?.id } };
}

/** Calls the hooks of one request to a model, in the order of their outputs. */
export async function request(plugins, { input, providerID, modelID, outputs }) {
  const provider = providers.get(providerID) ?? null;
  const model = provider?.models[modelID] ?? null;
  const { sessionID, agent, message } = input;
  const changed = {};
  for (const [name, output] of Object.entries(outputs)) {
    // A request that writes an agent belongs to no session.
    const session = sessionID === undefined ? {} : { sessionID };
    const own = name.endsWith("system.transform") ? { ...session, model } : { ...session, agent, model, provider, message };
    const end = await trigger(plugins, { name, input: own, output });
    if (end.failed) return { ...end, hook: name };
    changed[name] = end.changed;
  }
  return { changed };
}

// Texts, which may be long, are shared by the copy, so that comparing one that nobody replaced costs nothing.
function copy(value) {
  if (Array.isArray(value)) return value.map(copy);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, it]) => [key, copy(it)]));
}

/** Compares what came as JSON with what a plugin made of it. */
function same(before, now) {
  if (before === now) return true;
  if (before === null || now === null || typeof before !== "object" || typeof now !== "object") return false;
  if (Array.isArray(before) !== Array.isArray(now) || typeof now.toJSON === "function") return false;
  const keys = new Set([...Object.keys(before), ...Object.keys(now)]);
  if (Array.isArray(before) && before.length !== now.length) return false;
  for (const key of keys) if (!same(before[key], now[key])) return false;
  return true;
}

function changes(before, output) {
  const changed = {};
  for (const key of new Set([...Object.keys(before), ...Object.keys(output)])) {
    if (!same(before[key], output[key])) changed[key] = output[key] ?? null;
  }
  return changed;
}

/** Lets the plugins change the descriptions of all tools at once. */
export async function definitions(plugins, { tools }) {
  const outputs = tools.map(({ toolID, ...output }) => ({ toolID, output, result: { parameters: {}, ...output } }));
  const ends = await Promise.all(
    outputs.map(({ toolID, result }) => {
      const output = { ...result };
      return trigger(plugins, { name: "tool.definition", input: { toolID }, output });
    }),
  );
  const failed = ends.find((it) => it.failed);
  if (failed) return failed;
  const changed = ends.flatMap(({ changed }, i) => (Object.keys(changed).length > 0 ? [{ toolID: tools[i].toolID, ...changed }] : []));
  return { changed };
}

/** Hands the configuration to every plugin; one that throws keeps what it changed before. */
export async function config(plugins, { config }) {
  const failures = [];
  for (const plugin of withHook(plugins, "config")) {
    announce(plugin.name);
    try {
      await within(plugin.name, () => plugin.hooks.config(config));
    } catch (error) {
      failures.push({ plugin: plugin.name, message: reason(error) });
    }
  }
  return { config, failures };
}

/** Events that a plugin may work on at once. */
const MAX_PENDING = 1000;
/** Number of them below which one that was behind gets events again. */
const CAUGHT_UP = 500;
/** Milliseconds for which a batch of events waits for a plugin that works on too many. */
const PATIENCE = 1000;
/** Milliseconds that event hooks get to end before the process does. */
const LAST_MOMENTS = 500;

/** The events that a plugin works on. */
class Backlog {
  #pending = 0;
  #isBehind = false;
  #waiting = null;
  #idle = null;

  begin() {
    this.#pending += 1;
  }

  end() {
    this.#pending -= 1;
    if (this.#pending < CAUGHT_UP) this.#isBehind = false;
    if (this.#pending < MAX_PENDING) this.#waiting?.(true);
    if (this.#pending === 0) this.#idle?.();
  }

  /** Resolves once the plugin works on none. */
  idle() {
    return new Promise((resolve) => {
      this.#idle = resolve;
      if (this.#pending === 0) resolve();
    });
  }

  /** Tells if the plugin may have one more, at this time at the latest; one that is behind may not until it has caught up. */
  async room(name, deadline) {
    if (this.#isBehind) return false;
    if (this.#pending < MAX_PENDING) return true;
    let timer;
    const hasRoom = await new Promise((resolve) => {
      this.#waiting = resolve;
      timer = setTimeout(resolve, Math.max(0, deadline - performance.now()), false);
    });
    this.#waiting = null;
    clearTimeout(timer);
    if (!hasRoom) {
      this.#isBehind = true;
      console.error(`[${name}] the event hook works on ${MAX_PENDING} events; more are dropped until it works on ${CAUGHT_UP}`);
    }
    return hasRoom;
  }
}

const backlogs = new WeakMap();

/** Hands events to every plugin that listens. One is waited for only while it works on too many. */
export async function events(plugins, { events }) {
  await Promise.all(withHook(plugins, "event").map((plugin) => hand(plugin, events)));
}

async function hand(plugin, events) {
  const backlog = backlogs.get(plugin) ?? new Backlog();
  backlogs.set(plugin, backlog);
  announce(plugin.name);
  const deadline = performance.now() + PATIENCE;
  for (const event of events) {
    if (!(await backlog.room(plugin.name, deadline))) return;
    backlog.begin();
    within(plugin.name, async () => plugin.hooks.event({ event }))
      .catch((error) => console.error(`[${plugin.name}] the event hook failed: ${reason(error)}`))
      .finally(() => backlog.end());
  }
}

export async function dispose(plugins) {
  // What a hook writes behind the last events is not cut off.
  let timer;
  const limit = new Promise((resolve) => {
    timer = setTimeout(resolve, LAST_MOMENTS);
  });
  await Promise.race([Promise.all(plugins.map((plugin) => backlogs.get(plugin)?.idle())), limit]);
  clearTimeout(timer);
  for (const plugin of withHook(plugins, "dispose")) {
    try {
      await within(plugin.name, () => plugin.hooks.dispose());
    } catch (error) {
      console.error(`[${plugin.name}] dispose failed: ${reason(error)}`);
    }
  }
}
