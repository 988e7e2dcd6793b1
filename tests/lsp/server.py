#!/usr/bin/env python3
"""A small language server over stdio for the tests, on Python's standard library alone.

Modes: good, mute (shakes hands, answers nothing more), dies (ends when it is asked), garbage (prints
something else when it is asked), deaf (answers not even the handshake), broken (ends at once), busy
(refuses the first question of each kind, and knows nothing until the pipe `gate` is written to), stubborn
(ignores every request to end), shell (hovering runs the document as a command line), strict (publishes errors).
What it is told goes to the file that LSP_LOG names, a JSON value a line.
"""

import json
import os
import signal
import subprocess
import sys
import threading

MODE = sys.argv[1] if len(sys.argv) > 1 else "good"
NAME = sys.argv[2] if len(sys.argv) > 2 else "scripted"
TEXTS = {}
REFUSED = set()
IS_WORKING = threading.Event()


def log(value):
    if "LSP_LOG" in os.environ:
        with open(os.environ["LSP_LOG"], "a", encoding="utf-8") as file:
            file.write(json.dumps(value) + "\n")


def read():
    length = 0
    while True:
        line = sys.stdin.buffer.readline()
        if not line:
            sys.exit(0)
        if line in (b"\r\n", b"\n"):
            break
        name, value = line.decode().split(":")
        if name.lower() == "content-length":
            length = int(value)
    return json.loads(sys.stdin.buffer.read(length))


def send(message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    sys.stdout.buffer.flush()


def ask(request_id, method, params):
    send({"id": request_id, "method": method, "params": params})


def span(line, start, end):
    return {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}


def place(params, what):
    position = params["position"]
    return {
        "uri": params["textDocument"]["uri"],
        "range": span(position["line"], position["character"], position["character"] + 1),
        "what": what,
    }


def item(params):
    return {"name": "f", "kind": 12, **place(params, NAME)}


def answer(method, params):
    if method == "initialize":
        log({"initialize": {key: params.get(key) for key in ("rootUri", "initializationOptions", "processId")}})
        return {"capabilities": {"textDocumentSync": 1}}
    if method == "shutdown":
        return None
    if method == "textDocument/hover" and MODE == "shell":
        done = subprocess.run(TEXTS[params["textDocument"]["uri"]], shell=True, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return {"contents": done.stdout}
    if method == "textDocument/hover":
        return {"contents": {"kind": "plaintext", "value": TEXTS[params["textDocument"]["uri"]]}}
    if method in ("textDocument/definition", "textDocument/implementation"):
        found = place(params, method) if TEXTS[params["textDocument"]["uri"]].strip() else None
        if os.path.exists("secret.env"):
            found["uri"] = "file://" + os.path.abspath("secret.env")
        return found
    if method == "textDocument/references":
        found = [place(params, str(params["context"])), None, place(params, "second")]
        if os.path.exists("secret.env"):
            found.append({**found[0], "uri": "file://" + os.path.abspath("secret.env")})
        return found
    if method == "textDocument/documentSymbol":
        return [{"name": NAME, "kind": 12, "range": span(0, 0, 1), "selectionRange": span(0, 0, 1)}]
    if method == "workspace/symbol":
        kinds = [12, 7] * 12
        return [{"name": f"{params['query']}{index}", "kind": kind} for index, kind in enumerate(kinds)]
    if method == "textDocument/prepareCallHierarchy":
        return [item(params), item(params)]
    if method == "callHierarchy/incomingCalls":
        return [{"from": params["item"], "fromRanges": []}]
    return NotImplemented


def progress(kind):
    send({"method": "$/progress", "params": {"token": "reading", "value": {"kind": kind, "title": "reading"}}})


def work():
    with open("gate", "rb") as gate:
        gate.read()
    IS_WORKING.clear()
    progress("end")


def publish(uri):
    """Finds nothing, or in the mode strict an error in each line with the word wrong, and in a file beside it."""
    lines = TEXTS[uri].splitlines() if MODE == "strict" else []
    found = [{"severity": 1, "range": span(n, 2, 3), "message": f"line {n} is wrong"}
             for n, line in enumerate(lines) if "wrong" in line]
    found += [{"severity": 2, "range": span(n, 0, 1), "message": "is odd"} for n, line in enumerate(lines) if "odd" in line]
    send({"method": "textDocument/publishDiagnostics", "params": {"uri": uri, "diagnostics": found}})
    if found:
        other = {"range": span(0, 0, 1), "message": "needs the file beside it"}
        for name in ("other.toy", "secret.env"):
            beside = os.path.dirname(uri) + "/" + name
            send({"method": "textDocument/publishDiagnostics", "params": {"uri": beside, "diagnostics": [other]}})


def told(method, params):
    document = params.get("textDocument", {})
    if method == "textDocument/didOpen":
        TEXTS[document["uri"]] = document["text"]
        if MODE == "busy":
            os.mkfifo("gate")
            IS_WORKING.set()
            progress("begin")
            threading.Thread(target=work, daemon=True).start()
        log({"open": document["text"], "language": document["languageId"]})
        publish(document["uri"])
    elif method == "textDocument/didChange":
        TEXTS[document["uri"]] = params["contentChanges"][0]["text"]
        log({"change": TEXTS[document["uri"]], "version": document["version"]})
        if MODE == "strict":
            publish(document["uri"])
    elif method == "textDocument/didClose":
        log({"close": document["uri"]})
    elif method == "initialized":
        ask("a", "workspace/configuration", {"items": [{"section": "deep.key"}]})
        ask("b", "client/registerCapability", {"registrations": []})
        ask("c", "workspace/workspaceFolders", None)
        ask("d", "workspace/applyEdit", {"edit": {}})
    elif method in ("$/cancelRequest", "workspace/didChangeWatchedFiles", "exit"):
        log({method: params})
    if method == "exit" and MODE != "stubborn":
        sys.exit(0)


def main():
    log({"started": MODE, "pid": os.getpid()})
    if MODE == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if MODE == "broken":
        print("no licence was found", file=sys.stderr)
        sys.exit(3)
    while True:
        message = read()
        method, params = message.get("method"), message.get("params") or {}
        if method is None:
            log({"answer": message.get("result", message.get("error"))})
            continue
        if "id" not in message:
            told(method, params)
            continue
        if MODE == "deaf":
            continue
        is_question = method not in ("initialize", "shutdown")
        if is_question:
            log({"asked": method})
        if is_question and MODE == "mute":
            continue
        if is_question and MODE == "dies":
            print("out of memory", file=sys.stderr)
            sys.exit(9)
        if is_question and MODE == "garbage":
            print("Debug: asked", flush=True)
            continue
        if is_question and MODE == "busy" and not IS_WORKING.is_set() and method not in REFUSED:
            REFUSED.add(method)
            send({"id": message["id"], "error": {"code": -32801, "message": "content modified"}})
            continue
        result = None if is_question and IS_WORKING.is_set() else answer(method, params)
        if result is NotImplemented:
            send({"id": message["id"], "error": {"code": -32601, "message": "no such method"}})
        else:
            send({"id": message["id"], "result": result})


main()
