"""Bugs between the core and its clients: wrong outcomes, lost proposals, and timers that wake nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pykraft.core.effects import PlannedBatch
from pykraft.core.on import propose, timer
from pykraft.errors import NotLeaderError
from pykraft.host.producers import Committed, OutcomeUnknown, Producers, Rejected
from pykraft.host.recent_batches import HeaderAndBytes
from pykraft.protocol.records import encode_batch
from pykraft.types import Offset
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch


def linger_wakes_nobody(patch: Patch) -> None:
    """No timer is set for the end of the linger time: proposals wait until something else happens."""
    patch.setattr(timer, "may_drain", lambda replica: False)


def unknown_is_called_rejected(patch: Patch) -> None:
    """A leader that resigns tells its clients that the records it had appended are not in the log."""

    def lost(self: Producers, leading: Any) -> None:
        while self._appended and self._appended[0].epoch != leading:
            gone = self._appended.popleft()
            gone.on_outcome(Rejected(error=NotLeaderError(None, gone.epoch)))

    patch.setattr(Producers, "lost", lost)


def append_is_called_committed(patch: Patch) -> None:
    """A leader tells clients that their records are committed when it has appended them."""
    encode = Producers.encode

    def told_at_once(self: Producers, plan: PlannedBatch) -> HeaderAndBytes:
        batch = encode(self, plan)
        self.committed(plan.end_offset)
        return batch

    patch.setattr(Producers, "encode", told_at_once)


def outcome_is_forgotten(patch: Patch) -> None:
    """A leader that resigns forgets the clients that wait for an outcome."""
    patch.setattr(Producers, "lost", lambda self, leading: self._appended.clear() if leading is None else None)


def unknown_is_proposed_again(patch: Patch) -> None:
    """A leader that resigned appends its uncommitted records again when it is elected again."""
    take_values, lost = Producers._take_values, Producers.lost

    def kept(self: Any, plan: PlannedBatch) -> list[bytes]:
        values = take_values(self, plan)
        self.__dict__.setdefault("appended_values", {})[plan.base_offset] = values[-1]
        return values

    def again(self: Any, leading: Any) -> None:
        if self._appended and self._appended[0].epoch != leading:
            self.__dict__["again"] = list(self.__dict__.get("appended_values", {}).values())[-1:]
        lost(self, leading)

    propose = Producers.propose

    def prepended(self: Any, values: Any, **named: Any) -> Any:
        again = self.__dict__.pop("again", [])
        outcome = named["on_outcome"]
        if again:
            named["on_outcome"] = lambda told: outcome(
                replace(told, base_offset=Offset(told.base_offset + 1))
                if isinstance(told, Committed | OutcomeUnknown)
                else told
            )
            accepted = named.get("on_accepted")
            named["on_accepted"] = (lambda offset: accepted(offset + 1)) if accepted else None
        return propose(self, [*again, *values], **named)

    patch.setattr(Producers, "_take_values", kept)
    patch.setattr(Producers, "lost", again)
    patch.setattr(Producers, "propose", prepended)


def new_leader_appends_a_value(patch: Patch) -> None:
    """A new leader begins its epoch with an empty data record instead of a LeaderChange record."""
    encode = Producers.encode

    def no_op(self: Producers, plan: PlannedBatch) -> HeaderAndBytes:
        if not plan.control:
            return encode(self, plan)
        value = b"%012d" % plan.epoch
        return encode_batch([value], base_offset=plan.base_offset, epoch=plan.epoch, timestamp_ms=plan.timestamp_ms)

    patch.setattr(Producers, "encode", no_op)


def prepared_appends_fill_the_buffer_for_good(patch: Patch) -> None:
    """A leader rejects an append when prepared ones fill the buffer, and never schedules those."""
    patch.setattr(propose, "_make_room", lambda replica, leader, now: None)


MUTANTS = (
    Mutant(
        plant=prepared_appends_fill_the_buffer_for_good,
        source="ours: an outside review filled the buffer with prepared appends",
        scenario="prepared",
    ),
    Mutant(plant=linger_wakes_nobody, source="Kafka KafkaRaftClientTest (wakes up when the linger is over)"),
    Mutant(plant=unknown_is_called_rejected, source="Jepsen: an indeterminate outcome taken for a failure"),
    Mutant(plant=append_is_called_committed, source="acks=1; MongoDB's write concern 1"),
    Mutant(plant=outcome_is_forgotten, source="ValuesEventuallyAcked of the KRaft specification", scenario="silence"),
    Mutant(plant=unknown_is_proposed_again, source="KIP-98 (why producers are idempotent)"),
    Mutant(plant=new_leader_appends_a_value, source="Raft paper §8 (no-op entries), as seen by an application"),
)
