#!/usr/bin/env python3
"""A small language server over stdio for the tests, on Python's standard library alone.

Modes: good, mute (shakes hands, answers nothing more), dies (ends when it is asked), garbage (prints
something else when it is asked), deaf (answers not even the handshake), broken (ends at once), busy
(refuses the first question of each kind, and knows nothing until the pipe `gate` is written to), stubborn
(ignores every request to end), shell (hovering runs the document as a command line), strict (publishes errors, and
knows the symbols), pull (knows the same and publishes nothing: it answers for the errors of a file that it is asked
for), gated (publishes the same once the pipe `gate` is written to), late (publishes the same a while after a change, and only what is new), sulky (offers that, and never answers it), babbles (publishes nonsense and far too much), meddles (proposes
edits of files that it was told of, and of others).
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
        pulls = {"diagnosticProvider": {"identifier": "toy"}} if MODE in ("pull", "sulky") else {}
        return {"capabilities": {"textDocumentSync": 1, **pulls}}
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
    if method == "textDocument/documentSymbol" and MODE in ("strict", "pull"):
        return symbols(params["textDocument"]["uri"])
    if method == "textDocument/documentSymbol":
        return [{"name": NAME, "kind": 12, "range": span(0, 0, 1), "selectionRange": span(0, 0, 1)}]
    if method == "workspace/symbol" and MODE == "strict":
        return [{"name": found["name"], "kind": 12, "location": {"uri": uri, "range": found["range"]}}
                for uri in TEXTS for found in symbols(uri) if params["query"] in found["name"]]
    if method == "textDocument/diagnostic" and MODE == "pull":
        log({"pulled": params})
        uri = params["textDocument"]["uri"]
        found = [(of, {"kind": "full", "items": items}) for of, items in findings(uri)]
        return {**found[0][1], "relatedDocuments": dict(found[1:])}
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


def symbols(uri):
    """Returns a symbol for each line `fn NAME`, which it begins and the line behind it ends."""
    lines = TEXTS[uri].splitlines()
    named = [(n, line.split()[1]) for n, line in enumerate(lines) if line.startswith("fn ")]
    around = lambda n: {"start": {"line": n, "character": 0}, "end": {"line": n + 1, "character": 1}}
    return [{"name": name, "kind": 12, "range": around(n), "selectionRange": span(n, 3, 4)} for n, name in named]


def findings(uri):
    """Returns an error for each line with the word wrong, a warning for odd ones, and an error in files beside it."""
    lines = TEXTS[uri].splitlines() if MODE in ("strict", "pull", "late", "gated") else []
    found = [{"severity": 1, "range": span(n, 2, 3), "message": f"line {n} is wrong"}
             for n, line in enumerate(lines) if "wrong" in line]
    found += [{"severity": 2, "range": span(n, 0, 1), "message": "is odd"} for n, line in enumerate(lines) if "odd" in line]
    needs = [{"range": span(0, 0, 1), "message": "needs the file beside it"}] if any("wrong" in line for line in lines) else []
    return [(uri, found), *((os.path.dirname(uri) + "/" + name, needs) for name in ("other.toy", "secret.env"))]


def babble(uri):
    """Publishes what no client can use between far too many errors, of this file and of others."""
    nonsense = [None, 7, {}, {"uri": uri}, {"uri": uri, "diagnostics": "many"}, {"uri": 3, "diagnostics": []},
                {"uri": "https://toy.example/a", "diagnostics": [{"message": "elsewhere"}]}]
    for params in nonsense:
        send({"method": "textDocument/publishDiagnostics", "params": params})
    strange = [{"range": "here", "message": {"text": "no"}, "severity": "x"}, None, 3, {"range": {"start": {"line": -1}}}]
    many = [{"range": span(n, 0, 1), "message": "x" * 5000} for n in range(200)]
    for name in [f"beside{n}.toy" for n in range(20)] + [os.path.basename(uri)]:
        beside = os.path.dirname(uri) + "/" + name
        send({"method": "textDocument/publishDiagnostics", "params": {"uri": beside, "diagnostics": strange + many}})


def meddle(uri):
    """Proposes to write into the file and into one outside of the project."""
    outside = "file://" + os.path.join(os.environ["HOME"], "theirs.toy")
    changes = {of: [{"range": span(0, 0, 3), "newText": "MEDDLED"}] for of in (uri, outside)}
    ask("refused", "workspace/applyEdit", {"edit": {"changes": changes}})


def publish(uri):
    if MODE == "babbles":
        return babble(uri)
    for of, found in findings(uri)[:None if MODE in ("strict", "gated") else 1]:
        send({"method": "textDocument/publishDiagnostics", "params": {"uri": of, "diagnostics": found}})


PUBLISHED = {}


def publish_late(uri, text):
    """Publishes what is found in a text, unless it was published before."""
    if TEXTS[uri] == text and PUBLISHED.get(uri, []) != findings(uri)[0][1]:
        PUBLISHED[uri] = findings(uri)[0][1]
        publish(uri)


def publish_gated(uri):
    """Publishes what is found in a text once the pipe has been written to."""
    def wait():
        with open("gate", "rb") as gate:
            gate.read()
        publish(uri)
        log({"published": uri})
    if not os.path.exists("gate"):
        os.mkfifo("gate")
    threading.Thread(target=wait, daemon=True).start()


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
        if MODE == "gated":
            publish_gated(document["uri"])
        elif MODE not in ("pull", "sulky"):
            publish(document["uri"])
    elif method == "textDocument/didChange":
        TEXTS[document["uri"]] = params["contentChanges"][0]["text"]
        log({"change": TEXTS[document["uri"]], "version": document["version"]})
        if MODE in ("strict", "babbles"):
            publish(document["uri"])
        if MODE == "gated":
            publish_gated(document["uri"])
        if MODE == "late":
            threading.Timer(0.4, publish_late, [document["uri"], TEXTS[document["uri"]]]).start()
        if MODE == "meddles":
            meddle(document["uri"])
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
            key = "refused" if message["id"] == "refused" else "answer"
            log({key: message.get("result", message.get("error"))})
            continue
        if "id" not in message:
            told(method, params)
            continue
        if MODE == "deaf":
            continue
        is_question = method not in ("initialize", "shutdown")
        if is_question:
            log({"asked": method})
        if is_question and MODE == "mute" or method == "textDocument/diagnostic" and MODE == "sulky":
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
