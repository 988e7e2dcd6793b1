"""A client that openapi-python-client makes of `/doc`, against `windlass serve`: python generated.py PATH/TO/windlass

Prints one line per step; ends with 1 on the first deviation.
"""

import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path



def step(text):
    print(f"Generated client: {text}", flush=True)


def check(is_right, text):
    if not is_right:
        raise AssertionError(text)
    step(text)


def main():
    with tempfile.TemporaryDirectory() as root:
        root = Path(root)
        (root / "work").mkdir()
        server = subprocess.Popen(
            [sys.argv[1], "serve", "--port", "0"],
            cwd=root / "work",
            env={"PATH": os.environ["PATH"], "HOME": str(root), "OPENCODE_DISABLE_MODELS_FETCH": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            url = server.stdout.readline().strip().rsplit(" ", 1)[-1]
            conversation(root, url)
        finally:
            server.terminate()
            server.wait(timeout=20)


def conversation(root, url):
    with urllib.request.urlopen(f"{url}/doc") as answer:
        (root / "doc.json").write_bytes(answer.read())
    n_operations = sum(len(methods) for methods in json.loads((root / "doc.json").read_text())["paths"].values())
    program = Path(sys.executable).parent / "openapi-python-client"
    made = subprocess.run(
        [program, "generate", "--path", root / "doc.json", "--output-path", root / "made", "--meta", "none"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"},
    )
    check(made.returncode == 0, f"made of {n_operations} operations\n{made.stdout[-3000:] if made.returncode else ''}")
    left_out = re.findall(r"WARNING parsing (\w+ \S+) within", made.stdout + made.stderr)
    check(not left_out, f"{len(left_out)} left out {left_out}")

    sys.path.insert(0, str(root))
    api = lambda name: importlib.import_module(f"made.api.default.{name}")
    models = importlib.import_module("made.models")
    client = importlib.import_module("made").Client(base_url=url)
    body = lambda name: getattr(models, name)
    health = api("global_health").sync(client=client)
    check(health.healthy is True, f"version {health.version}")
    create = api("session_create")
    session = create.sync(client=client, body=body("SessionCreateBody").from_dict({"title": "By a machine"}))
    check(session.title == "By a machine", f"session {session.id}")
    shell = body("SessionShellBody").from_dict({"agent": "build", "command": "echo from a shell"})
    message = api("session_shell").sync(session.id, client=client, body=shell)
    check("from a shell" in json.dumps(message.to_dict()), "a shell command, with its output in a part")
    prompt = {"parts": [{"type": "text", "text": "hello"}], "model": {"providerID": "windlass", "modelID": "demo"}, "noReply": True}
    prompt = body("SessionPromptBody").from_dict(prompt)
    message = api("session_prompt").sync(session.id, client=client, body=prompt)
    check(message.info.to_dict()["role"] == "user", "a prompt")
    messages = api("session_messages").sync(session.id, client=client)
    check(len(messages) == 3, "messages")
    agents = api("app_agents").sync(client=client)
    check("build" in [agent.name for agent in agents], "agents")
    gone = api("session_get").sync_detailed("ses_gone", client=client)
    check(gone.status_code == 404 and gone.parsed.name == "NotFoundError", "a session that is not there")


main()
