// Finds the file of a plugin that is to be imported.

import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";

import { satisfies } from "./version.mjs";

const INDEXES = ["index.ts", "index.tsx", "index.js", "index.mjs", "index.cjs"];

/** The reason why a plugin is left out; `silent` for those that simply are none. */
export class Skipped extends Error {
  constructor(message, silent = false) {
    super(message);
    this.silent = silent;
  }
}

/** Returns the URL to import, and the package's own name. */
export function entry({ path, isPackage, version }) {
  if (!existsSync(path)) throw new Skipped(`Failed to load plugin ${pathToFileURL(path)}: Cannot find module '${path}'`);
  if (!statSync(path).isDirectory()) return { url: pathToFileURL(path).href };
  const file = join(path, "package.json");
  if (!existsSync(file)) {
    const index = INDEXES.map((it) => join(path, it)).find((it) => existsSync(it));
    if (index) return { url: pathToFileURL(index).href };
    throw new Skipped(`Failed to install plugin ${pathToFileURL(path)}@: Plugin directory ${path} is missing package.json or index file`);
  }
  const manifest = JSON.parse(readFileSync(file, "utf8"));
  const engine = manifest.engines?.opencode;
  if (isPackage && engine && !satisfies(version, engine)) {
    throw new Skipped(`Plugin ${manifest.name} skipped: Plugin requires opencode ${engine} but running ${version}`);
  }
  return { url: pathToFileURL(inside(path, named(path, manifest, isPackage))).href, name: manifest.name };
}

function named(path, manifest, isPackage) {
  const { exports, main, module } = manifest;
  const server = exports?.["./server"];
  const exported = typeof server === "string" ? server : (server?.import ?? server?.default);
  if (exported) return join(path, exported);
  const ofRoot = typeof exports === "string" ? exports : undefined;
  if (main) return existing(path, main) ?? join(path, main);
  if (exports && typeof exports === "object" && !("." in exports)) throw new Skipped("", true);
  const root = exports?.["."];
  const ofDot = typeof root === "string" ? root : (root?.bun ?? root?.import ?? root?.default);
  const candidates = [ofRoot, typeof ofDot === "string" ? ofDot : ofDot?.default, module, ...INDEXES];
  const found = candidates.filter(Boolean).map((it) => existing(path, it)).find(Boolean);
  if (found) return found;
  const what = isPackage ? "package" : "directory";
  throw new Skipped(`Failed to load plugin ${pathToFileURL(path)}: the ${what} names no entry`);
}

function existing(path, name) {
  const whole = join(path, name);
  const candidates = [whole, `${whole}.ts`, `${whole}.js`, `${whole}.mjs`, ...INDEXES.map((it) => join(whole, it))];
  return candidates.find((it) => existsSync(it) && statSync(it).isFile());
}

function inside(path, file) {
  if (!existsSync(file)) throw new Skipped(`Failed to load plugin ${pathToFileURL(path)}: Cannot find module '${file}'`);
  const away = relative(realpathSync(path), realpathSync(resolve(file)));
  if (away.startsWith("..")) throw new Skipped(`Failed to load plugin ${pathToFileURL(path)}: its entry is outside of the package`);
  return file;
}
