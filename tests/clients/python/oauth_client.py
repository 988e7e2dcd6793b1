"""`windlass mcp auth` and a call at a server that the Python MCP SDK guards: python oauth_client.py PATH/TO/windlass

Prints one line per step; ends with 1 on the first deviation.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
# Seconds that a token holds; it is renewed before it ends.
LIFE = 6


def step(text):
    print(f"Guarded MCP server: {text}", flush=True)


def main():
    server = subprocess.Popen(
        [sys.executable, HERE / "oauth_server.py", str(LIFE)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        port = server.stdout.readline().strip()
        with tempfile.TemporaryDirectory() as root:
            conversation(sys.argv[1], Path(root), f"http://127.0.0.1:{port}/mcp")
        server.terminate()
        renewed = server.stdout.read().count("renewed")
        if not renewed:
            raise AssertionError("no token was renewed")
        step(f"{renewed} renewals")
    finally:
        server.kill()


def conversation(binary, root, url):
    browser = root / "bin" / "xdg-open"
    browser.parent.mkdir()
    browser.write_text('#!/bin/sh\nexec curl -sL "$1"\n')
    browser.chmod(0o755)
    config = {"mcp": {"guarded": {"type": "remote", "url": url}}}
    env = {
        "PATH": f"{browser.parent}:{os.environ['PATH']}",
        "HOME": str(root),
        "OPENCODE_CONFIG_CONTENT": json.dumps(config),
    }

    def run(*arguments):
        return subprocess.run([binary, "mcp", *arguments], cwd=root, env=env, capture_output=True, text=True, timeout=60)

    def status():
        [row] = json.loads(run("list", "--format", "json").stdout)
        return row["status"], len(row["tools"] or [])

    check(status()[0], "needs_auth")
    step("needs_auth")
    login = run("auth", "guarded")
    check((login.returncode, "guarded: connected" in login.stdout), (0, True), login)
    step("mcp auth")
    check(status(), ("connected", 1))
    time.sleep(LIFE)
    check(status(), ("connected", 1))
    step("mcp list, before and behind the token's end")
    check(run("logout", "guarded").returncode, 0)
    check(status()[0], "needs_auth")
    step("mcp logout")


def check(actual, expected, about=""):
    if actual != expected:
        raise AssertionError(f"{actual!r} is not {expected!r}: {about}")


main()
