"""Notes each call of a simulated process with its answer, compares the replicas, and judges the answers.

The first replica that applies a command decides what the others must do. Replicas apply the same commands at the same
offsets, with the same answers, and have equal states afterwards; no call is applied twice. A state machine is
linearizable if its calls can be put into one order that explains all answers, and in which a call that was answered
before another one began comes first. That order is the one of the log, so no search is needed. Invariant: a call is
noted before it begins, and a call whose process ends stays open: it may be applied, or not.

Source: Jepsen's histories; Herlihy and Wing, "Linearizability" (TOPLAS 1990); Raft paper §5.3 (State Machine Safety).
"""

import hashlib
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from pykraft.client.node import Node
from pykraft.errors import (
    CommandRejectedError,
    OutcomeUnknownError,
    PykraftError,
    ReplicasPartedError,
    UnfinishedCommand,
)
from pykraft.machine.replica import NotApplied
from pykraft.machine.replicated import TIMEOUT_MS, Replicated
from pykraft.machine.state_machine import Applied, StateMachine
from pykraft.sim.invariants.violation import ViolationError
from pykraft.sim.machine.clock import Clock

C = TypeVar("C")
R = TypeVar("R")
CHECKED = "EqualReplicas"
NOWHERE: Final = Applied(0, 0, 0, -1)


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
    context: Applied = NOWHERE


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


def fail_with(parted: ReplicasPartedError) -> None:
    """End the world: in it replicas part for good reason only, whoever is right."""
    raise parted


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


NUMBER_SIZE_BYTES: Final = 8


class _NumberedSerde:
    """Puts the number before the command's own bytes."""

    def __init__(self, machine: StateMachine[Any, Any]) -> None:
        self._commands = machine.commands

    def serialize(self, record: Numbered[Any]) -> bytes:
        return record.number.to_bytes(NUMBER_SIZE_BYTES, "big") + self._commands.serialize(record.command)

    def deserialize(self, data: bytes) -> Numbered[Any]:
        number, rest = data[:NUMBER_SIZE_BYTES], data[NUMBER_SIZE_BYTES:]
        return Numbered(int.from_bytes(number, "big"), self._commands.deserialize(rest))


class WatchedMachine(StateMachine[Numbered[C], R]):
    """The program's state machine on one replica; everything that it does is compared with the others."""

    def __init__(self, machine: StateMachine[C, R], reference: Reference, node_id: int) -> None:
        self.machine = machine
        self.position: int | None = 0
        """How many commands this replica has applied; None after a snapshot, until the next command."""
        self.commands = _NumberedSerde(machine)  # type: ignore[misc]
        self.results = machine.results  # type: ignore[misc]
        self.code_version = machine.code_version  # type: ignore[misc]
        self._reference = reference
        self._node_id = node_id
        self._digest: str | None = None
        """Of the present state; None while it was not needed."""

    def apply(self, command: Numbered[C], context: Applied, /) -> R:
        """See `StateMachine`. Errors: ViolationError."""
        before = self._digest or digest_of(self.machine)
        try:
            result = self.machine.apply(command.command, context)
        except CommandRejectedError as error:
            self._applied(command, context, f"rejected: {error}")
            if self._digest != before:
                seen = (
                    f"call {command.number}, {command.command!r}, was rejected ({error}), and changed the state before"
                )
                raise ViolationError("RejectedUnchanged", seen) from error
            raise
        self._applied(command, context, repr(self.results.serialize(result)))
        return result

    def validate(self, command: Numbered[C], /) -> None:
        self.machine.validate(command.command)

    def version_of(self, command: Numbered[C], /) -> int:
        return self.machine.version_of(command.command)

    def deadline_ms(self) -> int | None:
        return self.machine.deadline_ms()

    def elapse(self, context: Applied, /) -> None:
        """See `StateMachine`. Errors: ViolationError."""
        before, self._digest = self._digest or digest_of(self.machine), None
        self.machine.elapse(context)
        # A replica that began with a snapshot may know a deadline better than others, which then change nothing.
        if digest_of(self.machine) != before:
            # No call has a number below 0.
            self._met(-1 - int(context.offset), f"log time {context.time_ms}", None, context, "")

    def snapshot(self) -> Iterable[bytes]:
        return self.machine.snapshot()

    def restore(self, records: Iterable[bytes], /) -> None:
        self.machine.restore(records)
        self.position = self._digest = None

    async def restore_stream(self, records: AsyncIterator[bytes], /) -> None:
        await self.machine.restore_stream(records)
        self.position = self._digest = None

    def state_digest(self) -> tuple[int | None, str]:
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
            context=context,
        )
        self._digest = call.digest
        self.position = self._reference.met(self._node_id, self.position, call)


class CallVerdict(Enum):
    """What a caller was told."""

    OPEN = "no answer"
    APPLIED = "applied"
    NOT_APPLIED = "certainly not applied"
    UNKNOWN = "unknown"


@dataclass(slots=True, kw_only=True)
class MachineCall:
    """One call of `Replicated.execute` or `Replicated.read`, and its answer."""

    number: int
    node_id: int
    story: str
    is_read: bool
    invoked_us: int
    answered_us: int | None = None
    verdict: CallVerdict = CallVerdict.OPEN
    answer: str = ""
    """As in `AppliedCall`; the digest of the state for a read."""
    position: int | None = None
    """For a read: how many commands the state had."""


def judge(calls: Sequence[MachineCall], reference: Reference) -> None:
    """Check all calls of a world. Errors: ViolationError."""
    for call in calls:
        if not call.is_read:
            _check_answer(call, reference.by_number.get(call.number))
    _check_order(calls, reference)
    _check_reads(calls, reference)


def _check_answer(call: MachineCall, applied: AppliedCall | None) -> None:
    if call.verdict is CallVerdict.NOT_APPLIED and applied is not None:
        seen = f"{call.story} is applied at offset {applied.offset}; its caller was told that it certainly is not"
        raise ViolationError("ErrorsAreTrue", seen)
    if call.verdict is CallVerdict.APPLIED:
        if applied is None:
            seen = f"{call.story} was answered with {call.answer}, and is not in the log"
            raise ViolationError("AnswersAreTrue", seen)
        if applied.answer != call.answer:
            seen = f"{call.story} was answered with {call.answer}; replicas got {applied.answer}"
            raise ViolationError("AnswersAreTrue", seen)


def _check_order(calls: Sequence[MachineCall], reference: Reference) -> None:
    made = {call.number: call for call in calls}
    latest: MachineCall | None = None
    for applied in reference.calls:
        if applied.number < 0:  # nobody called: log time has passed
            continue
        call = made[applied.number]
        # A caller who heard that the outcome is unknown knows nothing about when it is applied.
        ended_us = call.answered_us if call.verdict is CallVerdict.APPLIED else None
        if latest is not None and ended_us is not None and ended_us < latest.invoked_us:
            seen = f"{call.story} was answered before {latest.story} was called, and comes after it in the log"
            raise ViolationError("LinearizableMachine", seen)
        if latest is None or call.invoked_us > latest.invoked_us:
            latest = call


def _check_reads(calls: Sequence[MachineCall], reference: Reference) -> None:
    positions = {applied.number: position for position, applied in enumerate(reference.calls, 1)}
    known: list[tuple[int, int, MachineCall]] = []
    for call in calls:
        position = call.position if call.is_read else positions.get(call.number)
        if call.verdict is CallVerdict.APPLIED and position is not None and call.answered_us is not None:
            known.append((call.answered_us, position, call))
    known.sort(key=lambda each: each[0])
    reads = sorted((each for each in known if each[2].is_read), key=lambda each: each[2].invoked_us)
    at, most, newest = 0, 0, None
    for _, position, read in reads:
        while at < len(known) and known[at][0] < read.invoked_us:
            if known[at][1] > most:
                most, newest = known[at][1], known[at][2]
            at += 1
        if newest is not None and position < most:
            seen = f"{read.story} on node {read.node_id} found {position} commands; {newest.story} had told of {most}"
            raise ViolationError("ReadsAreCurrent", seen)
        expected = reference.digest_at(position)
        if expected is not None and read.answer != expected:
            seen = f"{read.story} found another state than that after {position} commands"
            raise ViolationError("ReadsAreCurrent", seen)


@dataclass(slots=True)
class CallHistory:
    """All calls of a world, in the order in which they began."""

    clock: Clock
    reference: Reference = field(default_factory=Reference)
    calls: list[MachineCall] = field(default_factory=list)
    answered: int = 0
    """Commands that were answered with a result or a rejection."""
    answered_end_offset: int = 0


class RecordedNode:
    """What `pykraft.machine.Replicated` offers to the callers of one process."""

    def __init__(self, history: CallHistory, node_id: int, replicated: Replicated[WatchedMachine[Any, Any]]) -> None:
        self._history = history
        self._node_id = node_id
        self._replicated = replicated

    @property
    def node(self) -> Node[bytes]:
        """As in `Replicated`."""
        return self._replicated.node

    @property
    def machine(self) -> StateMachine[Any, Any]:
        return self._replicated.machine.machine

    async def execute(self, command: Any, *, timeout_ms: int = TIMEOUT_MS) -> Any:  # noqa: ANN401 - the program's
        history = self._history
        call = self._begin(repr(command), is_read=False)
        try:
            result = await self._replicated.execute(Numbered(call.number, command), timeout_ms=timeout_ms)
        except CommandRejectedError as error:
            self._answered(call, f"rejected: {error}")
            raise
        except OutcomeUnknownError:
            call.verdict = CallVerdict.UNKNOWN
            raise
        except PykraftError:
            call.verdict = CallVerdict.NOT_APPLIED
            raise
        else:
            self._answered(call, repr(self._replicated.machine.results.serialize(result)))
            return result
        finally:
            if call.verdict is not CallVerdict.OPEN:
                call.answered_us = history.clock.now_us

    async def resume(self, command: UnfinishedCommand, *, timeout_ms: int = TIMEOUT_MS) -> Any:  # noqa: ANN401 - as above
        """As `Replicated.resume`: the call goes on, and its answer must be that of the command."""
        call = self._history.calls[int.from_bytes(command.data[:NUMBER_SIZE_BYTES], "big") - 1]
        try:
            result = await self._replicated.resume(command, timeout_ms=timeout_ms)
        except CommandRejectedError as error:
            self._answered(call, f"rejected: {error}")
            call.answered_us = self._history.clock.now_us
            raise
        self._answered(call, repr(self._replicated.machine.results.serialize(result)))
        call.answered_us = self._history.clock.now_us
        return result

    @asynccontextmanager
    async def read(
        self, *, stale: bool = False, max_age_ms: int | None = None, timeout_ms: int = TIMEOUT_MS
    ) -> AsyncIterator[Any]:
        """As `Replicated.read`; what may be out of date is not noted."""
        if stale:
            async with self._replicated.read(stale=True, max_age_ms=max_age_ms, timeout_ms=timeout_ms) as watched:
                yield watched.machine
            return
        call = self._begin("", is_read=True)
        try:
            async with self._replicated.read(timeout_ms=timeout_ms) as watched:
                call.position, call.answer = watched.state_digest()
                call.verdict = CallVerdict.APPLIED
                call.answered_us = self._history.clock.now_us
                yield watched.machine
        except PykraftError:
            if call.verdict is CallVerdict.OPEN:
                call.verdict = CallVerdict.NOT_APPLIED
                call.answered_us = self._history.clock.now_us
            raise

    def _answered(self, call: MachineCall, answer: str) -> None:
        history = self._history
        call.verdict, call.answer = CallVerdict.APPLIED, answer
        history.answered += 1
        applied = history.reference.by_number.get(call.number)
        if applied is not None:
            history.answered_end_offset = max(history.answered_end_offset, applied.offset + 1)

    def _begin(self, command: str, *, is_read: bool) -> MachineCall:
        history = self._history
        number = len(history.calls) + 1
        call = MachineCall(
            number=number,
            node_id=self._node_id,
            story=f"read {number}" if is_read else f"call {number}, {command},",
            is_read=is_read,
            invoked_us=history.clock.now_us,
        )
        history.calls.append(call)
        return call
