"""A scripted model in OpenAI's form, for clients of the real binary."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DEADLINE = 60


class Model:
    """A scripted model: each request with tools takes the next answer."""

    def __init__(self, answers):
        self.answers = list(answers)
        self.is_hanging = threading.Event()
        self.release = threading.Event()
        model = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                answer = model.answers.pop(0) if body.get("tools") else {"text": "Title"}
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                self.send({"role": "assistant", "content": answer["text"]})
                if answer.get("hangs"):
                    model.is_hanging.set()
                    model.release.wait(DEADLINE)
                    return
                call = answer.get("call")
                if call:
                    call = {"index": 0, "id": "call_1", "type": "function", "function": call}
                    self.send({"tool_calls": [call]})
                self.send({}, "tool_calls" if call else "stop")
                self.wfile.write(b"data: [DONE]\n\n")

            def send(self, delta, finish=None):
                choice = {"index": 0, "delta": delta, "finish_reason": finish}
                chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "mock"}
                self.wfile.write(b"data: " + json.dumps({**chunk, "choices": [choice]}).encode() + b"\n\n")
                self.wfile.flush()

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}/v1"
