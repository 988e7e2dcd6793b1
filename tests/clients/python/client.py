"""The Python SDK's client, unmodified, against the real binary: python client.py PATH/TO/windlass

Prints one line per step; ends with 1 on the first deviation.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import acp
from acp import schema

DEADLINE = 60


def step(text):
    print(f"Python client: {text}", flush=True)


def check(actual, expected):
    if actual != expected:
        raise AssertionError(f"{actual!r} is not {expected!r}")


class Model:
    """A scripted model: each request with tools takes the next answer."""

    def __init__(self, answers):
        self.answers = list(answers)
        self.is_hanging = threading.Event()
        self.release = threading.Event()
        model = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                answer = model.answers.pop(0) if body.get("tools") else {"text": "Title"}
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                self.send({"role": "assistant", "content": answer["text"]})
                if answer.get("hangs"):
                    model.is_hanging.set()
                    model.release.wait(DEADLINE)
                    return
                call = answer.get("call")
                if call:
                    call = {"index": 0, "id": "call_1", "type": "function", "function": call}
                    self.send({"tool_calls": [call]})
                self.send({}, "tool_calls" if call else "stop")
                self.wfile.write(b"data: [DONE]\n\n")

            def send(self, delta, finish=None):
                choice = {"index": 0, "delta": delta, "finish_reason": finish}
                chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "mock"}
                self.wfile.write(b"data: " + json.dumps({**chunk, "choices": [choice]}).encode() + b"\n\n")
                self.wfile.flush()

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}/v1"


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
