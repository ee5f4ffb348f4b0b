"""A web server with answers of the test: a node of the service, or something else that listens at its address."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

Answer: TypeAlias = tuple[int, Any] | Sequence[dict[str, Any]] | None
"""A status and a body, which is JSON unless it is bytes; lines; or None: the connection is closed."""
Script: TypeAlias = Callable[[str, dict[str, Any]], Answer]
"""Gets path and body of a request."""


class ScriptedNode(ThreadingHTTPServer):
    """Answers by its script, and remembers what was asked."""

    daemon_threads = True

    def __init__(self, script: Script, demands: str | None) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.script = script
        self.demands = demands
        self.asked: list[tuple[str, dict[str, Any]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Request(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        node = self.server
        assert isinstance(node, ScriptedNode)
        body = json.loads(self.rfile.read(int(self.headers["content-length"] or 0)) or b"{}")
        answer: Answer
        if node.demands is not None and self.headers["authorization"] != node.demands:
            answer = 401, b"<html>Authorization Required</html>"
        else:
            node.asked.append((self.path, body))
            answer = node.script(self.path, body)
        if answer is None:
            return
        if isinstance(answer, tuple):
            status, content = answer
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
        else:
            status, data = 200, b"".join(json.dumps(line).encode() + b"\n" for line in answer)
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def scripted(script: Script, demands: str | None = None) -> Iterator[ScriptedNode]:
    """``demands`` is the only Authorization that it accepts, as a proxy in front of a node does."""
    with ScriptedNode(script, demands) as node:
        thread = threading.Thread(target=lambda: node.serve_forever(0.01))
        thread.start()
        try:
            yield node
        finally:
            node.shutdown()
            thread.join()


def error(code: str, outcome: str = "not applied", **more: Any) -> dict[str, Any]:
    return {"error": {"code": code, "outcome": outcome, "message": f"it is {code}", **more}}
