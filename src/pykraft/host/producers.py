"""Proposals of the application: their values until they are encoded, and their outcome.

Invariant: each proposal gets exactly one outcome; committed proposals get theirs in log order. A proposal goes through
these steps:

1. `Producers.propose` takes the values and assigns a handle.
2. The core accepts it with an offset, or rejects it.
3. `Producers.encode` makes a batch of the values and forgets them.
4. The high watermark passes its end in its epoch: `Committed`.

If this node stops leading in between, the outcome is `Rejected` before step 3 and `OutcomeUnknown` after it: the next
leader may still commit the records, or never.

The count is bounded here; the bytes are bounded in the core, which rejects what storage cannot keep up with.

Source: Kafka's ``BatchAccumulator`` and the append purgatory of ``KafkaRaftClient``.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pykraft.core.effects import PlannedBatch
from pykraft.core.events import Proposed
from pykraft.errors import NotRunningError, UsageError
from pykraft.host.fetch_read import HeaderAndBytes
from pykraft.protocol.batch import place_batch
from pykraft.protocol.records import HEADER_SIZE_BYTES, encode_control_batch, encode_in_place, records_size_bytes
from pykraft.record_list import check_records
from pykraft.types import Epoch, Offset
from pykraft.value import value

UNDECIDED_PROPOSALS_MAX: Final = 100_000
"""Proposals that may wait for their outcome at one time; one more is rejected."""
_DELTA_OF_LARGE_BATCHES: Final = 1_048_576
"""No record of a batch below a gigabyte has an offset delta that is encoded in more bytes than this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The records are durable on a majority, at ``base_offset`` and the offsets after it."""

    base_offset: Offset
    epoch: Epoch
    count: int

    @property
    def end_offset(self) -> Offset:
        """End of the records (exclusive)."""
        return Offset(self.base_offset + self.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """The records are not in the log and never will be.

    ``error`` is a NotLeaderError, BufferFullError or UsageError.
    """

    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeUnknown:
    """This node lost the leadership of ``epoch`` after it had appended the records at ``base_offset``.

    The next leader may or may not commit them. ``has_ended``: it lost the leadership because the node ended.
    """

    base_offset: Offset
    epoch: Epoch
    has_ended: bool = False


ProposalOutcome: TypeAlias = Committed | Rejected | OutcomeUnknown


@dataclass(slots=True, kw_only=True)
class _Proposal:
    values: Sequence[bytes]
    count: int
    on_outcome: Callable[[ProposalOutcome], None]
    on_accepted: Callable[[Offset], None] | None
    calls: int
    batch: HeaderAndBytes | None = None


@value(frozen=True, slots=True, kw_only=True)
class _Appended:
    base_offset: Offset
    epoch: Epoch
    count: int
    on_outcome: Callable[[ProposalOutcome], None]
    calls: int


class Producers:
    """All proposals without an outcome: those with values, and those that are in the log."""

    def __init__(self, *, batch_size_bytes_max: int) -> None:
        self._records_size_bytes_max = batch_size_bytes_max - HEADER_SIZE_BYTES
        self._next_handle = 1
        self._proposals: dict[int, _Proposal] = {}
        self._appended: deque[_Appended] = deque()
        self._undecided = 0

    def __len__(self) -> int:
        """Calls of the application whose proposals have no outcome yet."""
        return self._undecided

    @property
    def is_overfull(self) -> bool:
        """True when the newest proposal exceeds the limit and must be rejected."""
        return len(self) > UNDECIDED_PROPOSALS_MAX

    def propose(
        self,
        values: Sequence[bytes],
        *,
        epoch: Epoch,
        on_outcome: Callable[[ProposalOutcome], None],
        on_accepted: Callable[[Offset], None] | None = None,
        is_prepared: bool = False,
        calls: int = 1,
    ) -> Proposed:
        """Step 1: keep the values under a new handle; pass the returned event to the core.

        ``calls`` of the application share this proposal and its outcome.

        Errors: UsageError when there are no values or one of them is empty, which no KRaft reader accepts, and for a
        single value instead of a list.
        """
        check_records(values)
        kept = list(values)
        if not kept or not all(kept):
            raise UsageError("a proposal needs at least one value, and a value at least one byte")
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        self._proposals[handle] = _Proposal(
            values=kept, count=len(kept), on_outcome=on_outcome, on_accepted=on_accepted, calls=calls
        )
        self._undecided += calls
        size_bytes = self._claimed_size_bytes(kept)
        return Proposed(handle=handle, epoch=epoch, count=len(kept), size_bytes=size_bytes, is_prepared=is_prepared)

    def propose_batch(
        self,
        batch: HeaderAndBytes,
        *,
        epoch: Epoch,
        on_outcome: Callable[[ProposalOutcome], None],
        on_accepted: Callable[[Offset], None],
    ) -> Proposed:
        """Step 1 for a batch that a client encoded: only its base offset and epoch will change."""
        header, _ = batch
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        count = header.last_offset_delta + 1
        self._proposals[handle] = _Proposal(
            values=(), count=count, on_outcome=on_outcome, on_accepted=on_accepted, calls=1, batch=batch
        )
        self._undecided += 1
        size_bytes = header.size_bytes - HEADER_SIZE_BYTES
        return Proposed(handle=handle, epoch=epoch, count=count, size_bytes=size_bytes, is_batch=True)

    def accepted(self, handle: int, base_offset: Offset) -> None:
        """Step 2: the records have their offsets, from this one on; they are not in the log yet."""
        on_accepted = self._proposals[handle].on_accepted
        if on_accepted is not None:
            on_accepted(base_offset)

    def reject(self, handle: int, error: Exception) -> None:
        """The records of this proposal never reach the log."""
        proposal = self._proposals.pop(handle)
        self._undecided -= proposal.calls
        proposal.on_outcome(Rejected(error=error))

    def encode(self, plan: PlannedBatch) -> HeaderAndBytes:
        """Step 3: the batch that the core planned; its proposals are in the log from now on."""
        batch: HeaderAndBytes
        if plan.control:
            batch = encode_control_batch(
                plan.control, base_offset=plan.base_offset, epoch=plan.epoch, timestamp_ms=plan.timestamp_ms
            )
        elif (whole := self._proposals[plan.handles[0]].batch) is not None:
            self._take_values(plan)
            batch = place_batch(*whole, base_offset=plan.base_offset, epoch=plan.epoch)
        else:
            values = self._take_values(plan)
            batch = encode_in_place(
                values, base_offset=plan.base_offset, epoch=plan.epoch, timestamp_ms=plan.timestamp_ms
            )
        assert batch[0].end_offset == plan.end_offset, "the batch holds as many records as were planned"
        return batch

    def committed(self, high_watermark: Offset) -> None:
        """Step 4: everything below is committed."""
        while self._appended and self._appended[0].base_offset + self._appended[0].count <= high_watermark:
            done = self._appended.popleft()
            self._undecided -= done.calls
            done.on_outcome(Committed(base_offset=done.base_offset, epoch=done.epoch, count=done.count))

    def lost(self, leading: Epoch | None, *, has_ended: bool = False) -> None:
        """This node leads only ``leading`` (None: nothing): its records of other epochs have an unknown outcome."""
        while self._appended and self._appended[0].epoch != leading:
            open_ended = self._appended.popleft()
            self._undecided -= open_ended.calls
            open_ended.on_outcome(
                OutcomeUnknown(base_offset=open_ended.base_offset, epoch=open_ended.epoch, has_ended=has_ended)
            )

    def end(self) -> None:
        """The node stops: every remaining proposal gets its outcome."""
        self.lost(None, has_ended=True)
        for handle in list(self._proposals):
            self.reject(handle, NotRunningError("the node stopped before it could append the records"))

    def _take_values(self, plan: PlannedBatch) -> list[bytes]:
        """The values of all proposals of a batch; the proposals are in the log from now on."""
        values: list[bytes] = []
        count = 0
        for handle in plan.handles:
            proposal = self._proposals.pop(handle)
            appended = _Appended(
                base_offset=Offset(plan.base_offset + count),
                epoch=plan.epoch,
                count=proposal.count,
                on_outcome=proposal.on_outcome,
                calls=proposal.calls,
            )
            self._appended.append(appended)
            values += proposal.values
            count += proposal.count
        return values

    def _claimed_size_bytes(self, values: Sequence[bytes]) -> int:
        """The size that the core reserves: never too small, wherever in a batch the values end up."""
        most = self._records_size_bytes_max
        # Offset deltas take more bytes further back in a batch. Values that fit only at the front claim a whole batch.
        claimed = records_size_bytes(values, first_delta=_DELTA_OF_LARGE_BATCHES)
        if claimed <= most:
            return claimed
        size_bytes = records_size_bytes(values)
        return max(size_bytes, most)
