#!/usr/bin/env python3
"""A small MCP server over the older transport of remote servers, on Python's standard library alone.

Prints its port. With an argument, every request must carry it as `Authorization: Bearer <argument>`.
"""

import json
import queue
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = sys.argv[1] if len(sys.argv) > 1 else None
TOOL = {"name": "price", "description": "The price of an item.",
        "inputSchema": {"type": "object", "properties": {"item": {"type": "string"}}}}
LONG = [{"name": name, "inputSchema": {"type": "object"}} for name in ("long", "refused", "excused")]
answers = queue.Queue()


def answer(request):
    method, params = request["method"], request.get("params") or {}
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "old", "version": "1"}}
    if method == "tools/list":
        return {"tools": [TOOL] + LONG}
    if method == "tools/call" and params["name"] == "long":
        words = "first line\n" + "x" * 20_000_000
        return {"content": [{"type": "text", "text": words}]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": f"{params['arguments']['item']} costs 4"}]}
    return {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def refused(self):
        if TOKEN and self.headers.get("authorization") != f"Bearer {TOKEN}":
            self.status(401)
            return True
        return False

    def status(self, status, body=""):
        self.send_response(status)
        self.send_header("content-type", "application/json" if body else "text/plain")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_GET(self):
        if self.refused():
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("connection", "close")
        self.end_headers()
        self.event("endpoint", "/messages?session=7")
        while True:
            # A message may come in several lines.
            self.event("message", json.dumps(answers.get(), indent=1))

    def event(self, name, data):
        lines = "".join(f"data: {line}\n" for line in data.split("\n"))
        self.wfile.write(f"event: {name}\n{lines}\n".encode())
        self.wfile.flush()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path != "/messages?session=7":
            return self.status(405)
        if self.refused():
            return
        request = json.loads(body)
        if request["method"] == "tools/call" and request["params"]["name"] in ("refused", "excused"):
            error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "there is no tea"}}
            return self.status(400 if request["params"]["name"] == "refused" else 200, json.dumps(error))
        self.status(202)
        if "id" in request and "method" in request:
            answers.put({"jsonrpc": "2.0", "id": request["id"], "result": answer(request)})


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
