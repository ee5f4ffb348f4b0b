"""The unsent bytes in the kernel's queue, on systems that report them."""

from __future__ import annotations

import asyncio
import socket
import sys

import pytest

from pykraft.server.socket_queue import unconfirmed_size_bytes


class Transport(asyncio.BaseTransport):
    """Has this socket."""

    def __init__(self, raw: socket.socket | None) -> None:
        super().__init__({"socket": raw})


def test_bytes_that_nobody_reads_stay_in_the_queue() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
        far, _ = listening.accept()
        with near, far:
            near.setblocking(False)
            sent_bytes = 0
            try:
                while True:
                    sent_bytes += near.send(bytes(65_536))
            except BlockingIOError:
                pass
            left_bytes = unconfirmed_size_bytes(Transport(near))
            assert (0 < left_bytes <= sent_bytes) is sys.platform.startswith("linux")
        assert unconfirmed_size_bytes(Transport(near)) == 0, "closed meanwhile"


def test_where_there_is_no_socket_or_no_linux_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unconfirmed_size_bytes(Transport(None)) == 0
    with socket.socket() as raw:
        monkeypatch.setattr(sys, "platform", "darwin")
        assert unconfirmed_size_bytes(Transport(raw)) == 0
