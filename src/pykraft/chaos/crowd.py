"""Clients that a node could do without: connections that say nothing, and readers that ask for all and read nothing.

Owns their sockets, which are never read from. Invariant: making them takes no time and waits for nobody, so that a node
that is frozen or full does not hold up what is done to it. It refuses to know what a node does about them.

Source: KIP-595 §Fetch; the reader is an observer without an id.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from pykraft.local.ports import HOST
from pykraft.local.voters import PARTITION
from pykraft.protocol.api import encode_request
from pykraft.protocol.frame import frame
from pykraft.protocol.messages import ApiKey

FETCHES_PER_READER: Final = 8
"""Pipelined; each may be answered with the whole log."""
FETCH_VERSION: Final = 12
"""The last that names its topic."""
RECEIVE_BUFFER_BYTES: Final = 4096
MAX_BYTES: Final = 2**31 - 1


class Crowd:
    """Connections to one node, open until the block ends or `close`."""

    def __init__(self, port: int, count: int, words: bytes = b"") -> None:
        """Each of ``count`` connections sends these words, if any, and is silent from then on."""
        self._sockets = [_connecting(port) for _ in range(count)]
        if words:
            _say(self._sockets, words)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """They go away, all at once."""
        for each in self._sockets:
            each.close()


def greedy_words() -> bytes:
    """What a reader asks for: Fetches from offset 0 on, with no bound on what comes."""
    topic, _, partition = PARTITION.rpartition("-")
    asked = {
        "partition": int(partition),
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": MAX_BYTES,
    }
    body = {
        "cluster_id": None,
        "replica_id": -1,
        "max_wait_ms": 500,
        "min_bytes": 0,
        "max_bytes": MAX_BYTES,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [asked]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    requests = [
        b"".join(frame(encode_request(ApiKey.FETCH, FETCH_VERSION, number, "silent-reader", body)))
        for number in range(FETCHES_PER_READER)
    ]
    return b"".join(requests)


def _connecting(port: int) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
    made.settimeout(0)
    made.connect_ex((HOST, port))
    return made


def _say(connecting: Iterable[socket.socket], words: bytes) -> None:
    """On the loopback interface a connection is there at once, or the node takes none."""
    for each in connecting:
        with suppress(OSError):
            each.send(words)
