#!/usr/bin/env python3
"""A small MCP server over stdio for the tests, on Python's standard library alone.

Modes: good (three tools), odd (more of them, with strange ids and endless notices around each answer), slow (takes
half a second to start, the first time that it is started in its directory), once (hangs whenever it was started in its directory before), shell (a tool more, which runs a command line), prompts (the same tools and prompts), wishes (tools more, which ask the user and the model), docs (the same and resources), silent (resources, of which nothing is ever answered), deaf
(says that it has resources, and knows no such method), many (forty tools with long definitions), hang (reads and never answers), crash (exits at once).
"""

import base64
import json
import os
import subprocess
import sys
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else "good"

TOOLS = [
    {
        "name": "price",
        "description": "The price of an item.",
        "inputSchema": {
            "type": "object",
            "properties": {"item": {"type": "string"}},
            "required": ["item"],
        },
    },
    {"name": "fail", "description": "Always fails.", "inputSchema": {"type": "object", "properties": {}}},
    {"name": "wait", "description": "Never answers.", "inputSchema": {"type": "object", "properties": {}}},
]

if MODE == "shell":
    TOOLS.append({"name": "run", "description": "Runs a command line.", "inputSchema": {
        "type": "object", "properties": {"command": {"type": "string"}}}})

if MODE == "prompts":
    TOOLS.append({"name": "learn", "description": "Learns a prompt.", "inputSchema": {"type": "object"}})

if MODE == "wishes":
    TOOLS += [{"name": name, "inputSchema": {"type": "object"}} for name in ("form", "page", "sample", "secret", "passwords", "roots", "moved")]

if MODE in ("odd", "slow", "once"):
    TOOLS += [{"name": name, "inputSchema": {"type": "object"}} for name in ("die", "long", "steps", "wrong")]

if MODE == "many":
    FIELDS = {name: {"type": "string", "description": f"The {name} that is meant, as the service shows it."}
              for name in ("account", "project", "label", "since", "until", "order")}
    TOOLS = [
        {"name": f"{verb}_{noun}", "description": f"{verb.capitalize()} a {noun} of the team's workspace. " + "Fields that are left out stay as they are. " * 4,
         "inputSchema": {"type": "object", "properties": FIELDS, "required": ["account"]}}
        for verb in ("create", "find", "update", "remove", "share")
        for noun in ("invoice", "calendar", "ticket", "contract", "letter", "picture", "budget", "holiday")
    ]

LEARNT = []

# Two to a page.
RESOURCES = [
    {"uri": "docs://guide", "name": "guide", "title": "The guide", "mimeType": "text/markdown", "size": 7},
    {"uri": "docs://logo", "name": "logo", "mimeType": "image/png"},
    {"uri": "docs://archive", "name": "archive", "description": "All of it.", "icons": [{"src": "data:,x"}]},
    {"name": "malformed"},
    {"uri": "file:///srv/.env", "name": "settings"},
]
TEMPLATES = [{"uriTemplate": "docs://pages/{name}", "name": "page", "mimeType": "text/plain"}]
PNG = base64.b64encode(b"\x89PNG").decode()


def page(key, entries, params):
    start = int(params.get("cursor") or 0)
    found = {key: entries[start : start + 2]}
    if start + 2 < len(entries):
        found["nextCursor"] = str(start + 2)
    return found


def read(uri):
    def content(**fields):
        return {"contents": [{"uri": uri, **fields}]}

    if uri == "docs://guide":
        return content(mimeType="text/markdown", text="# Guide")
    if uri == "docs://logo":
        return {"contents": [{"uri": uri, "mimeType": "image/png", "blob": PNG}, {"uri": uri + "#alt", "text": "a logo"}]}
    if uri == "docs://archive":
        return content(mimeType="application/zip", blob="UEsDBA==")
    if uri == "docs://large":
        return content(mimeType="application/pdf", blob="AAAA" * (11 * 1024 * 1024 // 3))
    if uri == "docs://broken":
        return content(mimeType="image/png", blob="?")
    if uri == "docs://long":
        return content(text="\n".join(f"line {number}" for number in range(3000)))
    if uri == "docs://empty":
        return {"contents": []}
    if uri == "docs://odd":
        return content(mimeType="text/plain")
    if uri == "docs://grow":
        RESOURCES.append({"uri": "docs://grown", "name": "grown"})
        send({"method": "notifications/resources/list_changed"})
        return content(text="grew")
    if uri == "docs://die":
        sys.exit(3)
    if uri.startswith("docs://pages/") or uri.startswith("file:"):
        return content(text=f"this is {uri}")
    return None


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def ask(method, params):
    send({"id": f"mine-{method}", "method": method, "params": params})
    for line in sys.stdin:
        reply = json.loads(line)
        if reply.get("id") == f"mine-{method}":
            return reply.get("result") or reply.get("error")


def text(words, is_error=False):
    return {"content": [{"type": "text", "text": words}], "isError": is_error}


def call(params):
    name, arguments = params["name"], params.get("arguments") or {}
    if name == "price":
        return text(f"{arguments['item']} costs 3, shop is {os.environ.get('SHOP', 'unknown')}")
    if MODE == "many":
        return text(f"{name} is done for {arguments.get('account')}")
    if name == "fail":
        return text("out of stock", True)
    if name == "die":
        sys.exit(3)
    if name == "long":
        return text("first line\n" + "x" * 20_000_000)
    if name == "wrong":
        return {"content": 7}
    if name == "steps":
        for step in range(3):
            send({"method": "notifications/progress", "params": {
                "progressToken": params["_meta"]["progressToken"], "progress": step, "total": 3, "message": "wrapping"}})
            time.sleep(0.2)
        return text("wrapped")
    if name == "form":
        properties = {"size": {"type": "integer", "maximum": 9}, "color": {"type": "string", "enum": ["red", "green"]}}
        schema = {"type": "object", "properties": properties, "required": ["size"]}
        return text(json.dumps(ask("elicitation/create", {"message": "Which one?", "requestedSchema": schema})))
    if name == "page":
        page = {"mode": "url", "message": "Pay first.", "url": "https://shop.example/pay", "elicitationId": "e1"}
        answer = ask("elicitation/create", page)
        send({"method": "notifications/elicitation/complete", "params": {"elicitationId": "never"}})
        send({"method": "notifications/elicitation/complete", "params": {"elicitationId": "e1"}})
        return text(json.dumps(answer))
    if name == "secret":
        schema = {"type": "object", "properties": {"apiKey": {"type": "string"}}}
        return text(json.dumps(ask("elicitation/create", {"message": "Your key?", "requestedSchema": schema})))
    if name == "passwords":
        page = {"mode": "url", "message": "Pay.", "url": "https://me:secret@shop.example/", "elicitationId": "e2"}
        return text(json.dumps(ask("elicitation/create", page)))
    if name == "learn":
        LEARNT.append({"name": "learnt", "description": "A new one."})
        send({"method": "notifications/prompts/list_changed"})
        return text("learnt")
    if name == "moved":
        while json.loads(sys.stdin.readline()).get("method") != "notifications/roots/list_changed":
            pass
    if name in ("roots", "moved"):
        return text(json.dumps(ask("roots/list", {})))
    if name == "sample":
        said = [{"role": "user", "content": {"type": "text", "text": "Name a tea."}}]
        return text(json.dumps(ask("sampling/createMessage", {
            "messages": said, "systemPrompt": "You know teas.", "maxTokens": 50})))
    if name == "run":
        done = subprocess.run(arguments["command"], shell=True, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return text(done.stdout)
    return None


def answer(request):
    method, params = request["method"], request.get("params") or {}
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}, "prompts": {"listChanged": True}} if MODE == "prompts" else {"tools": {}} if MODE in ("good", "shell", "odd", "slow", "once", "wishes") else {"tools": {}, "resources": {"listChanged": True}},
            "serverInfo": {"name": "shop", "version": "1"},
            "instructions": os.environ.get("INSTRUCTIONS"),
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(params)
    if method == "ping":
        return {}
    if MODE == "prompts" and method == "prompts/list":
        arguments = [{"name": "who", "required": True}, {"name": "style"}]
        found = [{"name": "greet me", "description": "Greets somebody.", "arguments": arguments}, {"description": "nameless"}, {"name": "plain"}, {"name": "rich"}] + LEARNT
        return page("prompts", found, params)
    if MODE == "prompts" and method == "prompts/get":
        if params["name"] == "rich":
            link = {"type": "resource_link", "uri": "docs://guide", "name": "guide"}
            return {"messages": [
                {"role": "user", "content": {"type": "text", "text": "Look at this."}},
                {"role": "user", "content": {"type": "image", "data": PNG, "mimeType": "image/png"}},
                {"role": "user", "content": {"type": "hologram"}},
                {"role": "assistant", "content": {"type": "text", "text": "I see it."}},
                {"role": "user", "content": link},
            ]}
        asked = params.get("arguments") or {}
        texts = [f"Greet {asked.get('who')} in a {asked.get('style', 'usual')} way.", "Say !`touch ran` and @README.md."]
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}} for text in texts]}
    if MODE == "docs" and method == "resources/list":
        return page("resources", RESOURCES, params)
    if MODE == "docs" and method == "resources/templates/list":
        return page("resourceTemplates", TEMPLATES, params)
    if MODE == "docs" and method == "resources/read":
        return read(params["uri"]) if params["uri"] != "docs://hang" else None
    return None


def main():
    if MODE == "crash":
        print("crashing as told", file=sys.stderr)
        sys.exit(7)
    if MODE == "hang":
        while True:
            time.sleep(3600)
    if MODE in ("slow", "once"):
        is_first = not os.path.exists(f"started-{MODE}")
        open(f"started-{MODE}", "a").close()
        if MODE == "once" and not is_first:
            time.sleep(3600)
        time.sleep(0.5 if MODE == "slow" else 0)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request or "method" not in request:
            continue
        method, result = request["method"], answer(request)
        if MODE == "odd":
            send({"id": 4711, "result": {"content": []}})
            send({"id": "who", "error": {"code": -1, "message": "what"}})
            send({"id": None, "error": {"code": -1, "message": "what"}})
            if method != "initialize":
                for _ in range(50):
                    send({"method": "notifications/tools/list_changed"})
        if result is not None:
            send({"id": request["id"], "result": result})
        elif method == "tools/call" or MODE == "silent" and method.startswith("resources/"):
            continue
        elif method == "resources/read" and MODE == "docs":
            if request["params"]["uri"] != "docs://hang":
                send({"id": request["id"], "error": {"code": -32002, "message": "no such resource"}})
        else:
            send({"id": request["id"], "error": {"code": -32601, "message": "method not found"}})


main()
