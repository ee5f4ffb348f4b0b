"""A server with S3's protocol (moto) as a process, and a proxy before it that fails as networks and clouds do.

The client speaks to the proxy only. Invariant: a fault is used up by the first requests that it fits.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import pytest

from pykraft.local.voters import HOST, free_ports
from pykraft.object_storage import files

SECRET: Final = "SECRETsecretSECRET"  # noqa: S105 - it opens nothing; no message may have it
ENDS_WITHIN_S: Final = 30
RUN: Final = "import sys; from moto.server import main; main(sys.argv[1:])"


@dataclass
class Fault:
    """What happens to the next so many requests that it fits."""

    does: Callable[[Handler], object]
    times: int
    fits: Callable[[str, str], bool]
    """Method and target of a request."""


class Proxy:
    """Passes requests on to the server, unless a fault comes first; ``requests`` has method, target and range."""

    def __init__(self, behind: int) -> None:
        self.behind = behind
        self.requests: list[tuple[str, str, str]] = []
        self.signed: list[bool] = []
        self.faults: list[Fault] = []
        self._server = ThreadingHTTPServer((HOST, free_ports(1)[0]), Handler)
        self._server.daemon_threads = True
        Handler.proxies[self._server.server_port] = self
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def endpoint(self) -> str:
        """What AWS_ENDPOINT_URL names."""
        return f"http://{HOST}:{self._server.server_port}"

    def answer(self, status: int, *, times: int = 1, fits: Callable[[str, str], bool] = lambda *_: True) -> None:
        """Answer with this status."""
        self.faults.append(Fault(lambda handler: handler.answer(status), times, fits))

    def cut(self, *, times: int = 1) -> None:
        """Send half of an object, and close the connection."""
        self.faults.append(Fault(lambda handler: handler.pass_on(is_cut=True), times, _is_read))

    def die(self) -> None:
        """Send half of an object, and never listen again."""

        def dies(handler: Handler) -> None:
            self.close()
            handler.pass_on(is_cut=True)

        self.faults.append(Fault(dies, 1, _is_read))

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


def _is_read(method: str, target: str) -> bool:
    return method == "GET" and target.partition("?")[0].endswith(".log")


class Handler(BaseHTTPRequestHandler):
    """Of one request."""

    proxies: Final[dict[int, Proxy]] = {}
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or the body of an answer waits 40 ms for the acknowledgment of its head

    def do_GET(self) -> None:
        proxy = self.proxies[self.connection.getsockname()[1]]
        proxy.requests.append((self.command, self.path, self.headers.get("Range", "")))
        proxy.signed.append("Authorization" in self.headers)
        for fault in proxy.faults:
            if fault.times > 0 and fault.fits(self.command, self.path):
                fault.times -= 1
                fault.does(self)
                return
        self.pass_on()

    do_HEAD = do_PUT = do_DELETE = do_POST = do_GET  # noqa: N815 - the library's names

    def answer(self, status: int) -> None:
        """Refuse it, without the server."""
        self._read_body()
        # A real storage repeats parts of a request in its answer.
        code = "SlowDown" if status == HTTPStatus.SERVICE_UNAVAILABLE else "AccessDenied"
        body = f"<Error><Code>{code}</Code><Message>{self.headers.get('Authorization')} {SECRET}</Message></Error>"
        self._send(status, {}, b"" if self.command == "HEAD" else body.encode())

    def pass_on(self, *, is_cut: bool = False) -> int:
        """Ask the server, and answer as it does, or with half of that; the status."""
        proxy = self.proxies[self.connection.getsockname()[1]]
        connection = http.client.HTTPConnection(HOST, proxy.behind, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "content-length"}
        connection.request(self.command, self.path, body=self._read_body() or None, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        left_out = ("connection", "transfer-encoding", "date", "server")
        self._send(answer.status, {k: v for k, v in answer.getheaders() if k.lower() not in left_out}, body, is_cut)
        return answer.status

    def _read_body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _send(self, status: int, headers: Mapping[str, str], body: bytes, is_cut: bool = False) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "content-length" not in {name.lower() for name in headers}:
            self.send_header("Content-Length", str(len(body)))
        if is_cut:
            body = body[: len(body) // 2]
            self.close_connection = True
            if not body:
                return
        with suppress(BrokenPipeError):  # a client that gave up, or was killed
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Say nothing."""


class Storage:
    """A running server with buckets."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._buckets: set[str] = set()
        self._connection = http.client.HTTPConnection(HOST, port, timeout=60)

    def put(self, uri: str, content: bytes) -> None:
        """Write an object; the bucket is made if it does not exist."""
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        if bucket not in self._buckets:
            self._ask("PUT", f"/{bucket}", b"")
            self._buckets.add(bucket)
        self._ask("PUT", f"/{bucket}/{key}", content)

    def upload(self, folder: Path, uri: str) -> None:
        """Copy all files of a folder."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(f"{uri}/{path.relative_to(folder)}", path.read_bytes())

    def remove(self, uri: str) -> None:
        """Remove an object."""
        self._ask("DELETE", f"/{uri.removeprefix('s3://')}", b"")

    def _ask(self, method: str, target: str, body: bytes) -> None:
        # Without a key the server takes the request for one of a stranger, and objects of others for private.
        signed = (
            "AWS4-HMAC-SHA256 Credential=AKIATEST/20261123/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
        )
        headers = {"Authorization": signed, "Content-Type": "binary/octet-stream", "Content-Length": str(len(body))}
        self._connection.request(method, target, body=body, headers=headers)
        answer = self._connection.getresponse()
        told = answer.read()
        assert answer.status in (200, 204), (method, target, answer.status, told)


@contextmanager
def running() -> Iterator[Storage]:
    """A server that ends with the block."""
    port = free_ports(1)[0]
    words = [sys.executable, "-W", "ignore", "-c", RUN, "-H", HOST, "-p", str(port)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if "Running on" in line:
                    break
            # It logs each request: nobody reads that, and a full pipe would stop it.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            assert process.poll() is None, "moto did not start"
            yield Storage(port)
        finally:
            process.kill()
            process.wait(ENDS_WITHIN_S)


def environment(endpoint: str) -> dict[str, str]:
    """What a client of this server has in its environment."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": f"AKIA{SECRET}",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }


@contextmanager
def proxied(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """What this process's clients speak to; they repeat a request once."""
    made = Proxy(storage.port)
    for name, value in environment(made.endpoint).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(files, "ATTEMPTS_MAX", 2)
    files.forget_stores()
    yield made
    files.forget_stores()
    made.close()
