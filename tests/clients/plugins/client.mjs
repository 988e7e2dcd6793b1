// Real plugins from the registry: each is installed and loaded, and offers its hooks and tools.
// `node client.mjs PATH/TO/windlass [PATH/TO/bun]`

import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

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
  { spec: "opencode-antigravity-auth@1.6.0", hooks: ["auth", "event"], tools: ["google_search"] },
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
  WINDLASS_TRUST: "1",
  XDG_CONFIG_HOME: join(project, ".config"),
  OMO_SEND_ANONYMOUS_TELEMETRY: "0",
};
delete environment.XDG_DATA_HOME;

function configure(plugin, directory = project) {
  writeFileSync(join(directory, "opencode.json"), JSON.stringify({ plugin, windlass: { plugin: { runtime } } }));
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

/** Installing waits for the registry most of the time, so several packages come at once, each from a project of its own. */
const INSTALLED_AT_ONCE = 4;
async function installMissing() {
  const missing = PACKAGES.map((it) => it.spec).reverse();
  const install = async () => {
    for (let spec = missing.pop(); spec; spec = missing.pop()) {
      const directory = mkdtempSync(join(project, "install-"));
      const options = { cwd: directory, env: environment, encoding: "utf8" };
      configure([spec], directory);
      // A list with failures says so by its exit code.
      const listed = await promisify(execFile)(binary, ["plugin", "list"], options).catch((error) => error);
      if (!listed.stdout.includes("is not installed")) continue;
      configure([], directory);
      await promisify(execFile)(binary, ["plugin", "add", spec], options);
    }
  };
  await Promise.all(Array.from({ length: INSTALLED_AT_ONCE }, install));
}

await installMissing();
const isBun = !runtime.endsWith("node");
configure([]);
const rows = [];
for (const { spec, hooks, tools, needsBun } of PACKAGES) {
  configure([spec]);
  const [report] = JSON.parse(windlass("plugin", "list", "--format", "json"));
  rows.push({ spec, ms: report.loadMs, hooks: report.hooks.length, tools: report.tools.length, error: report.error ?? "" });
  if (needsBun && !isBun) {
    assert.match(report.error ?? "", /; it needs Bun$/, `${spec} should need Bun`);
    continue;
  }
  assert.equal(report.error, null, spec);
  assert.equal(report.version, spec.split("@").at(-1), `${spec}: the version`);
  assert.ok(report.hooks.every((it) => !["client", "url", "verifier"].includes(it)), `${spec}: no hooks: ${report.hooks}`);
  for (const hook of hooks) assert.ok(report.hooks.includes(hook), `${spec} has no hook ${hook}: ${report.hooks}`);
  for (const tool of tools) assert.ok(report.tools.includes(tool), `${spec} has no tool ${tool}: ${report.tools}`);
}
console.table(rows);

rmSync(project, { recursive: true, force: true });
