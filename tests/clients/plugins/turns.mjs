// Real plugins from the registry, each in a turn in which it does what it is for, with a scripted model and scripted
// services beside it. `node turns.mjs PATH/TO/windlass [PATH/TO/bun] [PACKAGE]`

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

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

  async answer({ url, headers, method }, text, response) {
    const body = headers["content-type"]?.startsWith("application/json") && text ? JSON.parse(text) : undefined;
    this.requests.push({ url, headers, body, method });
    const path = url.split("?")[0];
    const form = FORMS.find(([end]) => path.endsWith(end))?.[1];
    if (!form) {
      response.writeHead(200, { "content-type": "application/json" });
      return response.end(JSON.stringify(this.others[path] ?? {}));
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    const step = tools(body)?.length ? await this.next(body) : { text: "A title" };
    response.end(form({ ...step, id: `call_${this.requests.length}` }));
  }

  /** The next step of the script; one that is a function returns its step, or more of them. */
  async next(body) {
    const step = this.script.shift() ?? { text: "done" };
    if (typeof step !== "function") return step;
    const made = [await step(body)].flat();
    this.script.unshift(...made.slice(1));
    return made[0];
  }

  /** The requests for answers, without those for titles. */
  get asked() {
    return this.requests.filter(({ body }) => tools(body)?.length);
  }
}

/** Google's services for plugins put their request into another. */
const tools = (body) => body?.tools ?? body?.request?.tools;

const events = (list) => list.map((it) => `event: ${it.type}\ndata: ${JSON.stringify(it)}\n\n`).join("");

function chat({ text, call, id }) {
  const chunk = (delta, finish_reason = null) => ({ id: "c", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] });
  const calls = call && [{ index: 0, id, type: "function", function: { name: call[0], arguments: JSON.stringify(call[1]) } }];
  const first = chunk({ role: "assistant", content: text, tool_calls: calls });
  return [first, chunk({}, call ? "tool_calls" : "stop")].map((it) => `data: ${JSON.stringify(it)}\n\n`).join("") + "data: [DONE]\n\n";
}

function anthropic({ text, call, id }) {
  const block = call ? { type: "tool_use", id, name: call[0], input: {} } : { type: "text", text: "" };
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

/** An answer of Google's service for its own programs. */
function assist({ text, call }) {
  const part = call ? { functionCall: { name: call[0], args: call[1] } } : { text };
  const candidate = { content: { role: "model", parts: [part] }, finishReason: "STOP" };
  return `data: ${JSON.stringify({ response: { candidates: [candidate], usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1 } } })}\n\n`;
}

const FORMS = [
  ["/chat/completions", chat],
  ["/messages", anthropic],
  [":streamGenerateContent", assist],
];

/** A plugin that stands for Google: its addresses, which the packages do not let us set, lead to the service beside it. */
const google = (url) => `
const real = globalThis.fetch
globalThis.fetch = (input, init) => {
  const asked = new URL(typeof input === "string" ? input : input.url ?? input)
  if (!asked.hostname.endsWith("googleapis.com")) return Promise.reject(new Error("no network"))
  return real(new URL(asked.pathname + asked.search, ${JSON.stringify(url)}), init)
}
export const Google = async () => ({})`;

/** Has a plugin of a Google login answer a prompt, and returns the request that its service got. */
async function googled(project, { asked, service, configure, spec }, refresh) {
  project.write("google.js", google(service.url));
  const login = { type: "oauth", refresh, access: "token-1", expires: Date.now() + 3_600_000 };
  project.environment.OPENCODE_AUTH_CONTENT = text({ google: login });
  service.others["/v1internal:loadCodeAssist"] = { cloudaicompanionProject: "harbour", currentTier: { id: "free-tier" } };
  service.others["/token"] = { access_token: "token-1", expires_in: 3600 };
  configure({ plugin: ["./google.js", spec] });
  service.script.push({ call: ["bash", { command: "echo from the turn" }] }, { text: "all is well" });
  const { stdout } = await project.windlass("run", "-m", "google/gemini-2.5-flash", "hello");
  assert.match(stdout, /all is well/, "its answer is unwrapped");
  const [first, second] = asked();
  assert.equal(first.headers.authorization, "Bearer token-1");
  assert.match(first.url, /^\/v1internal:streamGenerateContent/);
  assert.equal(first.body.project, "harbour");
  assert.match(text(second.body.request.contents), /from the turn/, "the result of its call is sent");
  return first;
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
      WINDLASS_TRUST: "1",
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
  "oh-my-opencode-slim@2.2.24": async (project, { asked, script }) => {
    await project.windlass("run", "hello");
    const n = asked()[0].body.tools.length;
    assert.match(text(asked()[0].body.messages[0]), /<Role>/, "its agent answers");
    const isExplorer = (body) => /You are Explorer/.test(text(body.messages));
    const call = { description: "Find the gate", prompt: "Where is the gate?", subagent_type: "explorer" };
    script({ call: ["task", call] }, (body) => {
      assert.ok(isExplorer(body), "its specialist is asked");
      return { text: "the gate is in harbour.txt" };
    });
    script((body) => {
      const task_id = result({ body }).match(/ses_\w+/)[0];
      return { call: ["task_result", { task_id }] };
    });
    await project.windlass("run", "where is the gate?");
    assert.equal(result(asked().at(-1)), "the gate is in harbour.txt", "its own tool knows the specialist's answer");
    return `its agent has ${n} tools, asks its specialist, and reads the answer by its own tool`;
  },
  "@tarquinen/opencode-dcp@3.1.14": async (project, { asked, script }) => {
    const long = "the tide was high. ".repeat(400);
    script({ call: ["bash", { command: `echo '${long}'` }] }, { text: "I have read it" }, (body) => {
      const ids = [...text(body.messages).matchAll(/<dcp-message-id[^>]*>(m\d+)</g)].map((it) => it[1]);
      assert.ok(ids.length >= 3, `messages carry its ids: ${ids}`);
      const content = [{ startId: ids[0], endId: ids.at(-2), summary: "The tide was high that day." }];
      return { call: ["compress", { topic: "The tide", content }] };
    });
    await project.windlass("run", "read it");
    await project.windlass("run", "--continue", "make it short");
    const before = text(asked()[2].body.messages);
    const after = text(asked()[3].body.messages);
    assert.ok(before.includes("the tide was high. the tide"), "the output was there");
    assert.ok(!after.includes("the tide was high. the tide"), "the output is gone");
    assert.match(after, /Compressed conversation section.*The tide was high that day\./, "its summary is there");
    return "`compress` puts a summary in the place of messages, and the next request is shorter";
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
  "opencode-prompt-recorder@1.9.9": async (project, { script }) => {
    const files = () => readdirSync(project.directory, { recursive: true }).filter((it) => it.endsWith(".md") || it.endsWith(".txt"));
    const isKept = () => files().some((it) => project.read(it).includes("a prompt to be kept"));
    // Its file has room for one at a time: an answer within a millisecond of the prompt would be written over it.
    script(async () => {
      for (let n = 0; n < 1000 && !isKept(); n += 1) await pause(5);
      return { text: "done" };
    });
    await project.windlass("run", "a prompt to be kept");
    assert.ok(isKept(), `no file has the prompt: ${files().map((it) => `${it}: ${project.read(it)}`)}`);
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
    const { body } = asked()[1];
    assert.match(text(asked()[0].body.tools), /Helps to find rhymes/, "the skill is offered");
    assert.equal(result(asked()[1]), "Launching skill: rhyming");
    const said = body.messages.filter((it) => it.role === "user").map((it) => text(it.content));
    assert.ok(said.some((it) => it.includes("Use short lines.")), "its text is in the conversation");
    return "makes a tool of each skill, which puts its text into the conversation";
  },
  "opencode-pty@0.1.3": async (project, { asked, script }) => {
    let id;
    let n = 0;
    const read = (body) => {
      const seen = body.messages.findLast((it) => it.role === "tool").content;
      if (seen.includes("| HARBOUR")) return { call: ["pty_kill", { id, cleanup: true }] };
      assert.ok(++n < 50, `the program did not answer: ${seen}`);
      return [{ call: ["pty_read", { id }] }, read];
    };
    const spawned = { command: "sh", args: ["-c", "tr a-z A-Z | cat -u"], description: "Shouts" };
    script({ call: ["pty_spawn", spawned] }, (body) => {
      id = text(body.messages).match(/pty_[0-9a-f]+/)[0];
      return [{ call: ["pty_write", { id, data: "harbour\\n\\x04" }] }, read];
    });
    await project.windlass("run", "start it");
    const said = text(asked().at(-1).body.messages);
    assert.match(said, /\| HARBOUR/, "the program answered in its terminal");
    assert.match(result(asked().at(-1)), /pty_[0-9a-f]+/, "the terminal was closed");
    return "opens a terminal, writes to the program in it, reads what it answers, and closes it";
  },
  "opencode-gemini-auth@1.3.8": async (project, tools) => {
    const first = await googled(project, tools, "r");
    assert.equal(first.body.model, "gemini-2.5-flash");
    return "sends the requests with its login to Google's service for its own programs, and unwraps the answers";
  },
  "opencode-antigravity-auth@1.6.0": async (project, tools) => {
    const first = await googled(project, tools, "r|harbour|harbour");
    assert.match(text(first.headers), /antigravity|google-api-nodejs/i);
    return "sends the requests with its login to Google's service for its own programs, and unwraps the answers";
  },
  "opencode-openai-codex-auth@4.4.0": async (project, { asked }) => {
    const { stdout } = await project.windlass("plugin", "list");
    assert.match(stdout, /opencode-openai-codex-auth: left out: .*windlass auth login/);
    await project.windlass("run", "hello");
    assert.equal(asked().length, 1, "a turn goes on without it");
    return "left out with a sentence, because its logins come with windlass";
  },
};
/** Packages that are not loaded. */
const SUPERSEDED = ["opencode-openai-codex-auth@4.4.0"];
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
    spec,
  };
  try {
    project.configure(spec);
    if (!SUPERSEDED.includes(spec) && !existsSync(join(home, "cache/packages", spec))) await project.windlass("plugin", "add", spec);
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
