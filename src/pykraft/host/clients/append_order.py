"""Keeps the batches of one connection in their order while some of them are checked elsewhere or wait for their place.

Large batches are checked on the bulk lane, small ones at once; without this a small batch would overtake a large one,
and its producer would be told that it is out of order. A batch also waits while an earlier one of the same producer
has no place in the log yet: the core may still reject that one, and the log would have a gap. Invariant: batches of a
connection go on one by one, in the order in which they came; connections do not wait for each other's checks.

Source: Kafka handles one request of a connection at a time (``SocketServer``); KIP-98.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from pykraft.errors import ProtocolError
from pykraft.host.ports import ConnectionId
from pykraft.protocol.batch import BatchHeader

CheckResult: TypeAlias = BatchHeader | ProtocolError
"""The header of a sound batch, or what is wrong with it."""


@dataclass(slots=True, eq=False)
class OrderedBatch:
    """One batch in its line; ``found`` is None until it is checked."""

    then: Callable[[CheckResult], None]
    found: CheckResult | None = None


class AppendOrder:
    """The lines of all connections that have one; most batches need none."""

    def __init__(self, is_held: Callable[[BatchHeader], bool]) -> None:
        """``is_held`` says whether an earlier batch of the same producer waits for its place."""
        self._is_held = is_held
        self._lines: dict[ConnectionId, deque[OrderedBatch]] = {}
        self._is_advancing = False

    def __len__(self) -> int:
        """How many connections have a line."""
        return len(self._lines)

    def join(self, connection: ConnectionId, then: Callable[[CheckResult], None]) -> OrderedBatch:
        """The next batch of this connection; ``then`` is called when it is checked and its turn has come."""
        batch = OrderedBatch(then)
        self._lines.setdefault(connection, deque()).append(batch)
        return batch

    def passes(self, connection: ConnectionId, found: CheckResult) -> bool:
        """True for a checked batch that needs no line."""
        return connection not in self._lines and (isinstance(found, ProtocolError) or not self._is_held(found))

    def advance(self) -> None:
        """Let every batch go on whose turn has come; call it after a check, and when a batch has its place or none."""
        # A batch that goes on may reject another one, which calls this again: the loop below finds what that freed.
        if self._is_advancing or not self._lines:
            return
        self._is_advancing = True
        has_moved = True
        while has_moved:
            has_moved = False
            for connection, line in list(self._lines.items()):
                while line and (found := line[0].found) is not None:
                    if isinstance(found, BatchHeader) and self._is_held(found):
                        break
                    line.popleft().then(found)
                    has_moved = True
                if not line:
                    del self._lines[connection]
        self._is_advancing = False
