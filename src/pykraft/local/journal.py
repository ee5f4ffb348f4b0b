"""A journal: JSON lines with what nodes said that they committed, kept outside the nodes, and its check against a log.

`pykraft server --ack-fd` writes the events into a pipe, and the process that started the node reads them there, so a
killed node cannot take back what it said. Invariant: a parsed event has the right types and ranges.

The check finds whether a log has what its leaders acknowledged: each record exactly once, at its offset, in order. It
trusts neither side. It identifies a record by its content, never by its position, and an acknowledged record counts as
found only at the acknowledged offset. A log is a buffer of whole batches here.

The head of a record's value (big-endian), random bytes after it:

| offset | size | field |
|---|---|---|
| 0 | 8 | run: drawn by a node when it starts, never all zeros |
| 8 | 4 | epoch int32, in which the leader claimed to lead |
| 12 | 8 | sequence int64, from 0 in each claim |

A value that is shorter, or whose run is zero, is not the workload's (the payload of Kafka's TestRaftServer is zeros)
and is skipped.

The check works on *spans*: records of one claim whose sequences and offsets both increase by one. So its cost
depends on the number of batches and faults, not of records. For each claim:

1. Its sequences ascend with the offset.
2. Spans cover each acknowledged range at its offsets. Records that only other spans cover are misplaced;
   records that no span covers are missing.
3. Spans that overlap are duplicates, and no record is acknowledged twice.
"""

import json
import struct
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from math import inf
from typing import Final, TypeAlias

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.records import BatchHeader, decode_values, scan
from pykraft.types import Buffer, Epoch, NodeId, Offset

RUN_SIZE_BYTES: Final = 8
PROBLEMS_MAX: Final = 20
"""Faults that a verdict describes; it counts all of them."""
_HEAD: Final = struct.Struct(">8siq")
_NO_RUN: Final = bytes(RUN_SIZE_BYTES)


@dataclass(frozen=True, slots=True)
class Claim:
    """One node's leadership in one epoch, as it appears in the workload's records."""

    run: bytes
    epoch: Epoch

    def __str__(self) -> str:
        return f"run {self.run.hex()} epoch {self.epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A node serves; ``run`` is in the records of all its claims until it stops, and empty if it writes none."""

    node: NodeId
    run: bytes
    pid: int
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Led:
    """A node became leader: its LeaderChange is committed."""

    node: NodeId
    run: bytes
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """``count`` records of a claim are committed from ``base_offset`` on. Latency is from append to commit."""

    node: NodeId
    run: bytes
    epoch: Epoch
    first_sequence: int
    count: int
    base_offset: Offset
    wall_ms: int
    latency_ms: float

    @property
    def claim(self) -> Claim:
        """The claim whose records these are."""
        return Claim(self.run, self.epoch)

    @property
    def end_sequence(self) -> int:
        """The sequence after the last one."""
        return self.first_sequence + self.count

    @property
    def end_offset(self) -> Offset:
        """The offset after the last record."""
        return Offset(self.base_offset + self.count)

    @property
    def shift(self) -> int:
        """The difference between a record's offset and its sequence."""
        return self.base_offset - self.first_sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipEnded:
    """A node no longer leads; records that it did not acknowledge may or may not be in the log."""

    node: NodeId
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The last line of a node that was not killed."""

    node: NodeId


JournalEvent: TypeAlias = Started | Led | Acknowledged | LeadershipEnded | Stopped

_KINDS: Final[dict[str, type[JournalEvent]]] = {
    "started": Started,
    "leader": Led,
    "ack": Acknowledged,
    "resigned": LeadershipEnded,
    "stopped": Stopped,
}


def parse_event(line: str | bytes) -> JournalEvent:
    """Parse one line of a journal; unknown fields are ignored.

    Errors: ProtocolError for anything that is not such a line.
    """
    try:
        found = json.loads(line)
        kind = _KINDS[found["event"]]
        make: Callable[..., JournalEvent] = kind
        return make(**{field.name: _checked(field.name, found[field.name]) for field in fields(kind)})
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ProtocolError(f"not a line of a journal ({type(error).__name__}: {error}): {line[:200]!r}") from None


def _checked(name: str, value: object) -> bytes | int | float:
    """The value of a field, if it is valid for that field. Errors: ValueError."""
    if name == "run":
        if isinstance(value, str) and len(run := bytes.fromhex(value)) in (0, RUN_SIZE_BYTES):
            return run
    elif isinstance(value, bool):
        pass
    elif name == "latency_ms":
        if isinstance(value, int | float) and 0 <= value < inf:
            return value
    elif isinstance(value, int) and value >= (1 if name == "count" else 0):
        return value
    raise ValueError(f"{name} is {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSpan:
    """Records of one claim, each one sequence and one offset after the previous one."""

    claim: Claim
    first_sequence: int
    base_offset: Offset
    count: int

    @property
    def end_sequence(self) -> int:
        """The sequence after the last one."""
        return self.first_sequence + self.count

    @property
    def shift(self) -> int:
        """The difference between a record's offset and its sequence."""
        return self.base_offset - self.first_sequence


def record_spans(stream: Buffer) -> Iterator[RecordSpan]:
    """The workload's records in a buffer of whole batches, in log order, as spans of maximal length.

    A last batch that is cut off is ignored.

    Errors: ProtocolError at the first batch that is damaged or not KRaft's, that does not begin where the previous one
    ended, whose epoch goes back, or that has a record of another epoch than its own.
    """
    run, epoch, first_sequence, base_offset, count = _NO_RUN, 0, 0, 0, 0
    for offset, next_run, next_epoch, sequence in _heads(stream):
        goes_on = sequence == first_sequence + count and offset == base_offset + count
        if goes_on and next_run == run and next_epoch == epoch:
            count += 1
            continue
        if count:
            yield _span(run, epoch, first_sequence, base_offset, count)
        run, epoch, first_sequence, base_offset, count = next_run, next_epoch, sequence, offset, 1
    if count:
        yield _span(run, epoch, first_sequence, base_offset, count)


def _heads(stream: Buffer) -> Iterator[tuple[int, bytes, int, int]]:
    """Offset, run, epoch and sequence of each of the workload's records."""
    view = memoryview(stream)
    for position, header in _contiguous(view):
        if header.is_control:
            continue
        values = decode_values(view[position : position + header.size_bytes])
        for offset, value in enumerate(values, header.base_offset):
            if len(value) < _HEAD.size or value.startswith(_NO_RUN):
                continue
            run, epoch, sequence = _HEAD.unpack_from(value)
            if epoch != header.epoch:
                raise _damaged(f"offset {offset} holds a record of epoch {epoch} in a batch of epoch {header.epoch}")
            yield offset, run, epoch, sequence


def _contiguous(stream: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """As `scan`, but checks that each batch follows the previous one."""
    end_offset: Offset | None = None
    epoch = -1
    for position, header in scan(stream):
        # The CRC covers neither offset nor epoch, so damage there shows only here.
        if end_offset is not None and header.base_offset != end_offset:
            raise _damaged(f"the batch at byte {position} has offset {header.base_offset}, expected {end_offset}")
        if header.epoch < epoch:
            raise _damaged(f"the batch at byte {position} has epoch {header.epoch} after {epoch}")
        end_offset, epoch = header.end_offset, header.epoch
        yield position, header


def _damaged(problem: str) -> ProtocolError:
    return ProtocolError(problem, ErrorCode.CORRUPT_MESSAGE)


def _span(run: bytes, epoch: int, first_sequence: int, base_offset: int, count: int) -> RecordSpan:
    claim = Claim(run, Epoch(epoch))
    return RecordSpan(claim=claim, first_sequence=first_sequence, base_offset=Offset(base_offset), count=count)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalVerdict:
    """How many acknowledged records a log has. All numbers count records, except ``steps_back``."""

    acknowledged: int = 0
    """Distinct records that were acknowledged."""
    found: int = 0
    """Acknowledged records that are at their offset."""
    misplaced: int = 0
    """Acknowledged records that are only at other offsets."""
    missing: int = 0
    """Acknowledged records that are not in the log."""
    duplicates: int = 0
    """Copies in the log beyond the first, acknowledged or not."""
    steps_back: int = 0
    """Places where a claim's sequence does not ascend."""
    acknowledged_twice: int = 0
    unacknowledged: int = 0
    """In the log without an acknowledgement; allowed, since a node may die between commit and acknowledgement."""
    problems: tuple[str, ...] = ()
    """Descriptions of faults, at most PROBLEMS_MAX of them."""

    @property
    def is_clean(self) -> bool:
        """True when each acknowledged record is in the log exactly once, at its offset, in order."""
        return not self.problems


def check_journal(acknowledgements: Iterable[Acknowledged], log: Iterable[RecordSpan]) -> JournalVerdict:
    """Compare acknowledgements with one log; the module has the rules."""
    said_by_claim: defaultdict[Claim, list[Acknowledged]] = defaultdict(list)
    for said in acknowledgements:
        said_by_claim[said.claim].append(said)
    log_by_claim: defaultdict[Claim, list[RecordSpan]] = defaultdict(list)
    for span in log:
        log_by_claim[span.claim].append(span)
    claims = dict.fromkeys([*log_by_claim, *said_by_claim])
    return _total([_check_claim(said_by_claim[claim], log_by_claim[claim]) for claim in claims])


def _total(verdicts: Sequence[JournalVerdict]) -> JournalVerdict:
    problems = [problem for verdict in verdicts for problem in verdict.problems]
    names = [each.name for each in fields(JournalVerdict) if each.name != "problems"]
    sums = {name: sum(getattr(verdict, name) for verdict in verdicts) for name in names}
    return JournalVerdict(**sums, problems=tuple(problems[:PROBLEMS_MAX]))


def _check_claim(said: Sequence[Acknowledged], in_log: Sequence[RecordSpan]) -> JournalVerdict:
    """The verdict on one claim; ``in_log`` is in log order."""
    # 1. Sequences that do not ascend.
    problems = _steps_back(in_log)
    steps_back = len(problems)
    ascending = _Ascending(in_log)
    # 3. Overlaps: more records than different sequences.
    distinct = _covered(ascending.spans)
    duplicates = sum(span.count for span in in_log) - distinct
    acknowledged = twice = found = missing = said_end = 0
    for one in sorted(said, key=lambda one: one.first_sequence):
        # 3. Do not count sequences again that an earlier acknowledgement covers.
        first = min(max(one.first_sequence, said_end), one.end_sequence)
        said_end = max(said_end, one.end_sequence)
        if first > one.first_sequence:
            problems.append(f"{one.claim}: sequence {one.first_sequence} was acknowledged twice")
        count = one.end_sequence - first
        present = ascending.within(first, one.end_sequence)
        # 2. Covered at the right offsets, or anywhere.
        here = _covered(part for part in present if part.shift == one.shift)
        absent = count - _covered(present)
        if here < count:
            problems.append(
                f"{one.claim}: of sequences {first} to {one.end_sequence - 1}, acknowledged from offset "
                f"{first + one.shift} on, {absent} are missing and {count - here - absent} stand elsewhere"
            )
        acknowledged, twice = acknowledged + count, twice + one.count - count
        found, missing = found + here, missing + absent
    return JournalVerdict(
        acknowledged=acknowledged,
        found=found,
        misplaced=acknowledged - found - missing,
        missing=missing,
        duplicates=duplicates,
        steps_back=steps_back,
        acknowledged_twice=twice,
        unacknowledged=distinct - (acknowledged - missing),
        problems=tuple(problems),
    )


def _steps_back(in_log: Sequence[RecordSpan]) -> list[str]:
    """A sentence for each span that begins at or below an earlier sequence; each duplicate causes one as well."""
    problems: list[str] = []
    highest = -1
    for span in in_log:
        if span.first_sequence <= highest:
            problems.append(
                f"{span.claim}: sequence {span.first_sequence} at offset {span.base_offset} follows {highest}"
            )
        highest = max(highest, span.end_sequence - 1)
    return problems


class _Ascending:
    """The spans of one claim, searchable by sequence."""

    def __init__(self, members: Sequence[RecordSpan]) -> None:
        self.spans = sorted(members, key=lambda span: span.first_sequence)
        self._starts = [span.first_sequence for span in self.spans]
        self._highest_ends = list(accumulate((span.end_sequence for span in self.spans), max))

    def within(self, first: int, end: int) -> list[RecordSpan]:
        """The parts of spans within this range of sequences, ``end`` exclusive, ascending."""
        near = self.spans[bisect_right(self._highest_ends, first) : bisect_left(self._starts, end)]
        return [_cut(span, first, end) for span in near if span.end_sequence > first]


def _cut(span: RecordSpan, first: int, end: int) -> RecordSpan:
    start, stop = max(first, span.first_sequence), min(end, span.end_sequence)
    return RecordSpan(
        claim=span.claim, first_sequence=start, base_offset=Offset(start + span.shift), count=stop - start
    )


def _covered(ascending: Iterable[RecordSpan]) -> int:
    covered = 0
    position: int | None = None
    for span in ascending:
        start = span.first_sequence if position is None else max(position, span.first_sequence)
        covered += max(0, span.end_sequence - start)
        position = max(start, span.end_sequence)
    return covered
