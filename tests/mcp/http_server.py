#!/usr/bin/env python3
"""A small MCP server over streamable HTTP, on Python's standard library alone.

Arguments: the port (0 for a free one, which is printed), and the form of its answers: `json` or `sse`.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, FORM = int(sys.argv[1]), sys.argv[2]
NO_TEA = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "there is no tea"}})
# The ways in which a call fails, by the name of its tool: the status, the type and the body of the answer.
FAILURES = {
    "status_400": (400, "application/json", NO_TEA),
    "status_500": (500, "application/json", NO_TEA),
    "status_200": (200, "application/json", NO_TEA),
    "no_type": (200, "", NO_TEA),
    "event": (200, "text/event-stream", f"data: {NO_TEA}\n\n"),
    "cut_event": (200, "text/event-stream", f"data: {NO_TEA}"),
    "no_event": (200, "text/event-stream", ": nothing\n\n"),
    "words_500": (500, "application/json", '{"detail": "the kettle broke"}'),
    "page": (200, "text/html", "<html><title>Log in</title></html>"),
    "accepted": (202, "", ""),
    "nothing": (200, "", ""),
}
LONG_NAME = "price_" * 12
NAMES = (LONG_NAME, "price", "long", "forget", "forget_400", *FAILURES)
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in NAMES]
sessions = set()
# The status for a session that is not known.
forgotten = [404]


def text(words):
    return {"content": [{"type": "text", "text": words}]}


def call(name):
    if name in ("price", LONG_NAME):
        return text("tea costs 5")
    if name in ("forget", "forget_400"):
        forgotten[0] = 400 if name == "forget_400" else 404
        sessions.clear()
        return text("forgotten")
    return text("first line\n" + "x" * 20_000_000)


def answer(request):
    method, params = request["method"], request.get("params") or {}
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "far", "version": "1"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(params["name"])
    return {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def status(self, status, kind="", body=""):
        self.send_response(status)
        if kind:
            self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_GET(self):
        self.status(405)

    def do_DELETE(self):
        self.status(200)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        session = self.headers.get("mcp-session-id")
        if request["method"] == "initialize":
            session = f"session-{len(sessions) + 1}"
            sessions.add(session)
        elif session not in sessions:
            return self.status(forgotten[0], "application/json", NO_TEA)
        if request["method"] == "tools/call" and request["params"]["name"] in FAILURES:
            return self.status(*FAILURES[request["params"]["name"]])
        if "id" not in request:
            return self.status(202)
        body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answer(request)}).encode()
        if FORM == "sse":
            body = b"id: 1\nevent: message\ndata: " + body + b"\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if FORM == "sse" else "application/json")
        self.send_header("mcp-session-id", session)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
