"""The Python MCP SDK's client against `windlass mcp serve`: python mcp_client.py PATH/TO/windlass

Prints one line per step; ends with 1 on the first deviation.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from model import DEADLINE, Model

TOOLS = {
    "start_session",
    "prompt_session",
    "read_session",
    "answer_question",
    "cancel_session",
    "list_sessions",
}


def step(text):
    print(f"Python MCP client: {text}", flush=True)


def check(actual, expected):
    if actual != expected:
        raise AssertionError(f"{actual!r} is not {expected!r}")


async def conversation(binary, root):
    home, work = root / "home", root / "work"
    home.mkdir()
    work.mkdir()
    file = work / "a.txt"
    file.write_text("one\ntwo\n")
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    edit = {"filePath": str(file), "oldString": "two", "newString": "zwei"}
    model = Model(
        [
            {"text": "editing", "call": {"name": "edit", "arguments": json.dumps(edit)}},
            {"text": "edited"},
            {"text": "for ever", "hangs": True},
        ]
    )
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": model.url, "apiKey": "test"},
        "models": {"mock": {"limit": {"context": 200000, "output": 8192}}},
    }
    config = {
        "model": "mock/mock",
        "permission": {"edit": "ask"},
        "windlass": {"file_time": False},
        "provider": {"mock": provider},
    }
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "OPENCODE_CONFIG_CONTENT": json.dumps(config)}
    server = StdioServerParameters(command=binary, args=["mcp", "serve"], env=env, cwd=work)
    heard = []

    async def on_progress(progress, total, message):
        heard.append(message)

    async with stdio_client(server) as pipes, ClientSession(*pipes) as client:
        initialized = await client.initialize()
        step(f"initialize: {initialized.server_info.name} {initialized.server_info.version}")

        check({tool.name for tool in (await client.list_tools()).tools}, TOOLS)
        step("tools/list")

        async def call(name, **arguments):
            result = await client.call_tool(name, arguments, progress_callback=on_progress)
            if result.is_error:
                raise AssertionError(result)
            return result.structured_content

        told = await call("start_session", prompt="edit it")
        check(told["state"], "waiting")
        [question] = told["questions"]
        check((question["kind"], question["permission"], file.read_text()), ("permission", "edit", "one\ntwo\n"))
        step("start_session: waits for a permission")

        session = {"session_id": told["session_id"]}
        told = await call("answer_question", **session, question_id=question["id"], answer="once")
        check((told["state"], told["answer"], file.read_text()), ("done", "edited", "one\nzwei\n"))
        step("answer_question: done")

        told = await call("prompt_session", **session, prompt="go on", wait_seconds=0.2)
        check(told["state"], "running")
        told = await call("cancel_session", **session)
        check(told["state"], "cancelled")
        step("prompt_session and cancel_session")

        listed = await call("list_sessions")
        check([it["session_id"] for it in listed["sessions"]], [told["session_id"]])
        step(f"list_sessions, after {len(heard)} signs of progress")
    model.release.set()


def main():
    with tempfile.TemporaryDirectory() as root:
        asyncio.run(asyncio.wait_for(conversation(sys.argv[1], Path(root)), DEADLINE))


main()
