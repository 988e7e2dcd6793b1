// oh-my-opencode in a client of ACP's official SDK: its agents are modes, two of them answer prompts, and a model calls
// tools of its own. `node acp.mjs PATH/TO/windlass [PATH/TO/bun]`

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";

import { client, methods, ndJsonStream } from "@agentclientprotocol/sdk";

const [binary, runtime = "node"] = process.argv.slice(2);
const SPEC = "oh-my-opencode@4.19.4";
const LIMIT = 120_000;

const root = realpathSync(mkdtempSync(join(tmpdir(), "windlass-acp-plugins-")));
const project = join(root, "project");
mkdirSync(project);
writeFileSync(join(project, "harbour.txt"), "the gate is open\n");
const home = join(import.meta.dirname, "node_modules/.windlass");
const env = {
  PATH: process.env.PATH,
  HOME: root,
  WINDLASS_HOME: home,
  WINDLASS_TRUST: "1",
  OMO_SEND_ANONYMOUS_TELEMETRY: "0",
};

/** A scripted model: each request with tools takes the next step. */
const script = [];
const asked = [];
const model = createServer((request, response) => {
  let body = "";
  request.on("data", (chunk) => (body += chunk));
  request.on("end", () => {
    const parsed = JSON.parse(body);
    const step = parsed.tools?.length ? (script.shift() ?? { text: "done" }) : { text: "A title" };
    if (parsed.tools?.length) asked.push(parsed);
    const calls = step.call && [{ index: 0, id: step.id, type: "function", function: { name: step.call, arguments: JSON.stringify(step.args) } }];
    const chunk = (delta, finish_reason = null) =>
      `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(chunk({ role: "assistant", content: step.text, tool_calls: calls }));
    response.end(`${chunk({}, calls ? "tool_calls" : "stop")}data: [DONE]\n\n`);
  });
});
await new Promise((listening) => model.listen(0, "127.0.0.1", listening));

const options = { baseURL: `http://127.0.0.1:${model.address().port}/v1`, apiKey: "x" };
const models = { mock: { name: "Mock", tool_call: true, limit: { context: 200000, output: 8192 } } };
const config = {
  model: "mock/mock",
  plugin: [SPEC],
  provider: { mock: { npm: "@ai-sdk/openai-compatible", options, models } },
  windlass: { plugin: { runtime } },
};
writeFileSync(join(project, "opencode.json"), JSON.stringify(config));
// What a project brings runs in a sandbox, where its `config` hook adds no agents that may do more. (Named in the user's
// own file, the package would rename itself there.)
const own = join(root, ".config/opencode");
mkdirSync(own, { recursive: true });
writeFileSync(join(own, "opencode.json"), JSON.stringify({ windlass: { sandbox: { plugins: { mode: "off" } } } }));
if (!existsSync(join(home, "cache/packages", SPEC))) execFileSync(binary, ["plugin", "add", SPEC], { cwd: project, env });

const agent = spawn(binary, ["acp"], { cwd: project, env, stdio: ["pipe", "pipe", "inherit"] });
const exited = new Promise((ended) => agent.on("exit", ended));
const deadline = setTimeout(() => {
  console.error(`oh-my-opencode: no end after ${LIMIT / 1000} s`);
  process.exit(1);
}, LIMIT);

const updates = [];
let heard = () => {};
// The SDK hands updates over beside the answers, not before them.
const until = (holds) => new Promise((resolve) => ((heard = () => holds() && resolve()), heard()));
const said = () => updates.filter((it) => it.sessionUpdate === "agent_message_chunk").map((it) => it.content.text).join("");
const result = (id) => asked.at(-1).messages.find((it) => it.role === "tool" && it.tool_call_id === id)?.content;
const system = () => JSON.stringify(asked.at(-1).messages.filter((it) => it.role === "system"));

try {
  await client({ name: "windlass-test" })
    .onNotification(methods.client.session.update, ({ params }) => {
      updates.push(params.update);
      heard();
    })
    .onRequest(methods.client.session.requestPermission, ({ params }) => {
      const option = params.options.find((it) => it.kind === "allow_once");
      return { outcome: { outcome: "selected", optionId: option.optionId } };
    })
    .connectWith(ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout)), async (context) => {
      const began = performance.now();
      await context.request(methods.agent.initialize, { protocolVersion: 1, clientCapabilities: {} });
      const opened = await context.request(methods.agent.session.new, { cwd: project, mcpServers: [] });
      const ready = Math.round(performance.now() - began);
      const { sessionId } = opened;
      const modes = opened.modes.availableModes.map((it) => it.id);
      const mode = (name) => modes.find((it) => it.startsWith(name));
      for (const name of ["Sisyphus", "Hephaestus", "Prometheus", "Atlas"]) assert.ok(mode(name), `${name} is no mode: ${modes}`);
      assert.equal(opened.modes.currentModeId, mode("Sisyphus"), "its agent is the default one");

      const prompt = async (text) => {
        const { stopReason } = await context.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
        assert.equal(stopReason, "end_turn");
      };
      const choose = (configId, value) => context.request(methods.agent.session.setConfigOption, { sessionId, configId, value });
      await choose("model", "mock/mock");
      script.push({ text: "hello back" });
      await prompt("hello");
      await until(() => said().includes("hello back"));
      assert.match(system(), /Sisyphus/, "its prompt is that of its agent");

      // Tools that only it has, and one of ours that it replaces.
      script.push({ call: "background_output", args: { task_id: "bg_none" }, id: "call_1" });
      script.push({ call: "grep", args: { pattern: "gate is", path: project }, id: "call_2" });
      script.push({ text: "I have looked" });
      await prompt("look around");
      await until(() => said().includes("I have looked"));
      assert.equal(result("call_1"), "Task not found: bg_none");
      // It shows the lines too, or the files alone, by the searching program that it finds on this machine.
      assert.match(result("call_2"), /^Found 1 match\(es\) in 1 file\(s\).*harbour\.txt/s);
      const call = updates.find((it) => it.sessionUpdate === "tool_call" && it.toolCallId === "call_1");
      assert.ok(call, "its call is shown");

      // Another of its agents answers.
      await context.request(methods.agent.session.setMode, { sessionId, modeId: mode("Atlas") });
      await choose("model", "mock/mock");
      script.push({ text: "Atlas here" });
      await prompt("who are you?");
      await until(() => said().includes("Atlas here"));
      assert.match(system(), /You are \\"Atlas\\"/, "the other agent's prompt is its own");
      const n = asked.at(-1).tools.length;
      console.log(`oh-my-opencode in a client: ${modes.length} modes, open after ${ready} ms; two of its agents answered, with ${n} tools`);
    });
  agent.stdin.end();
  assert.equal(await exited, 0);
} catch (error) {
  console.error("oh-my-opencode:", error);
  process.exitCode = 1;
  agent.kill("SIGKILL");
} finally {
  clearTimeout(deadline);
  model.closeAllConnections();
  model.close();
  rmSync(root, { recursive: true, force: true, maxRetries: 5 });
}
