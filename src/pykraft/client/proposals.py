"""Proposals of the application: the calls of one turn of its loop enter the node together, as one proposal.

Each call of the host costs a step of the core, so calls gather in a group, which enters the host in the loop's next
turn, or earlier when it is full or when another call of this node follows. A single caller need not wait for that turn.
Appends that end when the leader has accepted them do not gather: see `append`.

Invariant: if a call ends with an error other than OutcomeUnknownError, none of its records is or will be in the log.
Records keep the order of the calls; those of one call stay in one batch. A call counts for the limit of undecided
proposals until its outcome, even if nobody waits for it any more.

Source: Kafka's ``BatchAccumulator`` and ``RaftClient.prepareAppend``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, assert_never

from pykraft.client.life import Life, OnAnswer
from pykraft.errors import NotRunningError, OutcomeUnknownError
from pykraft.host.host import Host
from pykraft.host.producers import Committed, OutcomeUnknown, ProposalOutcome, Rejected
from pykraft.protocol.records import HEADER_SIZE_BYTES
from pykraft.server.clock import now
from pykraft.text.words import counted
from pykraft.types import Epoch, Offset

CALLS_MAX: Final = 256
"""Calls in one group. A full group enters at once, so followers get it while later calls still gather."""
GROUP_SIZE_BYTES_MAX: Final = 256 * 1024
"""Bytes of a group; a call with more records is a group of its own."""
ALONE_COUNT: Final = 8
"""After so many groups of one call each, the next call does not wait for others."""
RECORD_OVERHEAD_BYTES_MAX: Final = 32
"""Most bytes that a batch adds to a value: varints and attributes."""


class Proposals:
    """Gathers the calls of one node. All methods run on the application's loop."""

    def __init__(self, life: Life) -> None:
        raft = life.config.raft
        self._life = life
        # A larger proposal would be rejected as a whole, or would make a batch that no Fetch answer should have.
        self._size_bytes_max = min(GROUP_SIZE_BYTES_MAX, raft.fill_size_bytes_max) - HEADER_SIZE_BYTES
        self._group: _Group | None = None
        self._alone = 0
        """Groups of one call since the last one with more."""
        self._has_hurried = False
        """A call of this turn of the loop has entered at once."""
        life.before_calls = self.flush

    def add(self, values: Sequence[bytes], epoch: Epoch | None) -> asyncio.Future[Committed]:
        """Add a call; the future gets its outcome, and cancelling it does not take the records back.

        Errors: NotRunningError and UsageError at once; in the future, those of `pykraft.client.node.Node.propose`.
        """
        loop = self._life.require_loop()
        size_bytes = len(values[0]) + RECORD_OVERHEAD_BYTES_MAX if len(values) == 1 else _size_bytes_max(values)
        group = self._group
        if group is not None and (group.epoch != epoch or group.size_bytes + size_bytes > self._size_bytes_max):
            self.flush()
            group = None
        if group is None:
            group = self._group = _Group(self._life, epoch)
            if self._has_hurried:
                self._alone = 0
            if self._alone < ALONE_COUNT:
                # After the tasks that are ready now: they may have records for the same group.
                loop.call_soon(self._flush_group, group)
        future: asyncio.Future[Committed] = loop.create_future()
        group.values += values
        group.size_bytes += size_bytes
        group.calls.append((future, len(values)))
        if len(group.calls) >= CALLS_MAX:
            self.flush()
        elif self._alone >= ALONE_COUNT:
            # A turn of the loop costs a single caller as much as a tenth of a round trip on a quick disk.
            self._has_hurried = True
            loop.call_soon(self._end_turn)
            self.flush()
        return future

    def flush(self) -> None:
        """Pass the gathered calls to the node, before any other call."""
        if self._group is not None:
            group, self._group = self._group, None
            self._alone = self._alone + 1 if len(group.calls) == 1 else 0
            group.enter()

    def _end_turn(self) -> None:
        self._has_hurried = False

    def _flush_group(self, group: _Group) -> None:
        # The group may have entered already, and another may have begun, whose turn comes.
        if group is self._group:
            self.flush()


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


class _Group:
    __slots__ = ("_is_begun", "_life", "_outcome", "calls", "epoch", "size_bytes", "values")

    def __init__(self, life: Life, epoch: Epoch | None) -> None:
        self.epoch = epoch
        """The epoch that the callers named; None for the one that the node leads when the group enters."""
        self.values: list[bytes] = []
        self.size_bytes = 0
        self.calls: list[tuple[asyncio.Future[Committed], int]] = []
        """Each call's future and number of records."""
        self._life = life
        self._is_begun = False
        self._outcome: Rejected | OutcomeUnknown | None = None
        life.waiting[self] = self._ended

    def enter(self) -> None:
        """Pass the group to the host."""
        loops = self._life.loops
        loops.to_node(self._life.engine.call, self._propose, lambda error: loops.to_application(self._fail, error))

    def _propose(self, host: Host) -> None:
        self._is_begun = True
        host.propose(
            self.values,
            epoch=host.status.epoch if self.epoch is None else self.epoch,
            now=now(),
            on_outcome=lambda outcome: self._life.loops.to_application(self._decided, outcome),
            calls=len(self.calls),
        )

    def _decided(self, outcome: ProposalOutcome) -> None:
        match outcome:
            case Committed():
                self._commit(outcome)
            case Rejected(error=NotRunningError()) | OutcomeUnknown(has_ended=True):
                # The callers get the reason why the node ended, once that is known.
                self._outcome = outcome
                if self._life.is_over:
                    self._ended()
            case Rejected():
                self._fail(outcome.error)
            case OutcomeUnknown():
                self._doubt(outcome)
            case _:
                assert_never(outcome)

    def _commit(self, outcome: Committed) -> None:
        self._life.waiting.pop(self, None)
        base_offset, epoch = outcome.base_offset, outcome.epoch
        for future, count in self.calls:
            if not future.done():
                future.set_result(Committed(base_offset=base_offset, epoch=epoch, count=count))
            base_offset = Offset(base_offset + count)

    def _fail(self, error: BaseException) -> None:
        """None of the records is or will be in the log."""
        self._life.waiting.pop(self, None)
        for future, _ in self.calls:
            if not future.done():
                future.set_exception(twin(error))

    def _doubt(self, outcome: OutcomeUnknown) -> None:
        """Nobody on this node can know the outcome."""
        self._life.waiting.pop(self, None)
        lost = "the node ended" if outcome.has_ended else f"the leadership of epoch {outcome.epoch} was lost"
        base_offset = outcome.base_offset
        for future, count in self.calls:
            if not future.done():
                unknown = OutcomeUnknownError(
                    f"{lost} before {counted(count, 'record')} at offset {base_offset} could commit: the next leader "
                    "may still commit them, or never",
                    base_offset=base_offset,
                    epoch=outcome.epoch,
                    count=count,
                )
                unknown.__cause__ = self._life.failure if outcome.has_ended else None
                future.set_exception(unknown)
            base_offset = Offset(base_offset + count)

    def _ended(self) -> None:
        if isinstance(self._outcome, OutcomeUnknown):
            self._doubt(self._outcome)
        elif self._is_begun and self._outcome is None:
            # The host got the group and did not answer, which only a bug can cause: its records may be in the log.
            self._fail(self._life.in_doubt("the records may or may not be in the log"))
        else:
            self._fail(self._life.ended_error())


def _size_bytes_max(values: Sequence[bytes]) -> int:
    return sum(map(len, values)) + RECORD_OVERHEAD_BYTES_MAX * len(values)


def twin(error: BaseException) -> BaseException:
    """The same error for another caller: each one that raises it adds its own traceback."""
    other = type(error).__new__(type(error), *error.args)
    other.__dict__.update(error.__dict__)
    other.__cause__ = error.__cause__
    return other


def _refused(outcome: ProposalOutcome, answer: OnAnswer[Any]) -> None:
    """Report an append that was not accepted; listeners see what happens to an accepted one."""
    if isinstance(outcome, Rejected):
        answer(outcome.error)
