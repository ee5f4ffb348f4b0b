"""Clients that abuse a node: connections that stay silent, and readers that request everything and read nothing.

Nothing ever reads from their sockets. Invariant: creating them takes no time and waits for nothing, so a frozen or full
node does not delay the faults. How a node handles them is its own business.

Source: KIP-595 §Fetch; the reader is an observer without an id.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from pykraft.local.ports import HOST
from pykraft.local.voters import PARTITION
from pykraft.protocol.api import encode_request
from pykraft.protocol.frame import frame
from pykraft.protocol.messages import ApiKey

FETCHES_PER_READER: Final = 8
"""Pipelined; the answer to each may be the whole log."""
FETCH_VERSION: Final = 12
"""The last version that names its topic."""
RECEIVE_BUFFER_BYTES: Final = 4096
MAX_BYTES: Final = 2**31 - 1


class Crowd:
    """Connections to one node, open until `close` is called."""

    def __init__(self, port: int, count: int, words: bytes = b"") -> None:
        """Each of ``count`` connections sends ``words``, if there are any, and stays silent from then on."""
        self._sockets = [_connecting(port) for _ in range(count)]
        if words:
            _say(self._sockets, words)

    def close(self) -> None:
        """Close all of them at once."""
        for each in self._sockets:
            each.close()


def greedy_words() -> bytes:
    """A reader's requests: Fetches from offset 0 on, without a bound on the size of the answer."""
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
    """On the loopback interface a connection is made at once, or the node refuses it."""
    for each in connecting:
        with suppress(OSError):
            each.send(words)
