#!/usr/bin/env python3
"""A small MCP server over stdio for the tests, on Python's standard library alone.

Modes: good (three tools), hang (reads and never answers), crash (exits at once).
"""

import json
import os
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


def text(words, is_error=False):
    return {"content": [{"type": "text", "text": words}], "isError": is_error}


def call(params):
    name, arguments = params["name"], params.get("arguments") or {}
    if name == "price":
        return text(f"{arguments['item']} costs 3, shop is {os.environ.get('SHOP', 'unknown')}")
    if name == "fail":
        return text("out of stock", True)
    return None


def answer(request):
    method, params = request["method"], request.get("params") or {}
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "shop", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(params)
    if method == "ping":
        return {}
    return None


def main():
    if MODE == "crash":
        print("crashing as told", file=sys.stderr)
        sys.exit(7)
    if MODE == "hang":
        while True:
            time.sleep(3600)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request or "method" not in request:
            continue
        result = answer(request)
        if result is None and request["method"] == "tools/call":
            continue
        message = {"jsonrpc": "2.0", "id": request["id"]}
        if result is None:
            message["error"] = {"code": -32601, "message": "method not found"}
        else:
            message["result"] = result
        print(json.dumps(message), flush=True)


main()
