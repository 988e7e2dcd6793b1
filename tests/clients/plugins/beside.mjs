// The time until a session with oh-my-opencode is open, in windlass and in OpenCode by turns, over that without plugins;
// both run the plugin in OpenCode's own Bun. `node beside.mjs PATH/TO/windlass PATH/TO/opencode PATH/TO/the/package [ROUNDS]`

import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

const [windlass, opencode, plugin, rounds = "7"] = process.argv.slice(2);
const programs = { windlass: resolve(windlass), opencode: resolve(opencode) };
const times = {};

for (let round = 0; round < Number(rounds); round++) {
  for (const name of Object.keys(programs)) {
    for (const plugins of [[], [resolve(plugin)]]) {
      const key = `${name}, ${plugins.length === 0 ? "none" : "with it"}`;
      (times[key] ??= []).push(await opened(name, plugins));
    }
  }
}

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];
const rows = Object.entries(times).map(([key, values]) => [key, { "median ms": median(values), all: values.join(" ") }]);
console.table(Object.fromEntries(rows));
for (const name of Object.keys(programs)) {
  console.log(`${name}: the plugin costs ${median(times[`${name}, with it`]) - median(times[`${name}, none`])} ms`);
}

/** Starts the agent and returns the milliseconds until its first session is open. */
async function opened(name, plugins) {
  const home = mkdtempSync(join(tmpdir(), "windlass-beside-"));
  const project = join(home, "project");
  mkdirSync(project);
  const models = { mock: { name: "Mock", tool_call: true, limit: { context: 200000, output: 8192 } } };
  const config = {
    model: "mock/mock",
    plugin: plugins,
    provider: { mock: { npm: "@ai-sdk/openai-compatible", options: { baseURL: "http://127.0.0.1:9/v1", apiKey: "x" }, models } },
  };
  writeFileSync(join(project, "opencode.json"), JSON.stringify(config));
  const bin = join(home, "bin");
  mkdirSync(bin);
  writeFileSync(join(bin, "bun"), `#!/bin/sh\nBUN_BE_BUN=1 exec ${programs.opencode} "$@"\n`, { mode: 0o755 });
  const env = {
    HOME: home,
    PATH: `${bin}:${process.env.PATH}`,
    OPENCODE_DISABLE_AUTOUPDATE: "1",
    OPENCODE_DISABLE_MODELS_FETCH: "1",
    OMO_SEND_ANONYMOUS_TELEMETRY: "0",
  };
  const agent = spawn(programs[name], ["acp"], { cwd: project, env, stdio: ["pipe", "pipe", "ignore"] });
  const waiting = new Map();
  createInterface({ input: agent.stdout }).on("line", (line) => {
    const message = JSON.parse(line);
    if (message.id !== undefined && !message.method) waiting.get(message.id)?.(message);
  });
  let id = 0;
  const request = (method, params) =>
    new Promise((answered) => {
      waiting.set(++id, answered);
      agent.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    });
  const began = performance.now();
  await request("initialize", { protocolVersion: 1, clientCapabilities: {} });
  const { error, result } = await request("session/new", { cwd: project, mcpServers: [] });
  if (error) throw new Error(`${name}: ${JSON.stringify(error)}`);
  const took = Math.round(performance.now() - began);
  const modes = JSON.stringify(result).includes("Sisyphus");
  if (modes !== plugins.length > 0) throw new Error(`${name}: the plugin's agents are ${modes ? "" : "not "}there`);
  agent.stdin.end();
  await new Promise((ended) => agent.on("exit", ended));
  rmSync(home, { recursive: true, force: true, maxRetries: 5 });
  return took;
}
