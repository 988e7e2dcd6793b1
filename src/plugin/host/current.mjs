// Knows which plugin runs, so that what it prints, and how it ends the process, can be told by its name.

import { AsyncLocalStorage } from "node:async_hooks";

import { notify, reason } from "./channel.mjs";

const storage = new AsyncLocalStorage();

/** Ends the process. */
export const quit = process.exit.bind(process);

export const name = () => storage.getStore() ?? "a plugin";
export const within = (plugin, work) => storage.run(plugin, work);

let announced;

/** Tells the daemon whose code runs next, so that it knows who never ends. */
export function announce(plugin) {
  if (plugin === announced) return;
  announced = plugin;
  notify("at", { plugin });
}

/** Keeps what plugins do to the process from ending it unseen. */
export function guard() {
  process.exit = (code) => {
    notify("exiting", { plugin: name(), code: Number(code ?? process.exitCode ?? 0) });
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
