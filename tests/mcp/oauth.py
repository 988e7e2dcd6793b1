#!/usr/bin/env python3
"""A remote MCP server behind OAuth for the tests, with its own authorization server, on Python's standard library alone.

Modes: good, secret (clients get a secret, and must show it), brief (tokens end at once, and each renewal's token is good once), foreign (takes none of the tokens that it gives, as one made for others), ended (tokens end at once and are not renewed), closed (registers nobody; knows the client `known`), deny (the user refuses), loose (answers nearly in the form of the standard; loose_brief does so, and tokens end at once), form (answers as a form), pointer (its metadata are where a refusal says, which names a scope, and tokens end at once), legacy (no metadata at all, and pages at the known places), wider (calls need a scope more, which a refusal names, and tokens end at once), document (knows clients by the documents that describe them), program (gives tokens to the program `robot` with its secret `s3cret` or a signed statement, and they end at once), open (wants no login, and knows none). Prints its port, and on /log
the requests for tokens so far; /revoke ends all logins.
"""

import base64
import hashlib
import json
import sys
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODE = sys.argv[1]
CODES = {}
STATE = {"n": 0, "access": set(), "refresh": None, "log": [], "secrets": {}, "scope": ""}
TOOL = {"name": "price", "description": "The price of an item.", "inputSchema": {"type": "object", "properties": {}}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    @property
    def base(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def issuer(self):
        return self.base + "/login" if MODE == "pointer" else self.base

    def answer(self, status, body=None, form=None, **headers):
        data = b"" if body is None else json.dumps(body).encode()
        if form is not None:
            data = urllib.parse.urlencode(form).encode()
            headers["content_type"] = "application/x-www-form-urlencoded"
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if body is not None:
            self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if url.path == "/log":
            return self.answer(200, STATE["log"])
        if url.path == "/revoke":
            STATE["access"].clear()
            STATE["refresh"] = "revoked"
            return self.answer(200, {})
        if url.path == "/elsewhere" and MODE == "pointer":
            return self.answer(200, {"resource": f"{self.base}/mcp", "authorization_servers": [self.issuer]})
        if MODE == "legacy" and url.path.startswith("/.well-known"):
            return self.answer(404)
        if MODE == "pointer" and url.path == "/.well-known/oauth-authorization-server/login":
            url = url._replace(path="/.well-known/oauth-authorization-server")
        elif MODE == "pointer" and url.path.startswith("/.well-known"):
            return self.answer(404)
        if MODE == "open" or url.path == "/mcp":
            return self.answer(405 if url.path == "/mcp" else 404)
        if url.path.startswith("/.well-known/oauth-protected-resource"):
            return self.answer(200, {"resource": f"{self.base}/mcp", "authorization_servers": [self.base]})
        if url.path == "/.well-known/oauth-authorization-server":
            metadata = {
                "issuer": self.issuer, "authorization_endpoint": f"{self.base}/authorize",
                "token_endpoint": f"{self.issuer}/token", "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
            }
            if MODE == "document":
                metadata["client_id_metadata_document_supported"] = True
            if MODE not in ("closed", "document"):
                metadata["registration_endpoint"] = f"{self.base}/register"
            return self.answer(200, metadata)
        if url.path == "/authorize":
            back = {"state": query["state"]}
            if MODE != "legacy":
                back["iss"] = self.issuer
            if MODE == "deny":
                back.update(error="access_denied", error_description="The user said no.")
            else:
                back["code"] = f"code-{len(CODES)}"
                CODES[back["code"]] = query
            return self.answer(302, location=query["redirect_uri"] + "?" + urllib.parse.urlencode(back))
        return self.answer(404)

    def do_DELETE(self):
        self.answer(200)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path == "/register" and MODE != "closed":
            asked = json.loads(body)
            client = {"client_id": "registered", "redirect_uris": asked["redirect_uris"]}
            if MODE.startswith("loose"):
                del client["redirect_uris"]
            if MODE == "secret":
                client["client_secret"] = STATE["secrets"]["registered"] = "s3cret"
            return self.answer(201, client)
        if self.issuer + "/token" == self.base + self.path:
            return self.token(dict(urllib.parse.parse_qsl(body.decode())))
        if self.path == "/mcp":
            token = (self.headers.get("authorization") or "").removeprefix("Bearer ")
            if MODE != "open" and token not in STATE["access"]:
                if MODE == "legacy":
                    return self.answer(401, {})
                if MODE == "pointer":
                    return self.answer(401, {}, WWW_Authenticate=f'Bearer resource_metadata="{self.base}/elsewhere", scope="prices"')
                metadata = f"{self.base}/.well-known/oauth-protected-resource/mcp"
                return self.answer(401, {}, WWW_Authenticate=f'Bearer resource_metadata="{metadata}"')
            if MODE == "wider" and b"tools/call" in body and "write" not in STATE["scope"].split():
                return self.answer(403, {}, WWW_Authenticate='Bearer error="insufficient_scope", scope="write"')
            return self.rpc(json.loads(body))
        return self.answer(404)

    def token(self, fields):
        given = fields.get("client_secret")
        if (self.headers.get("authorization") or "").startswith("Basic "):
            pair = base64.b64decode(self.headers["authorization"].removeprefix("Basic ")).decode()
            fields.setdefault("client_id", pair.split(":")[0])
            given = pair.split(":")[1]
        kind = fields["grant_type"]
        if MODE == "program":
            shown = json.loads(base64.urlsafe_b64decode(fields["client_assertion"].split(".")[1] + "==")) if "client_assertion" in fields else {}
            STATE["log"].append({"kind": kind, "client": fields.get("client_id"), "resource": fields.get("resource"), "scope": fields.get("scope"), "shown": shown})
            is_robot = (fields.get("client_id"), given) == ("robot", "s3cret") or shown.get("sub") == "robot"
            if kind != "client_credentials" or not is_robot:
                return self.answer(401, {"error": "invalid_client"})
            STATE["n"] += 1
            STATE["access"] = {f"access-{STATE['n']}"}
            return self.answer(200, {"access_token": f"access-{STATE['n']}", "token_type": "Bearer", "expires_in": 1})
        STATE["log"].append({"kind": kind, "client": fields.get("client_id"), "resource": fields.get("resource")})
        refused = STATE["secrets"].get("registered") != given and MODE == "secret"
        if kind == "authorization_code":
            asked = CODES.pop(fields["code"], None)
            digest = hashlib.sha256(fields["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            refused |= not asked or asked["code_challenge"] != challenge
            STATE["scope"] = (asked or {}).get("scope", "")
            STATE["log"][-1]["scope"] = STATE["scope"]
        else:
            refused |= fields["refresh_token"] != STATE["refresh"] or MODE == "ended"
        if refused:
            return self.answer(400, {"error": "invalid_grant", "error_description": "It does not fit."})
        STATE["n"] += 1
        access = f"access-{STATE['n']}"
        STATE["access"] = set() if MODE == "foreign" else {access}
        STATE["refresh"] = f"refresh-{STATE['n']}"
        life = 1 if MODE in ("brief", "loose_brief", "ended", "pointer", "wider") else 3600
        if MODE.startswith("loose"):
            return self.answer(200, {
                "access_token": access, "expires_in": str(life), "refresh_token": STATE["refresh"], "scope": ["a"],
            })
        if MODE == "form":
            return self.answer(200, form={"access_token": access, "expires_in": life, "token_type": "bearer"})
        return self.answer(200, {
            "access_token": access, "token_type": "Bearer", "expires_in": life, "refresh_token": STATE["refresh"],
        })

    def rpc(self, call):
        if "id" not in call:
            return self.answer(202)
        method = call["method"]
        if method == "initialize":
            result = {
                "protocolVersion": call["params"]["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "guarded", "version": "1"},
            }
        elif method == "tools/list":
            result = {"tools": [TOOL]}
        elif method == "tools/call":
            result = {"content": [{"type": "text", "text": "it costs 3"}]}
        else:
            return self.answer(200, {"jsonrpc": "2.0", "id": call["id"], "error": {"code": -32601, "message": "unknown"}})
        return self.answer(200, {"jsonrpc": "2.0", "id": call["id"], "result": result})


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
