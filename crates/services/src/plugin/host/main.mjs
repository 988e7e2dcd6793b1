// The host of plugins and tool files: loads them, and answers the daemon.

import { basename, extname } from "node:path";
import { pathToFileURL } from "node:url";

import * as auth from "./auth.mjs";
import { notify, reason, serve } from "./channel.mjs";
import * as client from "./client.mjs";
import { announce, guard, loaded, name, quit, within } from "./current.mjs";
import { Skipped, entry } from "./entry.mjs";
import * as hooks from "./hooks.mjs";
import { onRegister } from "./registry.mjs";
import { shell } from "./shell.mjs";
import * as tools from "./tools.mjs";

const [library, runtimes] = await Promise.all([import("./library/client.js"), import(globalThis.Bun ? "./bun.mjs" : "./node.mjs")]);
await runtimes.prepare();

const plugins = [];
const table = new Map();

async function start(params) {
  process.chdir(params.directory);
  client.carry(params.serverUrl);
  // One after another, so that one that never ends is known by its name.
  const imports = [];
  for (const plugin of params.plugins) imports.push(await imported(plugin, params).catch((error) => ({ error })));
  const toolFiles = [];
  for (const path of params.tools) {
    announce(path);
    const began = performance.now();
    const loading = within(path, () => timely(params.loadTimeout, import(pathToFileURL(path).href)));
    const loaded = await loading.then((module) => ({ module }), (error) => ({ error }));
    toolFiles.push({ ...loaded, ms: Math.round(performance.now() - began) });
  }
  const reports = [];
  for (const [i, plugin] of params.plugins.entries()) {
    announce(plugin.name);
    reports.push(await begun(plugin, imports[i], params));
  }
  for (const [i, path] of params.tools.entries()) {
    const { module, error, ms } = toolFiles[i];
    if (error) {
      reports.push({ name: path, error: `Failed to load tool ${pathToFileURL(path)}: ${reason(error)}` });
      continue;
    }
    reports.push({ name: path, ms });
    for (const [id, tool] of tools.ofModule(basename(path, extname(path)), module)) table.set(id, { plugin: path, tool });
  }
  for (const { name, hooks } of plugins) {
    for (const [id, tool] of Object.entries(hooks.tool ?? {})) table.set(id, { plugin: name, tool });
  }
  const offered = await described(reports);
  loaded();
  return { plugins: reports, hooks: hooks.declared(plugins), tools: offered, runtime: runtime(), ...auth.offered(plugins) };
}

const runtime = () => (globalThis.Bun ? `Bun ${Bun.version}` : `Node ${process.versions.node}`);

async function described(reports) {
  const offered = [];
  for (const [id, { plugin, tool }] of table) {
    try {
      offered.push(await tools.described(id, plugin, tool));
    } catch (error) {
      reports.push({ name: plugin, error: `the tool ${id} has no usable schema: ${reason(error)}` });
    }
  }
  return offered;
}

async function imported(plugin, { version, loadTimeout }) {
  const began = performance.now();
  announce(plugin.name);
  const { url, name } = entry({ ...plugin, version });
  try {
    const module = await within(plugin.name, () => timely(loadTimeout, import(url)));
    return { module, name, ms: performance.now() - began };
  } catch (error) {
    throw new Skipped(`Failed to load plugin ${url}: ${reason(error)}${needsBun(error) ? "; it needs Bun" : ""}`);
  }
}

/** Returns true for an import that Bun alone can do: of its own modules, or of a text. */
function needsBun({ code, message }) {
  if (globalThis.Bun) return false;
  if (code === "ERR_MODULE_NOT_FOUND") return message.includes("package 'bun'");
  return ["ERR_UNKNOWN_FILE_EXTENSION", "ERR_UNSUPPORTED_ESM_URL_SCHEME"].includes(code);
}

/** Calls a plugin's functions, and reports what it offers. */
async function begun(plugin, from, params) {
  if (from.error) {
    const { silent } = from.error;
    return silent ? { name: plugin.name } : { name: plugin.name, error: reason(from.error) };
  }
  const began = performance.now();
  const offered = [];
  try {
    const own = await limited(params.loadTimeout, offered, functions(plugin, from), plugin, params);
    plugins.push(...own);
  } catch (error) {
    return { name: plugin.name, error: `Failed to load plugin ${plugin.spec}: ${reason(error)}` };
  }
  const names = hooks.declared(offered);
  const ids = offered.flatMap(({ hooks }) => Object.keys(hooks.tool ?? {}));
  return { name: plugin.name, hooks: names, tools: ids, ms: Math.round(from.ms + performance.now() - began) };
}

async function limited(limit, offered, functions, plugin, params) {
  const call = async () => {
    for (const work of functions) {
      const made = await within(plugin.name, () => work(input(plugin, params), plugin.options ?? undefined));
      offered.push({ name: plugin.name, hooks: made !== null && typeof made === "object" ? made : {} });
    }
    return offered;
  };
  return timely(limit, call());
}

/** Gives up what takes longer than a plugin may. */
function timely(limit, work) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it was not ready within ${limit / 1000} s`)), limit);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

/** Returns the functions of a module in either form. */
function functions(plugin, { module, name }) {
  const main = module.default;
  if (main !== null && typeof main === "object" && ["id", "server", "tui"].some((key) => key in main)) {
    if (main.server && main.tui) throw new Error("it must default export either server() or tui(), not both");
    if (!main.server) return [];
    if (main.id === undefined && !name) throw new Error("Path plugin must export id");
    if (main.id !== undefined && (typeof main.id !== "string" || main.id === "")) throw new Error("its id is no text");
    return [main.server.bind(main)];
  }
  const exported = [...new Set(Object.values(module))];
  return exported.map((it) => {
    if (typeof it === "function") return it;
    if (it !== null && typeof it === "object" && typeof it.server === "function") return it.server.bind(it);
    throw new Error("Plugin export is not a function");
  });
}

function input(plugin, params) {
  const { project, worktree, directory } = params;
  const made = client.create(library, plugin.name, params);
  return {
    client: made,
    project,
    worktree,
    directory,
    experimental_workspace: { register() {} },
    get serverUrl() {
      return new URL(params.serverUrl);
    },
    $: shell(directory),
  };
}

onRegister(async (id, tool) => {
  table.set(id, { plugin: name(), tool });
  const problems = [];
  notify("tools", { tools: await described(problems) });
  if (problems.length > 0) throw new Error(problems[0].error);
});
guard();
await serve(
  {
    start,
    config: (params) => hooks.config(plugins, params),
    hook: (params) => hooks.trigger(plugins, params),
    request: (params) => hooks.request(plugins, params),
    provider: hooks.remember,
    small_model: (params) => hooks.smallModel(plugins, params),
    definitions: (params) => hooks.definitions(plugins, params),
    events: (params) => hooks.events(plugins, params),
    tool: (params, signal) => {
      const known = table.get(params.id);
      return known ? tools.call(known, params, signal) : { failed: `there is no tool ${params.id}` };
    },
    memory: () => process.memoryUsage.rss(),
    dispose: () => hooks.dispose(plugins),
    ping: () => null,
    "auth/asks": (params) => auth.asks(plugins, params),
    "auth/authorize": (params) => auth.authorize(plugins, params),
    "auth/callback": auth.callback,
    "auth/load": (params) => auth.load(plugins, params),
    models: (params) => auth.models(plugins, params),
    fetch: auth.send,
    "fetch/body": auth.body,
    "fetch/cancel": auth.cancel,
    "http/chunk": client.chunk,
    "http/end": client.end,
  },
  () => quit(0),
);
