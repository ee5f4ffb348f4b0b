"""Messages that wait until a storage job is durable.

Invariant: a message leaves at once if its ``after`` is durable, otherwise in the call that reports that job; never
earlier, and at most once. There is at most one message per key, so the number is bounded: one request per peer (a newer
one replaces an older one that has not left) and one reply per request.

Source: etcd ``raft/doc.go`` (write before you send); openraft ``io_ordering``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from pykraft.types import NO_IO, Io

MessageKey: TypeAlias = tuple[Literal["request to peer", "reply to request"], int]


class HeldMessages:
    """Messages that may not leave yet, in the order in which they came."""

    def __init__(self) -> None:
        self._durable = NO_IO
        self._held: dict[MessageKey, tuple[Io, Callable[[], None]]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def send_when_durable(self, key: MessageKey, after: Io, go: Callable[[], None]) -> None:
        """Call ``go`` once job ``after`` is durable; an older message of the same key never leaves."""
        self._held.pop(key, None)
        if after <= self._durable:
            go()
        else:
            self._held[key] = (after, go)

    def drop(self, key: MessageKey) -> None:
        """Drop this message: its receiver is gone."""
        self._held.pop(key, None)

    def persisted(self, io: Io) -> None:
        """Every job up to ``io`` is durable: messages that waited for one of them leave."""
        assert io >= self._durable, "durable jobs stay durable"
        self._durable = io
        for key in [key for key, (after, _) in self._held.items() if after <= io]:
            _, go = self._held.pop(key)
            go()
