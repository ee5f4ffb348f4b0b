"""Messages that wait for the disk.

Owns the number of the newest durable storage job and every message whose ``after`` lies above it. Invariant: a
message leaves at once, or in the call that makes its job durable; never earlier, and at most once. There is at
most one message for a key, so what waits is bounded: one request for each peer (a newer one replaces an older
one that has not left), one reply for each request.

It refuses to know what a message is and what the job writes.

Source: etcd ``raft/doc.go`` (write before you send); openraft ``io_ordering``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from pykraft.types import NO_IO, Io

MessageKey: TypeAlias = tuple[Literal["request to peer", "reply to request"], int]


class HeldMessages:
    """What may not leave yet, in the order in which it came."""

    def __init__(self) -> None:
        self._durable = NO_IO
        self._held: dict[MessageKey, tuple[Io, Callable[[], None]]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def leave(self, key: MessageKey, after: Io, go: Callable[[], None]) -> None:
        """Let ``go`` happen once job ``after`` is durable; an older message of the same key never leaves."""
        self._held.pop(key, None)
        if after <= self._durable:
            go()
        else:
            self._held[key] = (after, go)

    def drop(self, key: MessageKey) -> None:
        """This message has nobody left to go to."""
        self._held.pop(key, None)

    def persisted(self, io: Io) -> None:
        """Every job up to ``io`` is durable: what waited for one of them leaves."""
        assert io >= self._durable, "durable jobs stay durable"
        self._durable = io
        for key in [key for key, (after, _) in self._held.items() if after <= io]:
            _, go = self._held.pop(key)
            go()
