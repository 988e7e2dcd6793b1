// Real formatters and language servers behind changes of files, in a project of each language, with a scripted model.
// `node editing.mjs PATH/TO/windlass`

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { createInterface } from "node:readline";

const binary = process.argv[2];
const here = import.meta.dirname;
const PATIENCE_MS = 60_000;

/** A file as the model writes it, as its formatter leaves it, and a part of what its language server says of it. */
const languages = [
  {
    name: "prettier and typescript-language-server",
    project: { "package.json": '{"devDependencies": {"prettier": "3"}}', "package-lock.json": "{}", "tsconfig.json": "{}" },
    file: "sum.ts",
    written: "export const sum:number='none'",
    formatted: 'export const sum: number = "none";\n',
    complaint: "Type 'string' is not assignable to type 'number'",
  },
  {
    name: "ruff and pyright",
    project: { "ruff.toml": "", "pyproject.toml": "" },
    file: "total.py",
    written: "total:int='none'",
    formatted: 'total: int = "none"\n',
    complaint: "is not assignable to",
  },
  {
    name: "clang-format and clangd",
    project: { ".clang-format": "", "compile_flags.txt": "" },
    file: "total.c",
    written: "int*total(void){return missing;}\n",
    formatted: "int *total(void) { return missing; }\n",
    complaint: "undeclared identifier 'missing'",
  },
  {
    name: "yaml-language-server, which windlass installed",
    install: "yaml-ls",
    project: { "package-lock.json": "{}" },
    file: "list.yaml",
    written: "list: [1",
    formatted: "list: [1",
    complaint: "ERROR [1:",
  },
  { name: "rustfmt", program: "rustfmt", project: {}, file: "main.rs", written: "fn main(){}", formatted: "fn main() {}\n" },
];

/** Starts a model that has the tool calls of `script` made, and keeps what it was sent. */
async function startModel(script) {
  const asked = [];
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk) => (text += chunk));
    request.on("end", () => {
      const body = JSON.parse(text);
      const call = body.tools?.length && body.messages.at(-1).role === "user" ? script.shift() : undefined;
      if (body.tools?.length) asked.push(body);
      response.writeHead(200, { "content-type": "text/event-stream" });
      const say = (delta, finish_reason = null) =>
        response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`);
      if (call) {
        const called = { name: call[0], arguments: JSON.stringify(call[1]) };
        say({ tool_calls: [{ index: 0, id: `call_${asked.length}`, type: "function", function: called }] });
      } else {
        say({ content: "done" });
      }
      say({}, call ? "tool_calls" : "stop");
      response.end("data: [DONE]\n\n");
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { asked, server, url: `http://127.0.0.1:${server.address().port}/v1` };
}

/** Returns the variables of a windlass with a home and a configuration. */
function environment(home, config) {
  const path = [join(here, "node_modules/.bin"), join(here, ".venv/bin"), process.env.PATH].join(delimiter);
  const env = { PATH: path, HOME: home, WINDLASS_TRUST: "1", OPENCODE_CONFIG_CONTENT: JSON.stringify(config) };
  // rustfmt may be a link to what looks for its toolchain below the real home.
  for (const name of ["CARGO_HOME", "RUSTUP_HOME"]) {
    env[name] = process.env[name] ?? join(process.env.HOME, name === "CARGO_HOME" ? ".cargo" : ".rustup");
  }
  return env;
}

/** Starts windlass in a directory, and returns a function that has a method called. */
function startAgent(directory, home, config) {
  const env = environment(home, config);
  const agent = spawn(binary, ["acp"], { cwd: directory, env, stdio: ["pipe", "pipe", "inherit"] });
  const waiting = new Map();
  createInterface({ input: agent.stdout }).on("line", (line) => {
    const { id, result, error } = JSON.parse(line);
    waiting.get(id)?.(error ? Promise.reject(new Error(error.message)) : result);
  });
  let last = 0;
  const call = (method, params) =>
    new Promise((resolve) => {
      waiting.set(++last, resolve);
      agent.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id: last, method, params })}\n`);
    });
  return { agent, call };
}

async function check({ name, program, install, project, file, written, formatted, complaint }) {
  if (program && spawnSync(program, ["--version"]).status !== 0) {
    console.log(`skipped: ${name}: ${program} is not installed`);
    return;
  }
  const scratch = mkdtempSync(join(tmpdir(), "windlass-editing-"));
  const directory = join(scratch, "project");
  mkdirSync(directory);
  spawnSync("git", ["init", "-q"], { cwd: directory });
  for (const [path, text] of Object.entries(project)) {
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    writeFileSync(join(directory, path), text);
  }
  symlinkSync(join(here, "node_modules"), join(directory, "node_modules"));
  const script = [];
  const { asked, server, url } = await startModel(script);
  const models = { m: { name: "M", limit: { context: 100_000, output: 8_000 } } };
  const provider = { npm: "@ai-sdk/openai-compatible", options: { baseURL: url, apiKey: "key" }, models };
  const config = { model: "p/m", small_model: "p/m", provider: { p: provider }, formatter: true, lsp: true, permission: { "*": "allow" } };
  if (install) {
    const { status, stderr } = spawnSync(binary, ["lsp", "install", install], { cwd: directory, env: environment(scratch, config) });
    assert.equal(status, 0, `${name}: ${stderr}`);
  }
  const { agent, call } = startAgent(directory, scratch, config);
  try {
    await call("initialize", { protocolVersion: 1, clientCapabilities: {} });
    const { sessionId } = await call("session/new", { cwd: directory, mcpServers: [] });
    const write = async (content) => {
      script.push(["write", { filePath: join(directory, file), content }]);
      await call("session/prompt", { sessionId, prompt: [{ type: "text", text: "go" }] });
      return asked.at(-1).messages.findLast(({ role }) => role === "tool").content;
    };
    let told = await write(written);
    assert.equal(readFileSync(join(directory, file), "utf8"), formatted, `${name}: the file\n${told}`);
    const end = Date.now() + PATIENCE_MS;
    while (complaint && !told.includes(complaint)) {
      assert(Date.now() < end, `${name}: the model was not told of the error\n${told}`);
      // The first changes come before the server is ready.
      told = await write(`${written}${" ".repeat(asked.length)}`);
    }
    console.log(`${name}: ${complaint ? "formatted, and its error told" : "formatted"}`);
  } finally {
    agent.stdin.end();
    await new Promise((resolve) => agent.once("exit", resolve));
    server.close();
    rmSync(scratch, { recursive: true, force: true });
  }
}

for (const language of languages) {
  await check(language);
}
