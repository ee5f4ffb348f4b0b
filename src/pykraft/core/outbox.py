"""The effects of one step, their storage job numbers, and which write each message waits for.

Only this module enforces two rules:

1. However often the election changes within a step, only its last value is written, before every other write of that
   step.
2. A message leaves only when the writes it relies on are durable. By default that is the newest election write. A
   denial or a pre-vote answer that does not name its sender as leader relies only on the newest write that raised the
   epoch. A follower's Fetch also relies on the newest append or truncation.

Source: etcd ``doc.go`` and openraft ``io_ordering`` (order of writes); Kafka's ``durableTransitionTo``.
"""

from collections import deque
from dataclasses import replace
from enum import Enum, auto
from typing import Final

from pykraft.core.effects import Effect, MessageEffect, Reply, ReplyFetch, ReplySnapshot, Send, WriteElectionState
from pykraft.types import NO_IO, Election, Io, NodeId

_MESSAGES: Final = (Send, Reply, ReplyFetch, ReplySnapshot)
_ADDED_OTHERWISE: Final = frozenset({*_MESSAGES, WriteElectionState})


class Relies(Enum):
    """What must be durable before a message may leave."""

    EPOCH = auto()
    ELECTION = auto()
    LOG = auto()


class Outbox:
    """Collects the effects of a step; `take` ends the step."""

    def __init__(self) -> None:
        self._effects: list[Effect] = []
        self._relies: dict[int, Relies] = {}
        self._reserved = Io(NO_IO + 1)
        self._last_io = self._reserved
        self._election: WriteElectionState | None = None
        self._written: Election | None = None
        self._raises_epoch = False
        self._durable = NO_IO
        self._epoch_io = NO_IO
        self._election_io = NO_IO
        self._log_io = NO_IO
        self._unfinished: deque[tuple[Io, int]] = deque()

    def add(self, effect: Effect) -> None:
        """Add an effect that neither stores an election nor sends."""
        assert type(effect) not in _ADDED_OTHERWISE
        self._effects.append(effect)

    def next_log_io(self) -> Io:
        """The job number of an append or a truncation that the caller adds next."""
        self._last_io = Io(self._last_io + 1)
        self._log_io = self._last_io
        return self._last_io

    def write_election(self, election: Election, voters: tuple[NodeId, ...], kraft_version: int) -> None:
        """Replace what this step will write to ``quorum-state``."""
        before = self._written
        assert before is None or election.epoch >= before.epoch, "the epoch on disk never decreases"
        self._raises_epoch |= before is None or election.epoch > before.epoch
        self._written = election
        self._election = WriteElectionState(
            io=self._reserved, election=election, voters=voters, kraft_version=kraft_version
        )

    def send(self, effect: MessageEffect, relies: Relies) -> None:
        """Add a message; `take` sets its ``after``."""
        self._relies[len(self._effects)] = relies
        self._effects.append(effect)

    def persist(self, io: Io) -> None:
        """All jobs up to ``io`` are durable."""
        self._durable = max(self._durable, io)
        while self._unfinished and self._unfinished[0][0] <= io:
            self._unfinished.popleft()

    def oldest_unfinished_ms(self) -> int | None:
        """When the oldest storage job that is not durable yet was handed out (mono ms)."""
        return self._unfinished[0][1] if self._unfinished else None

    def take(self, now_ms: int) -> list[Effect]:
        """End the step: number the election write, and set what each message waits for."""
        effects = self._effects
        if self._election is not None:
            self._election_io = self._reserved
            if self._raises_epoch:
                self._epoch_io = self._reserved
        # Rule 2.
        for at, relies in self._relies.items():
            message = effects[at]
            assert isinstance(message, _MESSAGES)
            after = self._after(relies)
            if after:
                effects[at] = _waiting(message, after)
        if self._election is not None:
            # Rule 1: the election is the first write of the step; its number was reserved before all others.
            effects.insert(0, self._election)
            self._unfinished.append((self._reserved, now_ms))
        if self._last_io > self._reserved:
            self._unfinished.append((self._last_io, now_ms))
        if self._election is not None or self._last_io > self._reserved:
            # Reserve the next step's first number for its election write.
            self._reserved = self._last_io = Io(self._last_io + 1)
        self._effects = []
        self._relies = {}
        self._election = None
        self._raises_epoch = False
        return effects

    def _after(self, relies: Relies) -> Io:
        """The job that a message with this reliance waits for; `NO_IO` when it is already durable."""
        io = self._epoch_io if relies is Relies.EPOCH else self._election_io
        if relies is Relies.LOG and self._log_io > io:
            io = self._log_io
        return io if io > self._durable else NO_IO


def _waiting(message: MessageEffect, io: Io) -> MessageEffect:
    if isinstance(message, Send):
        # A follower's Fetch waits for each append: this takes a quarter of the time of `replace`.
        return Send(after=io, peer=message.peer, correlation_id=message.correlation_id, message=message.message)
    return replace(message, after=io)
