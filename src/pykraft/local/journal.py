"""A journal: JSON lines with what nodes said that they committed, kept outside the nodes; and the records of a log.

`pykraft server --ack-fd` writes the events into a pipe, and the process that started the node reads them there, so a
killed node cannot take back what it said. Invariant: a parsed event has the right types and ranges.

The head of a record's value (big-endian), random bytes after it:

| offset | size | field |
|---|---|---|
| 0 | 8 | run: drawn by a node when it starts, never all zeros |
| 8 | 4 | epoch int32, in which the leader claimed to lead |
| 12 | 8 | sequence int64, from 0 in each claim |

A value that is shorter, or whose run is zero, is not the workload's (the payload of Kafka's TestRaftServer is zeros)
and is skipped.
"""

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from math import inf
from typing import Final, TypeAlias

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.records import BatchHeader, decode_values, scan
from pykraft.types import Buffer, Epoch, NodeId, Offset

RUN_SIZE_BYTES: Final = 8
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
