"""Prints a recorded ACP conversation for people: python3 render.py REQUESTS ANSWERS

Ends with 1 when a request failed or was not answered.
"""

import difflib
import json
import sys


def read(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


class Printer:
    def __init__(self):
        self.open = None
        self.calls = {}

    def line(self, text=""):
        """Prints a whole line, after ending the running text."""
        if self.open:
            print()
            self.open = None
        print(text)

    def chunk(self, kind, text):
        if self.open != kind:
            self.line()
            print({"thought": "  (thinking) "}.get(kind, "  "), end="")
            self.open = kind
        print(text.replace("\n", "\n  "), end="")

    def tool(self, update):
        call = self.calls.setdefault(update["toolCallId"], {})
        before = call.get("status")
        call.update({key: value for key, value in update.items() if value is not None})
        if call.get("status") == before or call.get("status") not in ("completed", "failed"):
            return
        mark = "ok" if call["status"] == "completed" else "failed"
        self.line(f"  [{call.get('kind', 'other')}] {call.get('title', '')}: {mark}")
        for block in call.get("content", []):
            if block["type"] == "diff":
                old, new = (block.get("oldText") or "").splitlines(), block["newText"].splitlines()
                for line in list(difflib.unified_diff(old, new, lineterm="", n=1))[2:]:
                    self.line(f"      {line}")
            elif block["type"] == "content" and block["content"]["type"] == "text":
                lines = block["content"]["text"].splitlines()
                for line in lines[:8]:
                    self.line(f"      {line}")
                if len(lines) > 8:
                    self.line(f"      … {len(lines) - 8} more lines")

    def update(self, update):
        kind = update["sessionUpdate"]
        if kind == "agent_message_chunk":
            self.chunk("text", update["content"].get("text", ""))
        elif kind == "agent_thought_chunk":
            self.chunk("thought", update["content"].get("text", ""))
        elif kind in ("tool_call", "tool_call_update"):
            self.tool(update)
        elif kind == "plan":
            for entry in update["entries"]:
                mark = {"completed": "x", "in_progress": "~"}.get(entry["status"], " ")
                self.line(f"  [{mark}] {entry['content']}")


def main():
    requests, answers = read(sys.argv[1]), read(sys.argv[2])
    waiting = {request["id"]: request for request in requests}
    prompts = [request for request in requests if request["method"] == "session/prompt"]
    printer = Printer()
    status = 0

    def announce():
        if prompts:
            printer.line()
            printer.line("> " + prompts[0]["params"]["prompt"][0]["text"])

    for message in answers:
        if message.get("method") == "session/update":
            printer.update(message["params"]["update"])
        elif message.get("id") in waiting and "method" not in message:
            request = waiting.pop(message["id"])
            if "error" in message:
                printer.line(f"{request['method']} failed: {message['error']['message']}")
                status = 1
            elif request["method"] == "initialize":
                agent = message["result"]["agentInfo"]
                printer.line(f"{agent['name']} {agent['version']}")
            elif request["method"] == "session/new":
                printer.line(f"session {message['result']['sessionId']}")
                announce()
            elif request["method"] == "session/prompt":
                printer.line(f"  ({message['result']['stopReason']})")
                prompts.pop(0)
                announce()
    for request in waiting.values():
        printer.line(f"{request['method']} was not answered")
        status = 1
    return status


sys.exit(main())
