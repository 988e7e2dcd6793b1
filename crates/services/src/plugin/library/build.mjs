// Bundles the libraries that plugins import into one compressed file: a JSON object of texts by path.

import { build } from "esbuild";
import { readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const SOURCES = {
  zod: 'export * from "zod"; export { default } from "zod";',
  plugin: 'export * from "@opencode-ai/plugin/tool";',
  sdk: 'export * from "@opencode-ai/sdk";',
  client: 'export * from "@opencode-ai/sdk/client";',
  stripper: 'export { transform } from "sucrase";',
};
/** Packages that plugins may import, with their entries. */
const PACKAGES = {
  "@opencode-ai/plugin": { ".": "plugin", "./tool": "plugin" },
  "@opencode-ai/sdk": { ".": "sdk", "./client": "client" },
  zod: { ".": "zod", "./v4": "zod" },
};

const name = "library";
const virtual = {
  name,
  setup(build) {
    build.onResolve({ filter: /^virtual:/ }, ({ path }) => ({ path: path.slice(8), namespace: name }));
    build.onLoad({ filter: /.*/, namespace: name }, ({ path }) => ({ contents: SOURCES[path], resolveDir: "." }));
  },
};
const bundled = await build({
  entryPoints: Object.fromEntries(Object.keys(SOURCES).map((it) => [it, `virtual:${it}`])),
  plugins: [virtual],
  bundle: true,
  minify: true,
  splitting: true,
  format: "esm",
  platform: "node",
  target: "es2022",
  legalComments: "none",
  chunkNames: "shared-[hash]",
  outdir: "out",
  write: false,
});

const files = {};
for (const { path, text } of bundled.outputFiles) files[`library/${path.split("/").at(-1)}`] = text;
for (const [name, entries] of Object.entries(PACKAGES)) {
  const { version, license } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
  const exports = Object.fromEntries(Object.entries(entries).map(([key, file]) => [key, `./${file}.js`]));
  files[`node_modules/${name}/package.json`] = JSON.stringify({ name, version, license, type: "module", exports });
  for (const file of new Set(Object.values(entries))) {
    const up = "../".repeat(1 + name.split("/").length);
    const rest = file === "zod" ? `\nexport { default } from "${up}library/zod.js";` : "";
    files[`node_modules/${name}/${file}.js`] = `export * from "${up}library/${file}.js";${rest}\n`;
  }
}
const licences = ["@opencode-ai/sdk", "sucrase", "zod"].map((name) => {
  const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
  let text = "MIT";
  try {
    text = readFileSync(`node_modules/${name}/LICENSE`, "utf8");
  } catch {}
  return `${name} ${version}\n\n${text}`;
});
files["library/LICENSES"] = licences.join("\n\n");
const sorted = Object.fromEntries(Object.entries(files).sort(([a], [b]) => (a < b ? -1 : 1)));
writeFileSync("../library.json.gz", gzipSync(JSON.stringify(sorted), { level: 9 }));
