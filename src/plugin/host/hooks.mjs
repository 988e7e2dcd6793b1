// Calls the hooks of all plugins in their order; each changes what it gets in place.

import { reason } from "./channel.mjs";
import { announce, within } from "./current.mjs";

/** Hooks that are no functions, or are not called by their names. */
const OTHERS = ["auth", "config", "dispose", "event", "provider", "tool"];

/** Returns the names of the hooks that somebody declares. */
export function declared(plugins) {
  const names = plugins.flatMap(({ hooks }) => Object.keys(hooks).filter((it) => hooks[it] !== undefined));
  return [...new Set(names)];
}

const withHook = (plugins, name) => plugins.filter(({ hooks }) => typeof hooks[name] === "function");

/** Calls one hook of every plugin; a throw ends the row, and what was changed until then holds. */
export async function trigger(plugins, { name, input, output }) {
  if (OTHERS.includes(name)) return {};
  const before = snapshot(output);
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

/** Calls the hooks of one request to a model, in the order of their outputs. */
export async function request(plugins, { input, providerID, modelID, outputs }) {
  const provider = providers.get(providerID) ?? null;
  const model = provider?.models[modelID] ?? null;
  const { sessionID, agent, message } = input;
  const changed = {};
  for (const [name, output] of Object.entries(outputs)) {
    const own = name.endsWith("system.transform") ? { sessionID, model } : { sessionID, agent, model, provider, message };
    const end = await trigger(plugins, { name, input: own, output });
    if (end.failed) return { ...end, hook: name };
    changed[name] = end.changed;
  }
  return { changed };
}

function snapshot(output) {
  return new Map(Object.entries(output).map(([key, value]) => [key, JSON.stringify(value)]));
}

function changes(before, output) {
  const changed = {};
  for (const key of new Set([...before.keys(), ...Object.keys(output)])) {
    const text = JSON.stringify(output[key]);
    if (text !== before.get(key)) changed[key] = output[key] ?? null;
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

/** Hands events to every plugin that listens; none is waited for. */
export function events(plugins, { events }) {
  for (const plugin of withHook(plugins, "event")) {
    announce(plugin.name);
    for (const event of events) {
      within(plugin.name, async () => plugin.hooks.event({ event })).catch((error) => {
        console.error(`[${plugin.name}] the event hook failed: ${reason(error)}`);
      });
    }
  }
}

export async function dispose(plugins) {
  for (const plugin of withHook(plugins, "dispose")) {
    try {
      await within(plugin.name, () => plugin.hooks.dispose());
    } catch (error) {
      console.error(`[${plugin.name}] dispose failed: ${reason(error)}`);
    }
  }
}
