// Knows which plugin runs, so that what it prints, and how it ends the process, can be told by its name.

import { AsyncLocalStorage } from "node:async_hooks";

import { notify, reason } from "./channel.mjs";

const storage = new AsyncLocalStorage();

/** Ends the process. */
export const quit = process.exit.bind(process);

export const name = () => storage.getStore() ?? "a plugin";
export const within = (plugin, work) => storage.run(plugin, work);

let announced;
let isLoading = true;

/** Notes that all are loaded: until then, the one that was announced runs, also where its context is lost. */
export const loaded = () => (isLoading = false);

/** Tells the daemon whose code runs next, so that it knows who never ends. */
export function announce(plugin) {
  if (plugin === announced) return;
  announced = plugin;
  notify("at", { plugin });
}

/** Has programs inherit the present environment: Bun hands on the one that the process was started with. */
function inheritPresent(method) {
  const start = Bun[method];
  Bun[method] = (first, options) =>
    Array.isArray(first)
      ? start(first, { ...options, env: options?.env ?? process.env })
      : start({ ...first, env: first.env ?? process.env });
}

/** Keeps what plugins do to the process from ending it unseen. */
export function guard() {
  // For this process alone: an OpenCode that a plugin starts would be a Bun by it.
  delete process.env.BUN_BE_BUN;
  if (globalThis.Bun) ["spawn", "spawnSync"].forEach(inheritPresent);
  process.exit = (code) => {
    const plugin = storage.getStore() ?? (isLoading ? announced : undefined);
    notify("exiting", { plugin, code: Number(code ?? process.exitCode ?? 0) });
    quit(code);
  };
  process.abort = () => process.exit(134);
  const survive = (error) => console.error(`an error that nothing handles: ${reason(error)}`);
  process.on("uncaughtException", survive);
  process.on("unhandledRejection", survive);
  for (const level of ["debug", "error", "info", "log", "warn"]) {
    const print = console[level].bind(console);
    console[level] = (...values) => (storage.getStore() ? print(`[${name()}]`, ...values) : print(...values));
  }
}
