// Node's loader, taught TypeScript and Bun's ways of naming files.

import { existsSync, readFileSync, statSync } from "node:fs";
import * as nodeModule from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";

const EXTENSIONS = [".ts", ".tsx", ".mts", ".cts", ".js", ".mjs", ".cjs", ".json"];
const TYPESCRIPT = /\.[mc]?tsx?$/;

let strip;

export async function resolve(specifier, context, next) {
  try {
    return await next(specifier, context);
  } catch (error) {
    const isPath = /^(\.{0,2}\/|file:)/.test(specifier);
    const found = isPath ? near(new URL(specifier, context.parentURL)) : undefined;
    if (found) return { url: found, shortCircuit: true };
    if (isPath || context.parentURL === import.meta.url) throw error;
    try {
      return await next(specifier, { ...context, parentURL: import.meta.url });
    } catch {
      throw error;
    }
  }
}

/** Returns the file that a path without its extension means, or the index of a directory. */
function near(url) {
  const path = fileURLToPath(url);
  const inside = EXTENSIONS.map((it) => `${path}/index${it}`);
  const written = path.replace(/\.([mc]?)js$/, ".$1ts");
  const found = [...EXTENSIONS.map((it) => path + it), written, ...inside].find((it) => existsSync(it) && statSync(it).isFile());
  return found && pathToFileURL(found).href;
}

export async function load(url, context, next) {
  const { pathname } = new URL(url);
  if (!url.startsWith("file:") || !TYPESCRIPT.test(pathname)) return next(url, context);
  const path = fileURLToPath(url);
  strip ??= await stripper();
  const source = strip(readFileSync(path, "utf8"), path);
  return { format: pathname.endsWith(".cts") ? "commonjs" : "module", source, shortCircuit: true };
}

/** Returns Node's own way to take types off, or ours where it has none. */
async function stripper() {
  const { stripTypeScriptTypes } = nodeModule;
  const own = await import("./library/stripper.js");
  const ours = (source, filePath) => {
    const transforms = filePath.endsWith("x") ? ["typescript", "jsx"] : ["typescript"];
    return own.transform(source, { transforms, filePath, disableESTransforms: true }).code;
  };
  if (!stripTypeScriptTypes) return ours;
  return (source, filePath) => (filePath.endsWith("x") ? ours(source, filePath) : stripTypeScriptTypes(source, { mode: "transform" }));
}
