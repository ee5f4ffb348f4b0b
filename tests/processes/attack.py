"""What a stranger who reaches a node's port can send it, and how much memory that costs the node.

The sockets here send and never read, or read much later. Tests decide what a node should do about them.
"""

import re
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from pykraft.config import TEST_TOPIC_ID, TEST_TOPIC_NAME
from pykraft.local.voters import HOST
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from tests.kafka.differential.voter import exactly
from tests.processes.wire import framed, request

TIMEOUT_S: Final = 60.0
INT32_MAX: Final = 2**31 - 1


def peak_memory_mib(pid: int) -> float:
    """The most that a process has had in memory so far, and not swapped out."""
    return memory_mib(pid, "VmHWM")


def memory_mib(pid: int, name: str = "VmRSS") -> float:
    """What a process has in memory, and not swapped out."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    found = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None, status
    return int(found[1]) / 1024


@contextmanager
def crowd(port: int, count: int, data: bytes) -> Iterator[Sequence[socket.socket]]:
    """So many connections, each of which has sent ``data``, or what the node took of it, and has read nothing."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_connection((HOST, port), TIMEOUT_S)) for _ in range(count)]
        for each in sockets:
            send(each, data)
        yield sockets


def send(connection: socket.socket, data: bytes) -> None:
    """Send what the node takes of it: it may close before it has read everything."""
    with suppress(OSError):
        connection.sendall(data)


def read_frames(connection: socket.socket, *, count_max: int) -> int:
    """Read so many frames, or until the node closes the connection; how many there were. Errors: TimeoutError."""
    for count in range(count_max):
        try:
            (size_bytes,) = struct.unpack(">i", exactly(connection, 4))
            exactly(connection, size_bytes)
        except ConnectionError:
            return count
    return count_max


def fetch(*, offset: int, epoch: int, last_epoch: int, wait_ms: int) -> bytes:
    """A Fetch of an observer that takes as much as there is."""
    partition = {
        "partition": 0,
        "current_leader_epoch": epoch,
        "fetch_offset": offset,
        "last_fetched_epoch": last_epoch,
        "log_start_offset": -1,
        "partition_max_bytes": INT32_MAX,
    }
    topics: list[dict[str, Any]] = [{"topic_id": TEST_TOPIC_ID, "partitions": [partition]}]
    body: Body = {
        "max_wait_ms": wait_ms,
        "min_bytes": 1,
        "max_bytes": INT32_MAX,
        "isolation_level": 0,
        "topics": topics,
    }
    return framed(request(ApiKey.FETCH, 13, {"replica_id": -1, **body}))


def vote_of_many_topics(size_bytes: int) -> bytes:
    """A Vote of version 0 whose topics, empty ones, fill so many bytes: three for each."""
    body: Body = {"cluster_id": None, "topics": [{"topic_name": "", "partitions": []}]}
    message = request(ApiKey.VOTE, 0, body)
    head, one = message[:-5], message[-4:-1]  # before the count of topics; an element; the tags of all
    count = (size_bytes - len(message)) // len(one)
    return framed(head + _varint(count + 1) + one * count + message[-1:])


def describe_quorum() -> bytes:
    """An ordinary request that every node answers."""
    body = {"topics": [{"topic_name": TEST_TOPIC_NAME, "partitions": [{"partition_index": 0}]}]}
    return framed(request(ApiKey.DESCRIBE_QUORUM, 0, body))


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)
