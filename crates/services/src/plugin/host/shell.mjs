// `$`: Bun's own shell, or the part of it that plugins use on Node.

import { spawn } from "node:child_process";

/** Returns the tag that runs commands in a directory. */
export function shell(directory) {
  if (globalThis.Bun) return Bun.$;
  const defaults = { cwd: directory, env: undefined, throws: true };
  const tag = (strings, ...values) => new Command(line(strings, values), { ...defaults });
  return Object.assign(tag, {
    escape: quoted,
    braces: (text) => expanded(text),
    cwd: (path) => ((defaults.cwd = path ?? directory), tag),
    env: (variables) => ((defaults.env = variables), tag),
    throws: (flag) => ((defaults.throws = flag), tag),
    nothrow: () => ((defaults.throws = false), tag),
  });
}

function line(strings, values) {
  const pieces = strings.raw.map((text, i) => (i < values.length ? text + interpolated(values[i]) : text));
  return pieces.join("");
}

function interpolated(value) {
  if (Array.isArray(value)) return value.map(interpolated).join(" ");
  if (value !== null && typeof value === "object" && "raw" in value) return String(value.raw);
  return quoted(String(value));
}

const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

function expanded(text) {
  const match = /^(.*?)\{([^{}]*)\}(.*)$/s.exec(text);
  return match ? match[2].split(",").flatMap((it) => expanded(match[1] + it + match[3])) : [text];
}

class ShellError extends Error {
  constructor(output) {
    super(`Failed with exit code ${output.exitCode}`);
    Object.assign(this, { exitCode: output.exitCode, stdout: output.stdout, stderr: output.stderr });
  }
}

/** A command that begins when it is awaited. */
class Command {
  #line;
  #settings;
  #promise;

  constructor(line, settings) {
    this.#line = line;
    this.#settings = settings;
  }

  #with(settings) {
    Object.assign(this.#settings, settings);
    return this;
  }

  quiet() {
    return this;
  }
  nothrow() {
    return this.#with({ throws: false });
  }
  throws(flag) {
    return this.#with({ throws: flag });
  }
  cwd(path) {
    return this.#with({ cwd: path });
  }
  env(variables) {
    return this.#with({ env: variables });
  }

  run() {
    this.#promise ??= execute(this.#line, this.#settings);
    return this.#promise;
  }
  then(done, failed) {
    return this.run().then(done, failed);
  }
  catch(failed) {
    return this.run().catch(failed);
  }
  finally(work) {
    return this.run().finally(work);
  }

  async text() {
    return (await this.run()).text();
  }
  async json() {
    return (await this.run()).json();
  }
  async arrayBuffer() {
    return (await this.run()).arrayBuffer();
  }
  async blob() {
    return (await this.run()).blob();
  }
  async *lines() {
    yield* (await this.text()).replace(/\n$/, "").split("\n");
  }
}

function execute(line, { cwd, env, throws }) {
  return new Promise((resolve, reject) => {
    const child = spawn("/bin/sh", ["-c", line], { cwd, env: env ?? process.env, stdio: ["ignore", "pipe", "pipe"] });
    const pieces = { stdout: [], stderr: [] };
    for (const name of ["stdout", "stderr"]) child[name].on("data", (chunk) => pieces[name].push(chunk));
    child.on("error", reject);
    child.on("close", (code, signal) => {
      const stdout = Buffer.concat(pieces.stdout);
      const stderr = Buffer.concat(pieces.stderr);
      const output = {
        stdout,
        stderr,
        exitCode: code ?? (signal ? 128 : 1),
        text: () => stdout.toString(),
        json: () => JSON.parse(stdout.toString()),
        bytes: () => new Uint8Array(stdout),
        arrayBuffer: () => stdout.buffer.slice(stdout.byteOffset, stdout.byteOffset + stdout.length),
        blob: () => new Blob([stdout]),
      };
      if (throws && output.exitCode !== 0) reject(new ShellError(output));
      else resolve(output);
    });
  });
}
