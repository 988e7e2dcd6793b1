"""Serves a few tools over streamable HTTP on the given port (0 picks one) and prints the port when ready; with `stdio`
in the place of a port, on standard input and output.

With a second argument every request must carry it as `Authorization: Bearer <argument>`.
"""

import asyncio
import socket
import sys

import uvicorn
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("http-tools")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
async def slow(seconds: float, ctx: Context) -> str:
    """Reports progress ten times while it takes its time."""
    for step in range(10):
        await ctx.report_progress(step, 10)
        await asyncio.sleep(seconds / 10)
    return "done"


@server.tool()
async def hang(ctx: Context) -> str:
    """Reports once that it was called, and never returns."""
    await ctx.report_progress(0)
    await asyncio.Event().wait()
    return "unreachable"


def guarded(app, token):
    async def serve(scope, receive, send):
        wanted = f"Bearer {token}".encode()
        if scope["type"] == "http" and dict(scope["headers"]).get(b"authorization") != wanted:
            headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    return serve


def main():
    if sys.argv[1] == "stdio":
        return server.run("stdio")
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(sys.argv[1])))
    # From here on connections queue until the server takes them.
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    app = server.streamable_http_app()
    if len(sys.argv) > 2:
        app = guarded(app, sys.argv[2])
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


main()
