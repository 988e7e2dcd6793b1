"""The Python SDK's client, unmodified, against the real binary: python client.py PATH/TO/windlass

Prints one line per step; ends with 1 on the first deviation.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import acp
from acp import schema

from model import Model

DEADLINE = 60


def step(text):
    print(f"Python client: {text}", flush=True)


def check(actual, expected):
    if actual != expected:
        raise AssertionError(f"{actual!r} is not {expected!r}")


class Client:
    def __init__(self):
        self.updates = []
        self.permissions = []
        self.heard = asyncio.Event()

    def said(self):
        chunks = [update for update in self.updates if update.session_update == "agent_message_chunk"]
        return "".join(chunk.content.text for chunk in chunks)

    async def session_update(self, session_id, update, **_):
        self.updates.append(update)
        self.heard.set()

    async def request_permission(self, session_id, tool_call, options, **_):
        self.permissions.append(tool_call)
        option = next(option for option in options if option.kind == "allow_once")
        outcome = schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    def on_connect(self, conn):
        pass

    async def until(self, holds):
        """Waits for updates; the SDK hands them over beside the answers, not before them."""
        while not holds():
            self.heard.clear()
            await self.heard.wait()


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
    config = {"model": "mock/mock", "permission": {"edit": "ask"}, "windlass": {"file_time": False}, "provider": {"mock": provider}}
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "OPENCODE_CONFIG_CONTENT": json.dumps(config)}
    client = Client()
    async with acp.spawn_agent_process(client, binary, "acp", env=env, cwd=work) as (agent, process):
        initialized = await agent.initialize(protocol_version=1)
        check(initialized.protocol_version, 1)
        step(f"initialize: {initialized.agent_info.name} {initialized.agent_info.version}")

        session = (await agent.new_session(cwd=str(work), mcp_servers=[])).session_id
        step("session/new")

        answer = await agent.prompt(session_id=session, prompt=[acp.text_block("edit it")])
        check(answer.stop_reason, "end_turn")
        check(len(client.permissions), 1)
        diff = next(block for block in client.permissions[0].content if block.type == "diff")
        check((diff.path, diff.old_text, diff.new_text), (str(file), "one\ntwo\n", "one\nzwei\n"))
        check(file.read_text(), "one\nzwei\n")
        check(client.said(), "editingedited")
        step("session/prompt with a permission")

        running = asyncio.create_task(agent.prompt(session_id=session, prompt=[acp.text_block("talk")]))
        await asyncio.to_thread(model.is_hanging.wait, DEADLINE)
        await client.until(lambda: client.said().endswith("for ever"))
        await agent.cancel(session_id=session)
        check((await running).stop_reason, "cancelled")
        step("session/cancel")

        live = client.said()
        client.updates.clear()
        await agent.load_session(session_id=session, cwd=str(work), mcp_servers=[])
        await client.until(lambda: len(client.said()) >= len(live))
        check(client.said(), live)
        check(any(update.session_update == "tool_call" for update in client.updates), True)
        step("session/load")
    model.release.set()
    check(process.returncode, 0)
    step("exit 0")


def main():
    with tempfile.TemporaryDirectory(prefix="windlass-py-") as root:
        try:
            asyncio.run(asyncio.wait_for(conversation(sys.argv[1], Path(root).resolve()), DEADLINE))
        except Exception as error:
            print(f"Python client: {type(error).__name__}: {error}", file=sys.stderr)
            return 1
    return 0


sys.exit(main())
