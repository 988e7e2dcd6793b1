#!/usr/bin/env node
// Starts windlass from the package of this platform, which npm has installed beside this one.
"use strict";

const { spawn } = require("child_process");
const os = require("os");

function isMusl() {
  const report = process.report && process.report.getReport();
  return process.platform === "linux" && !(report && report.header && report.header.glibcVersionRuntime);
}

function program() {
  const name = `windlass-${process.platform}-${process.arch}`;
  const names = process.platform === "linux" && isMusl() ? [`${name}-musl`] : [name];
  for (const it of names) {
    try {
      return require.resolve(`${it}/bin/windlass`);
    } catch {}
  }
  console.error(
    `windlass: there is no package ${names[0]} here. Install again without --no-optional (--omit=optional), ` +
      "and on the machine that it is to run on; on other platforms, build it from source."
  );
  process.exit(1);
}

const path = program();
const args = process.argv.slice(2);

// One process takes the place of the other, where Node can do that.
if (typeof process.execve === "function" && process.platform !== "win32") {
  process.execve(path, [path, ...args], process.env);
}

const child = spawn(path, args, { stdio: "inherit" });
const passed = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT"];
for (const signal of passed) {
  // A terminal sends its signals to both.
  const isOfTerminal = ["SIGINT", "SIGQUIT", "SIGWINCH"].includes(signal) && process.stdin.isTTY;
  process.on(signal, () => isOfTerminal || child.kill(signal));
}
child.on("error", (error) => {
  console.error(`windlass: ${path} cannot be started: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  process.exit(signal ? 128 + os.constants.signals[signal] : code);
});
