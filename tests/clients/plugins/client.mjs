// Real plugins from the registry: each is installed and loaded, and oh-my-opencode answers a prompt over ACP with its own
// agents and tools. `node client.mjs PATH/TO/windlass [PATH/TO/bun]`

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [binary, runtime = "node"] = process.argv.slice(2);
/** Packages with a hook or a tool that each has, and the need for Bun. */
const PACKAGES = [
  { spec: "oh-my-opencode@4.19.4", hooks: ["chat.params", "config", "tool.definition"], tools: ["background_output", "look_at"] },
  { spec: "oh-my-opencode-slim@2.2.24", hooks: ["config", "event"], tools: [] },
  { spec: "@tarquinen/opencode-dcp@3.1.14", hooks: ["experimental.chat.messages.transform"], tools: ["compress"] },
  { spec: "opencode-supermemory@2.0.10", hooks: [], tools: [] },
  { spec: "opencode-wakatime@1.3.9", hooks: ["event"], tools: [] },
  { spec: "opencode-beads@0.3.2", hooks: ["config", "event"], tools: [] },
  { spec: "opencode-lmstudio@0.3.0", hooks: ["config", "chat.params"], tools: [] },
  { spec: "opencode-prompt-recorder@1.9.9", hooks: ["event"], tools: [] },
  { spec: "opencode-gemini-auth@1.3.8", hooks: ["auth"], tools: [] },
  { spec: "opencode-anthropic-auth@0.0.13", hooks: ["auth"], tools: [] },
  { spec: "opencode-skills@0.1.7", hooks: [], tools: [], needsBun: true },
  { spec: "opencode-pty@0.1.3", hooks: ["event"], tools: ["pty_spawn"], needsBun: true },
];

const home = join(import.meta.dirname, "node_modules/.windlass");
mkdirSync(home, { recursive: true });
const project = mkdtempSync(join(tmpdir(), "windlass-plugins-"));
const environment = {
  ...process.env,
  HOME: project,
  WINDLASS_HOME: home,
  XDG_CONFIG_HOME: join(project, ".config"),
  OMO_SEND_ANONYMOUS_TELEMETRY: "0",
};
delete environment.XDG_DATA_HOME;

function configure(plugin, baseURL = "http://127.0.0.1:9/v1") {
  const models = { mock: { name: "Mock", tool_call: true, limit: { context: 200000, output: 8192 } } };
  const config = {
    model: "mock/mock",
    plugin,
    provider: { mock: { npm: "@ai-sdk/openai-compatible", options: { baseURL, apiKey: "x" }, models } },
    windlass: { plugin: { runtime } },
  };
  writeFileSync(join(project, "opencode.json"), JSON.stringify(config));
}

function windlass(...args) {
  const options = { cwd: project, env: environment, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] };
  try {
    return execFileSync(binary, args, options);
  } catch (error) {
    // A list with failures says so by its exit code.
    if (args[0] === "plugin" && args[1] === "list") return error.stdout;
    throw new Error(`${args.join(" ")}: ${error.stderr}`);
  }
}

const isBun = !runtime.endsWith("node");
configure([]);
const rows = [];
for (const { spec, hooks, tools, needsBun } of PACKAGES) {
  configure([spec]);
  if (windlass("plugin", "list", "--format", "json").includes("it is not installed")) windlass("plugin", "add", spec);
  const [report] = JSON.parse(windlass("plugin", "list", "--format", "json"));
  rows.push({ spec, ms: report.loadMs, hooks: report.hooks.length, tools: report.tools.length, error: report.error ?? "" });
  if (needsBun && !isBun) {
    assert.ok(report.error, `${spec} should need Bun`);
    continue;
  }
  assert.equal(report.error, null, spec);
  for (const hook of hooks) assert.ok(report.hooks.includes(hook), `${spec} has no hook ${hook}: ${report.hooks}`);
  for (const tool of tools) assert.ok(report.tools.includes(tool), `${spec} has no tool ${tool}: ${report.tools}`);
}
console.table(rows);

const asked = [];
const provider = createServer((request, response) => {
  let body = "";
  request.on("data", (chunk) => (body += chunk));
  request.on("end", () => {
    asked.push(JSON.parse(body));
    response.writeHead(200, { "content-type": "text/event-stream" });
    const chunk = (delta, finish_reason = null) => ({ id: "c", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] });
    for (const part of [chunk({ role: "assistant", content: "hello back" }), chunk({}, "stop")]) response.write(`data: ${JSON.stringify(part)}\n\n`);
    response.end("data: [DONE]\n\n");
  });
});
await new Promise((resolve) => provider.listen(0, "127.0.0.1", resolve));
configure(["oh-my-opencode@4.19.4"], `http://127.0.0.1:${provider.address().port}/v1`);

const agent = spawn(binary, ["acp"], { cwd: project, env: environment, stdio: ["pipe", "pipe", "inherit"] });
const waiting = new Map();
let text = "";
createInterface({ input: agent.stdout }).on("line", (line) => {
  const message = JSON.parse(line);
  if (message.id !== undefined && !message.method) waiting.get(message.id)?.(message);
  const update = message.params?.update;
  if (update?.sessionUpdate === "agent_message_chunk") text += update.content.text;
});
let id = 0;
const request = (method, params) =>
  new Promise((resolve) => {
    waiting.set(++id, resolve);
    agent.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
  });
const began = performance.now();
await request("initialize", { protocolVersion: 1, clientCapabilities: {} });
const opened = await request("session/new", { cwd: project, mcpServers: [] });
const ready = Math.round(performance.now() - began);
const modes = opened.result.modes.availableModes.map((mode) => mode.id);
assert.ok(modes.some((mode) => mode.startsWith("Sisyphus")), `modes: ${modes}`);
const { sessionId } = opened.result;
await request("session/set_config_option", { sessionId, configId: "model", value: "mock/mock" });
const answered = await request("session/prompt", { sessionId, prompt: [{ type: "text", text: "hello" }] });
assert.equal(answered.result?.stopReason, "end_turn", JSON.stringify(answered));
assert.ok(text.includes("hello back"), text);
const main = asked.find((body) => body.tools?.length > 0);
const names = main.tools.map((tool) => tool.function.name);
assert.ok(names.includes("background_output") && names.includes("look_at"), `tools: ${names}`);
assert.ok(JSON.stringify(main.messages).includes("Sisyphus"), "its prompt is not there");
agent.stdin.end();
await new Promise((resolve) => agent.on("exit", resolve));
provider.close();
rmSync(project, { recursive: true, force: true });
console.log(`oh-my-opencode answered with ${names.length} tools; its session was open after ${ready} ms.`);
