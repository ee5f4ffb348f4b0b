"""Judges what the callers of a world were told, by the order of the log.

A state machine is linearizable if its calls can be put into one order that explains all answers, and in which a call
that was answered before another one began comes first. Replicas apply commands in the order of the log, so that order
is the one to check; no search is needed, and a difference is a fault of the implementation.

Source: Herlihy and Wing, "Linearizability" (TOPLAS 1990).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from pykraft.machine.testing.reference import AppliedCall, Reference
from pykraft.sim.invariants.violation import ViolationError


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
    """No command is in the log before one that was answered before it was sent."""
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
    """A read has everything that was answered, or read, before it began."""
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
