"""What all replicas of a world agree on: each command in the log, what it answered, and digests of the state.

The first replica that applies a command decides what the others must do. Invariant: replicas apply the same commands at
the same offsets, with the same answers, and have equal states afterwards; no call is applied twice.

Source: Raft paper §5.3 (State Machine Safety); PostgreSQL's and FoundationDB's consistency checks.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pykraft.errors import CommandRejectedError
from pykraft.machine.replica import NotApplied
from pykraft.machine.state_machine import Applied, StateMachine
from pykraft.sim.invariants.violation import ViolationError

C = TypeVar("C")
R = TypeVar("R")
CHECKED = "EqualReplicas"


@dataclass(frozen=True, slots=True)
class AppliedCall:
    """A command as it was applied: the number of its call, where it is, its answer, and the state afterwards."""

    number: int
    offset: int
    story: str
    answer: str
    """The serialized result as text, or why the command was rejected."""
    digest: str
    command: object = None
    """The program's command; None where only log time has passed (``number`` is below 0)."""
    time_ms: int = 0
    """The log time."""


class Reference:
    """The applied commands of one world, in the order of the log."""

    def __init__(self) -> None:
        self.calls: list[AppliedCall] = []
        self.by_number: dict[int, AppliedCall] = {}
        self.on_new: Callable[[AppliedCall], None] = lambda _: None
        """Called when the first replica has applied a command."""

    def met(self, node_id: int, position: int | None, call: AppliedCall) -> int:
        """A replica applied a command after ``position`` others, or (None) after a snapshot; returns its new position.

        Errors: ViolationError.
        """
        if position is None:
            position = bisect_left(self.calls, call.offset, key=lambda known: known.offset)
        if position < len(self.calls):
            self._compare(node_id, self.calls[position], call)
            return position + 1
        twin = self.by_number.get(call.number)
        if twin is not None:
            seen = f"{call.story} was applied at offset {twin.offset} and again at offset {call.offset}"
            raise ViolationError("AppliedOnce", seen)
        self.calls.append(call)
        self.by_number[call.number] = call
        self.on_new(call)
        return position + 1

    def digest_at(self, position: int) -> str | None:
        """The digest after so many commands; None before the first one."""
        return self.calls[position - 1].digest if position else None

    @staticmethod
    def _compare(node_id: int, known: AppliedCall, call: AppliedCall) -> None:
        if known == call:
            return
        if (known.offset, known.number) != (call.offset, call.number):
            theirs = f"others {known.story} at offset {known.offset}"
            seen = f"node {node_id} applied {call.story} at offset {call.offset}, {theirs}"
        elif known.answer != call.answer:
            seen = f"node {node_id} answered {call.story} with {call.answer}, others with {known.answer}"
        else:
            seen = f"the state of node {node_id} is another one after {call.story} at offset {call.offset}"
        raise ViolationError(CHECKED, seen)


def fail_on(what: NotApplied) -> None:
    """What real nodes pass over is a bug of the program here. Errors: that of the record."""
    assert what.error is not None
    raise what.error


def digest_of(machine: StateMachine[Any, Any]) -> str:
    """A digest of what the machine would save; the order of its records does not count."""
    return digest_of_records(machine.snapshot())


def digest_of_records(records: Iterable[bytes]) -> str:
    """As `digest_of`, of the records of a snapshot."""
    found = hashlib.blake2b(digest_size=8)
    for record in sorted(records):
        found.update(len(record).to_bytes(8, "big") + record)
    return found.hexdigest()


@dataclass(frozen=True, slots=True)
class Numbered(Generic[C]):
    """A command with the number of its call, which a log shows."""

    number: int
    command: C


class _NumberedSerde:
    """Puts the number before the command's own bytes."""

    def __init__(self, machine: StateMachine[Any, Any]) -> None:
        self._commands = machine.commands

    def serialize(self, record: Numbered[Any]) -> bytes:
        return record.number.to_bytes(8, "big") + self._commands.serialize(record.command)

    def deserialize(self, data: bytes) -> Numbered[Any]:
        return Numbered(int.from_bytes(data[:8], "big"), self._commands.deserialize(data[8:]))


class WatchedMachine(StateMachine[Numbered[C], R]):
    """The program's state machine on one replica; everything that it does is compared with the others."""

    def __init__(self, machine: StateMachine[C, R], reference: Reference, node_id: int) -> None:
        self.machine = machine
        self.position: int | None = 0
        """How many commands this replica has applied; None after a snapshot, until the next command."""
        self.commands = _NumberedSerde(machine)  # type: ignore[misc]
        self.results = machine.results  # type: ignore[misc]
        self._reference = reference
        self._node_id = node_id
        self._restored_digest: str | None = None

    def apply(self, command: Numbered[C], context: Applied, /) -> R:
        """See `StateMachine`. Errors: ViolationError."""
        try:
            result = self.machine.apply(command.command, context)
        except CommandRejectedError as error:
            self._applied(command, context, f"rejected: {error}")
            raise
        self._applied(command, context, repr(self.results.serialize(result)))
        return result

    def validate(self, command: Numbered[C], /) -> None:
        """See `StateMachine`."""
        self.machine.validate(command.command)

    def deadline_ms(self) -> int | None:
        """See `StateMachine`."""
        return self.machine.deadline_ms()

    def elapse(self, context: Applied, /) -> None:
        """See `StateMachine`. Errors: ViolationError."""
        before = digest_of(self.machine)
        self.machine.elapse(context)
        # A replica that began with a snapshot may know a deadline better than others, which then change nothing.
        if digest_of(self.machine) != before:
            # No call has a number below 0.
            self._met(-1 - int(context.offset), f"log time {context.time_ms}", None, context, "")

    def snapshot(self) -> Iterable[bytes]:
        """See `StateMachine`."""
        return self.machine.snapshot()

    def restore(self, records: Iterable[bytes], /) -> None:
        """See `StateMachine`."""
        self.machine.restore(records)
        self.position = None

    async def restore_stream(self, records: AsyncIterator[bytes], /) -> None:
        """See `StateMachine`."""
        await self.machine.restore_stream(records)
        self.position = None

    def found(self) -> tuple[int | None, str]:
        """The position and the digest of the state, for a read."""
        return self.position, digest_of(self.machine)

    def _applied(self, command: Numbered[C], context: Applied, answer: str) -> None:
        self._met(command.number, f"call {command.number}, {command.command!r},", command.command, context, answer)

    def _met(self, number: int, story: str, command: C | None, context: Applied, answer: str) -> None:
        call = AppliedCall(
            number=number,
            offset=int(context.offset),
            story=story,
            answer=answer,
            digest=digest_of(self.machine),
            command=command,
            time_ms=context.time_ms,
        )
        self.position = self._reference.met(self._node_id, self.position, call)


MakeMachine = Callable[[], StateMachine[C, R]]
