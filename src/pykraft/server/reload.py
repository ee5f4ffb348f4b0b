"""How ``pykraft quorum reload`` reaches a node on its own machine: a socket in the node's log directory.

Whoever connects makes the node look at its files, and reads what became of them, as one line of JSON: ``nodeId``, and
``files`` with what they are, their paths, ``state`` and ``problem``. A signal could not say so, and ends a node at a
terminal; a request over the network would need the very certificates that may be at fault.

Invariants: only the user that runs the node, and root, can connect; the socket is there while a node runs that has made
anything from files, and what a killed node left is replaced. A file system without sockets costs a warning only.

Source: ``unix(7)``; ours.
"""

import asyncio
import json
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from pykraft.errors import PykraftError, UsageError
from pykraft.security.files import FileReport
from pykraft.types import NodeId

SOCKET_NAME: Final = ".reload"
ANSWER_TIMEOUT_S: Final = 30.0
_PATH_SIZE_BYTES_MAX: Final = 100
"""A little less than the address of such a socket may have."""
_READ_SIZE_BYTES: Final = 1 << 16

logger = logging.getLogger("pykraft")


class ReloadSocket:
    """Answers until `close`; the directory exists, and no other node has it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        directory: Path,
        node_id: NodeId | None,
        reload: Callable[[], asyncio.Future[list[FileReport]]],
    ) -> None:
        self._loop = loop
        self._directory = directory
        self._node_id = node_id
        self._reload = reload
        self._listening: socket.socket | None = None
        listening = socket.socket(socket.AF_UNIX)
        try:
            with _address(directory) as address:
                address.unlink(missing_ok=True)
                listening.bind(str(address))
                address.chmod(0o600)  # nobody can connect before it listens
            listening.listen()
        except OSError as error:
            listening.close()
            path = directory / SOCKET_NAME
            logger.warning("%s: pykraft quorum reload will not reach this node: %s", path, error.strerror or error)
            return
        listening.settimeout(0)
        loop.add_reader(listening, self._accept)
        self._listening = listening

    def close(self) -> None:
        """Answer no more, and remove the socket."""
        if self._listening is None:
            return
        self._loop.remove_reader(self._listening)
        self._listening.close()
        self._listening = None
        with suppress(OSError):
            (self._directory / SOCKET_NAME).unlink()

    def _accept(self) -> None:
        assert self._listening is not None
        try:
            accepted, _ = self._listening.accept()
        except OSError:  # it has gone away
            return
        accepted.settimeout(0)
        self._reload().add_done_callback(partial(self._answer, accepted))

    def _answer(self, accepted: socket.socket, reports: asyncio.Future[list[FileReport]]) -> None:
        with accepted, suppress(OSError):
            if not reports.cancelled():
                # A few KiB, which the system takes at once.
                accepted.send(answer_line(self._node_id, reports.result()))


def answer_line(node_id: NodeId | None, reports: Sequence[FileReport]) -> bytes:
    """What a node answers."""
    return json.dumps({"nodeId": node_id, "files": [report.as_json() for report in reports]}).encode() + b"\n"


def ask_to_reload(directory: Path, timeout_s: float = ANSWER_TIMEOUT_S) -> dict[str, Any]:
    """Let the node of this log directory look at its files; returns its answer.

    Errors: UsageError if no node with files can be reached there; PykraftError for one that does not answer.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout_s)
        try:
            with _address(directory) as address:
                connection.connect(str(address))
            content = b"".join(iter(lambda: connection.recv(_READ_SIZE_BYTES), b""))
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise UsageError(
                f"{directory}: no node runs here that has certificates, users, rules or credentials in files"
            ) from error
        except TimeoutError as error:
            raise PykraftError(f"{directory}: the node did not answer within {timeout_s:g} seconds") from error
        except OSError as error:
            raise UsageError(f"{directory / SOCKET_NAME}: {error.strerror or error}") from error
    if not content.endswith(b"\n"):
        raise PykraftError(f"{directory}: the node ended before it answered")
    found: dict[str, Any] = json.loads(content)
    return found


@contextmanager
def _address(directory: Path) -> Iterator[Path]:
    """The address of the socket within this block: a path, or one by way of the open directory if that is too long."""
    path = directory / SOCKET_NAME
    if len(os.fsencode(path)) <= _PATH_SIZE_BYTES_MAX:
        yield path
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield Path(f"/proc/self/fd/{descriptor}") / SOCKET_NAME
    finally:
        os.close(descriptor)
