"""Checks the records of a Fetch answer and splits them into batches that may be appended.

We do not trust a leader's bytes before their CRC: the valid batches at the front are kept, together with what is wrong
behind them. A last batch that is cut off is not an error, because a leader reads a number of bytes, not of batches. But
the first batch always comes whole, however large.

Source: KAFKA-18723 (a follower must check what it fetched), KIP-74 (the first batch comes whole).
"""

from collections.abc import Mapping
from dataclasses import field

from pykraft.core.messages import FetchedBatch, FetchResponse
from pykraft.errors import ProtocolError
from pykraft.protocol.batch import BatchHeader, BatchRun, runs_of, scan
from pykraft.protocol.records import membership_records
from pykraft.types import Buffer, Epoch, MembershipRecord, Offset
from pykraft.value import value


@value(frozen=True, slots=True)
class Fetched:
    """Whole, valid batches in their order, as views; ``invalid`` says what is wrong after them."""

    batches: tuple[tuple[BatchHeader, memoryview], ...]
    invalid: str | None
    membership: Mapping[int, tuple[tuple[Offset, MembershipRecord], ...]] = field(default_factory=dict)
    """Records about voters, by the number of their batch."""


def read_batches(records: Buffer) -> Fetched:
    """Check the records of an answer; the views keep the frame alive."""
    view = memoryview(records)
    batches: list[tuple[BatchHeader, memoryview]] = []
    membership: dict[int, tuple[tuple[Offset, MembershipRecord], ...]] = {}
    invalid = None
    try:
        for position, header in scan(records):
            data = view[position : position + header.size_bytes]
            if header.is_control and (found := tuple(membership_records(data))):
                membership[len(batches)] = found
            batches.append((header, data))
    except ProtocolError as error:
        invalid = str(error)
    return Fetched(tuple(batches), invalid or _no_batch(records, len(batches)), membership)


def read_runs(records: Buffer) -> tuple[list[BatchRun], str | None]:
    """The same for a reader that has nothing to learn of single batches; and what is wrong after them."""
    runs: list[BatchRun] = []
    invalid = None
    try:
        # Machine code's `extend` keeps none of them when the next one raises.
        for run in runs_of(records):
            runs.append(run)  # noqa: PERF402
    except ProtocolError as error:
        invalid = str(error)
    return runs, invalid or _no_batch(records, len(runs))


def _no_batch(records: Buffer, found: int) -> str | None:
    # As bad as a damaged answer: if it looked like an empty one, the replica would repeat the fetch without a pause.
    return None if found or not len(records) else f"{len(records)} bytes that hold no whole batch"


def with_batches(message: FetchResponse, fetched: Fetched) -> FetchResponse:
    """The answer for the core, with the headers of its batches."""
    headers = tuple(
        FetchedBatch(
            base_offset=Offset(header.base_offset),
            end_offset=Offset(header.end_offset),
            epoch=Epoch(header.epoch),
            size_bytes=header.size_bytes,
            membership=fetched.membership.get(number, ()),
        )
        for number, (header, _) in enumerate(fetched.batches)
    )
    # Not `replace`, which takes several times as long.
    return FetchResponse(
        error=message.error,
        epoch=message.epoch,
        leader_id=message.leader_id,
        high_watermark=message.high_watermark,
        log_start_offset=message.log_start_offset,
        diverging=message.diverging,
        batch_start=message.batch_start,
        snapshot_id=message.snapshot_id,
        batches=headers,
        invalid=fetched.invalid,
        listeners=message.listeners,
    )
