"""Appends of the application: each becomes one atomic batch, and each call ends with the outcome.

Invariant: if an append ends with an error other than OutcomeUnknownError, none of its records is or will be in the log.
This module takes values and returns offsets; it does not know records and listeners.

Source: Kafka's ``RaftClient.prepareAppend``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from pykraft.client.life import Life, OnAnswer
from pykraft.errors import NotRunningError, OutcomeUnknownError
from pykraft.host.host import Host
from pykraft.host.producers import Committed, OutcomeUnknown, ProposalOutcome, Rejected
from pykraft.plural import counted
from pykraft.server.clock import now
from pykraft.types import Epoch, Offset


async def append_and_commit(life: Life, values: Sequence[bytes], epoch: Epoch | None) -> Committed:
    """Append these values as one batch and wait for the commit. Errors: see `pykraft.client.node.Node.propose`."""

    def act(host: Host, answer: OnAnswer[ProposalOutcome]) -> None:
        own = host.status.epoch if epoch is None else epoch
        host.propose(values, epoch=own, now=now(), on_outcome=answer)

    outcome: ProposalOutcome = await life.ask(act, doubt="the records may or may not be in the log")
    match outcome:
        case Committed():
            return outcome
        case Rejected(error=NotRunningError()):
            # The caller gets the reason why the node ended, once that is known.
            raise await life.ended()
        case Rejected():
            raise outcome.error
        case OutcomeUnknown():
            raise await _in_doubt(life, outcome, len(values))
        case _:
            assert_never(outcome)


async def append(life: Life, values: Sequence[bytes], epoch: Epoch, *, is_prepared: bool) -> Offset:
    """Append these values as one batch; returns their last offset, which is not committed yet.

    Errors: see `pykraft.client.node.Node.prepare_append`.
    """

    def act(host: Host, answer: OnAnswer[Offset]) -> None:
        host.propose(
            values,
            epoch=epoch,
            now=now(),
            on_accepted=lambda base_offset: answer(Offset(base_offset + len(values) - 1)),
            on_outcome=lambda outcome: _refused(outcome, answer),
            is_prepared=is_prepared,
        )

    return await life.ask(act)


async def _in_doubt(life: Life, outcome: OutcomeUnknown, count: int) -> OutcomeUnknownError:
    """The error of an append whose outcome this node cannot know; if the node is ending, waits for its end."""
    lost = f"the leadership of epoch {outcome.epoch} was lost"
    if outcome.has_ended:
        await life.wait_over()
        lost = "the node ended"
    unknown = OutcomeUnknownError(
        f"{lost} before {counted(count, 'record')} at offset {outcome.base_offset} could commit: the next leader may "
        "still commit them, or never",
        base_offset=outcome.base_offset,
        epoch=outcome.epoch,
        count=count,
    )
    unknown.__cause__ = life.failure if outcome.has_ended else None
    return unknown


def _refused(outcome: ProposalOutcome, answer: OnAnswer[Any]) -> None:
    """Report an append that was not accepted; listeners see what happens to an accepted one."""
    if isinstance(outcome, Rejected):
        answer(outcome.error)
