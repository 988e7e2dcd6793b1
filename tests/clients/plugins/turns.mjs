// Real plugins from the registry, each in a turn in which it does what it is for, with a scripted model and scripted
// services beside it. `node turns.mjs PATH/TO/windlass [PATH/TO/bun] [PACKAGE]`

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

const [binary, runtime = "node", only] = process.argv.slice(2);
const isBun = !runtime.endsWith("node");
const home = join(import.meta.dirname, "node_modules/.windlass");

/** A server of a model that follows a script, and of whatever else a package asks. */
class Service {
  requests = [];
  script = [];
  others = {};

  static async start() {
    const service = new Service();
    service.server = createServer((request, response) => {
      let body = "";
      request.on("data", (chunk) => (body += chunk));
      request.on("end", () => service.answer(request, body, response));
    });
    await new Promise((resolve) => service.server.listen(0, "127.0.0.1", resolve));
    service.url = `http://127.0.0.1:${service.server.address().port}`;
    return service;
  }

  answer({ url, headers, method }, text, response) {
    const body = text ? JSON.parse(text) : undefined;
    this.requests.push({ url, headers, body, method });
    const path = url.split("?")[0];
    if (!path.endsWith("/chat/completions") && !path.endsWith("/messages")) {
      response.writeHead(200, { "content-type": "application/json" });
      return response.end(JSON.stringify(this.others[path] ?? {}));
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    const isTitle = !body.tools?.length;
    const step = isTitle ? { text: "A title" } : (this.script.shift() ?? { text: "done" });
    response.end(path.endsWith("/messages") ? anthropic(step) : chat(step));
  }

  /** The requests for answers, without those for titles. */
  get asked() {
    return this.requests.filter(({ body }) => body?.tools?.length);
  }
}

const events = (list) => list.map((it) => `event: ${it.type}\ndata: ${JSON.stringify(it)}\n\n`).join("");

function chat({ text, call }) {
  const chunk = (delta, finish_reason = null) => ({ id: "c", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] });
  const calls = call && [{ index: 0, id: "call_1", type: "function", function: { name: call[0], arguments: JSON.stringify(call[1]) } }];
  const first = chunk({ role: "assistant", content: text, tool_calls: calls });
  return [first, chunk({}, call ? "tool_calls" : "stop")].map((it) => `data: ${JSON.stringify(it)}\n\n`).join("") + "data: [DONE]\n\n";
}

function anthropic({ text, call }) {
  const block = call ? { type: "tool_use", id: "call_1", name: call[0], input: {} } : { type: "text", text: "" };
  const delta = call ? { type: "input_json_delta", partial_json: JSON.stringify(call[1]) } : { type: "text_delta", text };
  return events([
    { type: "message_start", message: { id: "m", type: "message", role: "assistant", content: [], usage: { input_tokens: 1, output_tokens: 1 } } },
    { type: "content_block_start", index: 0, content_block: block },
    { type: "content_block_delta", index: 0, delta },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: call ? "tool_use" : "end_turn" }, usage: { output_tokens: 1 } },
    { type: "message_stop" },
  ]);
}

/** A project with one package, and its turn. */
class Project {
  constructor(service) {
    this.service = service;
    this.directory = mkdtempSync(join(tmpdir(), "windlass-turn-"));
    this.environment = {
      ...process.env,
      HOME: this.directory,
      WINDLASS_HOME: home,
      XDG_CONFIG_HOME: join(this.directory, ".config"),
      PATH: `${join(this.directory, "bin")}:${process.env.PATH}`,
      OMO_SEND_ANONYMOUS_TELEMETRY: "0",
    };
    delete this.environment.XDG_DATA_HOME;
  }

  write(name, text) {
    const file = join(this.directory, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    if (text.startsWith("#!")) chmodSync(file, 0o755);
  }

  read(name) {
    return readFileSync(join(this.directory, name), "utf8");
  }

  configure(spec, more = {}) {
    const options = { baseURL: `${this.service.url}/v1`, apiKey: "x" };
    const models = { mock: { name: "Mock", tool_call: true, limit: { context: 200000, output: 8192 } } };
    const mock = { npm: "@ai-sdk/openai-compatible", options, models };
    const { provider, ...rest } = more;
    const windlass = { plugin: { runtime } };
    const config = { model: "mock/mock", plugin: [spec], provider: { mock, ...provider }, windlass, ...rest };
    this.write("opencode.json", JSON.stringify(config));
  }

  windlass(...args) {
    return new Promise((resolve, reject) => {
      const options = { cwd: this.directory, env: this.environment, encoding: "utf8", timeout: 60_000 };
      const child = execFile(binary, args, options, (error, stdout, stderr) =>
        error ? reject(new Error(`${args.join(" ")}: ${error.message}\n${stdout}\n${stderr}`)) : resolve({ stdout, stderr }),
      );
      child.stdin.end();
    });
  }
}

const text = (value) => JSON.stringify(value);
const result = ({ body }) => body.messages.findLast((it) => it.role === "tool")?.content;

/** What each package is for, seen in a turn. */
const TURNS = {
  "oh-my-opencode-slim@2.2.24": async (project, { asked }) => {
    await project.windlass("run", "hello");
    const { body } = asked()[0];
    assert.match(text(body.messages[0]), /<Role>/, "its agent answers");
    assert.ok(body.tools.some((tool) => tool.function.name === "ast_grep_search"), "its tools are offered");
    return `its agent answers with ${body.tools.length} tools`;
  },
  "@tarquinen/opencode-dcp@3.1.14": async (project, { asked }) => {
    await project.windlass("run", "hello");
    const { body } = asked()[0];
    assert.match(text(body.messages), /dcp-message-id/, "messages carry its ids");
    assert.ok(body.tools.some((tool) => tool.function.name === "compress"));
    return "numbers the messages of each request, and offers its tool";
  },
  "opencode-supermemory@2.0.10": async (project, { asked, service, script }) => {
    Object.assign(project.environment, { SUPERMEMORY_API_KEY: "sm_key", SUPERMEMORY_BASE_URL: service.url });
    script({ call: ["supermemory", { mode: "add", content: "the user likes tea" }] });
    await project.windlass("run", "remember that I like tea");
    assert.match(text(asked()[0].body.messages), /MUST use the `supermemory` tool/, "the prompt asks for it");
    const stored = service.requests.find((it) => it.method === "POST" && text(it.body).includes("likes tea") && !it.body.tools);
    assert.equal(stored?.headers.authorization, "Bearer sm_key", "the memory reaches the service");
    return "hears `remember`, and its tool stores the memory at the service";
  },
  "opencode-beads@0.3.2": async (project, { asked }) => {
    project.write("bin/bd", "#!/bin/sh\necho two issues are ready\n");
    await project.windlass("run", "hello");
    const messages = text(asked().at(-1).body.messages);
    assert.match(messages, /beads-context/, "the issues are in the conversation");
    assert.match(messages, /two issues are ready/);
    return "puts the output of `bd prime` into the conversation";
  },
  "opencode-lmstudio@0.3.0": async (project, { asked, service, configure }) => {
    service.others["/v1/models"] = { object: "list", data: [{ id: "qwen3-8b", object: "model" }] };
    configure({ provider: { lmstudio: { npm: "@ai-sdk/openai-compatible", options: { baseURL: `${service.url}/v1` } } } });
    await project.windlass("run", "-m", "lmstudio/qwen3-8b", "hello");
    assert.equal(asked()[0].body.model, "qwen3-8b");
    return "finds the models of a server, and one of them answers";
  },
  "opencode-prompt-recorder@1.9.9": async (project) => {
    await project.windlass("run", "a prompt to be kept");
    const files = readdirSync(project.directory, { recursive: true }).filter((it) => it.endsWith(".md") || it.endsWith(".txt"));
    assert.ok(files.some((it) => project.read(it).includes("a prompt to be kept")), `no file has the prompt: ${files}`);
    return "writes the prompt to a file";
  },
  "opencode-wakatime@1.3.9": async (project, { script }) => {
    project.write("bin/wakatime-cli", `#!/bin/sh\necho "$@" >> "${project.directory}/beats"\n`);
    project.write(".wakatime.cfg", "[settings]\napi_key = 00000000-0000-4000-8000-000000000000\n");
    script({ call: ["write", { filePath: join(project.directory, "poem.txt"), content: "roses" }] });
    await project.windlass("run", "write a poem");
    assert.ok(existsSync(join(project.directory, "beats")), "no heartbeat was sent");
    assert.match(project.read("beats"), /poem\.txt/);
    return "sends a heartbeat for the file that was written";
  },
  "opencode-anthropic-auth@0.0.13": async (project, { asked, service, script, configure }) => {
    const login = { type: "oauth", refresh: "r", access: "token-1", expires: Date.now() + 3_600_000 };
    project.environment.OPENCODE_AUTH_CONTENT = text({ anthropic: login });
    const models = { "claude-test": { name: "Test", tool_call: true, limit: { context: 200000, output: 8192 } } };
    configure({ provider: { anthropic: { options: { baseURL: `${service.url}/v1` }, models } } });
    script({ call: ["mcp_bash", { command: "echo from the plugin" }] });
    await project.windlass("run", "-m", "anthropic/claude-test", "hello");
    const [first, second] = asked();
    assert.equal(first.headers.authorization, "Bearer token-1");
    assert.match(first.headers["anthropic-beta"], /oauth-2025-04-20/);
    assert.match(first.url, /beta=true/);
    assert.ok(first.body.tools.every((tool) => tool.name.startsWith("mcp_")), "its tools are renamed");
    assert.match(text(second.body.messages), /from the plugin/, "and its calls back");
    return "sends the requests with the login's token, and renames tools both ways";
  },
  "opencode-skills@0.1.7": async (project, { asked, script }) => {
    const skill = "---\nname: rhyming\ndescription: Helps to find rhymes for the words of a poem\n---\n\nUse short lines.\n";
    project.write(".opencode/skills/rhyming/SKILL.md", skill);
    script({ call: ["skills_rhyming", {}] });
    await project.windlass("run", "write a poem");
    assert.match(result(asked()[1]), /rhyming/, "the skill is launched");
    return "makes a tool of each skill";
  },
  "opencode-pty@0.1.3": async (project, { asked, script }) => {
    script({ call: ["pty_spawn", { command: "cat", args: [], description: "Waits for input" }] });
    await project.windlass("run", "start it");
    assert.match(result(asked()[1]), /pty_/, "a terminal was opened");
    return "opens a terminal";
  },
};
const NEED_BUN = ["opencode-skills@0.1.7", "opencode-pty@0.1.3"];

const rows = [];
for (const [spec, turn] of Object.entries(TURNS)) {
  if ((NEED_BUN.includes(spec) && !isBun) || (only && !spec.includes(only))) continue;
  const service = await Service.start();
  const project = new Project(service);
  const began = performance.now();
  const tools = {
    service,
    asked: () => service.asked,
    script: (...steps) => service.script.push(...steps),
    configure: (more) => project.configure(spec, more),
  };
  try {
    project.configure(spec);
    if (!existsSync(join(home, "cache/packages", spec))) await project.windlass("plugin", "add", spec);
    const seen = await turn(project, tools);
    rows.push({ spec, seen, ms: Math.round(performance.now() - began) });
  } catch (error) {
    rows.push({ spec, seen: `FAILED: ${error.message.slice(0, 600)}`, ms: Math.round(performance.now() - began) });
    process.exitCode = 1;
  } finally {
    service.server.close();
    service.server.closeAllConnections();
    rmSync(project.directory, { recursive: true, force: true });
  }
}
for (const { spec, seen, ms } of rows) console.log(`${spec}: ${seen} (${ms} ms)`);
