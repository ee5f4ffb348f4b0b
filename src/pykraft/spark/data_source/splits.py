"""What one Spark task reads: splits of whole batches, cut from a walk over a replica's log, within a query's bounds.

A split has the range of wanted offsets, since a requested offset may lie within a batch. A damaged span is a split of
its own and becomes one row that reports it. The driver makes the plan, and a live directory may change before a task
reads its split. So a split has offset, epoch and CRC of its first and its last batch, which the reader checks: logs
that have a batch of the same offset and epoch are equal up to it. Nothing here needs Spark or NumPy.

Invariant: a split is whole batches of one segment; the splits of a plan are the requested chunk of the log, each batch
once. A bound never leaves out a wanted row.

Source: KIP-98, KIP-595 (log layout); Raft §5.3 (Log Matching).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from pykraft.errors import CorruptionError, ProtocolError, StorageError, TruncatedLogError
from pykraft.log.evidence import read_evidence
from pykraft.log.fs import File, Fs
from pykraft.log.judge import Chain, EpochError, Verdict
from pykraft.log.paths import LOG
from pykraft.log.tail import Expected, verdict_from
from pykraft.object_storage.files import Files, expect_reads
from pykraft.object_storage.uris import located
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader, BatchRun, read_header, scan
from pykraft.spark.data_source.segment_walk import BatchSpan, base_offset_of, batches_within, error_of
from pykraft.spark.data_source.walk import OFFSET_MAX, SPLIT_SIZE_BYTES, Cursor, after, weight_of
from pykraft.types import Buffer, Epoch, Offset

OPEN_SIZE_BYTES = 1024 * 1024
"""To open a segment, and to read what other files say about its log, counts as so many bytes."""
TASKS_FEW = 32
TASK_SIZE_BYTES_MIN = 4 * 1024 * 1024
CHUNK_SIZE_BYTES = 4 * 1024 * 1024
"""About how much of it is in memory at one time: what a processor's cache holds is decoded in two thirds of the time.
"""
DELETED = ".deleted"
OFFSET_MIN = Offset(0)
EPOCH_MIN: Final = Epoch(-1)
"""Of a batch that no leader of a quorum wrote."""
EPOCH_MAX: Final = Epoch(2**31 - 1)
TIMESTAMP_MS_MIN: Final = -(2**63)


class FoundHeaders(Protocol):
    """Headers of batches that follow each other in some bytes."""

    def __len__(self) -> int: ...

    def pair(self, index: int) -> tuple[int, BatchHeader]:
        """Position and header of one batch; a negative index counts from the end."""

    def pairs(self) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch."""

    def run(self, shift: int) -> BatchRun | None:
        """What a run of all of them would span in a file, in which the bytes begin at ``shift``; None if they are none.

        It has one entry for all, and no times. Nobody has compared their CRCs.
        """


class ScannedHeaders:
    """An object for each header. They are no run: that is found out in the time that it would save."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Sequence[tuple[int, BatchHeader]]) -> None:
        self._pairs = pairs

    def __len__(self) -> int:
        return len(self._pairs)

    def pair(self, index: int) -> tuple[int, BatchHeader]:
        """See `FoundHeaders`."""
        return self._pairs[index]

    def pairs(self) -> Iterator[tuple[int, BatchHeader]]:
        """See `FoundHeaders`."""
        return iter(self._pairs)

    def run(self, shift: int) -> BatchRun | None:
        """See `FoundHeaders`."""


def scanned_headers(data: Buffer) -> ScannedHeaders:
    """Those of the whole batches at the beginning, up to the first that is cut or has no valid header."""
    pairs: list[tuple[int, BatchHeader]] = []
    # A bad header is reported once it is the first: the batches before it still count.
    with suppress(ProtocolError):
        pairs.extend(scan(data, verify_crc=False))
    return ScannedHeaders(pairs)


H = TypeVar("H", bound=FoundHeaders)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchIdentity:
    """Identifies a batch."""

    base_offset: Offset
    end_offset: Offset
    epoch: Epoch
    crc: int

    @classmethod
    def of(cls, header: BatchHeader) -> BatchIdentity:
        return cls(base_offset=header.base_offset, end_offset=header.end_offset, epoch=header.epoch, crc=header.crc)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where batches are from, and their wanted offsets, the end excluded.

    Batches of a live quorum have no ``replica`` and no ``position``, and ``path`` only names the quorum in messages;
    they have the ``topic`` that the directory's name says of others.
    """

    replica: str | None = None
    path: str
    topic: str | None = None
    position: int = 0
    start_offset: Offset = OFFSET_MIN
    end_offset: Offset = OFFSET_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Split(Origin):
    """Whole batches of one segment, from ``position`` to ``end_position``.

    Ends are exclusive. ``first`` and ``last`` are its first and last batch, None if no plan knows them. If ``damage``
    is set, these bytes are not batches; a batch should start there at ``start_offset``.
    """

    end_position: int = 0
    first: BatchIdentity | None = None
    last: BatchIdentity | None = None
    damage: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What may hold wanted rows. ``offset_end`` is exclusive, all others inclusive; ``replicas`` is None for all."""

    offset_min: Offset = OFFSET_MIN
    offset_end: Offset = OFFSET_MAX
    epoch_min: Epoch = EPOCH_MIN
    epoch_max: Epoch = EPOCH_MAX
    timestamp_ms_min: int = TIMESTAMP_MS_MIN
    replicas: frozenset[str] | None = None

    def has_replica(self, name: str) -> bool:
        """Whether rows of this replica are wanted."""
        return self.replicas is None or name in self.replicas

    def may_hold(self, split: Split) -> bool:
        """Whether a split may hold wanted rows, as its first and last epoch tell: epochs never fall in a log."""
        if split.first is None or split.last is None:
            return True
        return split.first.epoch <= self.epoch_max and split.last.epoch >= self.epoch_min


EVERYTHING = Bounds()


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitChunk(Generic[H]):
    """Whole batches of a split: their bytes and headers."""

    split: Split
    """The split, narrowed to these batches."""
    data: Buffer
    headers: H


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The latest end of a plan: an offset (exclusive), or this many records or bytes, but at least one batch."""

    end_offset: Offset = OFFSET_MAX
    records_max: int | None = None
    size_bytes_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPlan:
    """The splits in order, and the cursor after them."""

    splits: tuple[Split, ...]
    end: Cursor


def plan_splits(
    replica: str | None,
    start: Cursor,
    spans: Iterable[BatchSpan],
    *,
    start_offset: Offset,
    limit: Limit,
    size_bytes: int = SPLIT_SIZE_BYTES,
    fs: Fs | None = None,
) -> SplitPlan:
    """Cut the result of a walk from ``start`` on into splits of about this many bytes; rows start at ``start_offset``.

    If the limit falls into a span of many batches, their headers are read one by one, through ``fs``.

    Errors: those of the walk.
    """
    cut = _Cut(replica, start, start_offset=start_offset, limit=limit, size_bytes=size_bytes)
    for one in spans:
        if cut.has_room(one):
            cut.take(one)
            continue
        for batch in batches_within(fs or Files(), one) if one.is_coarse else (one,):
            if not cut.has_room(batch):
                break
            cut.take(batch)
        break
    return SplitPlan(splits=tuple(cut.splits), end=cut.end)


class _Cut:
    def __init__(
        self, replica: str | None, start: Cursor, *, start_offset: Offset, limit: Limit, size_bytes: int
    ) -> None:
        self._replica = replica
        self._start_offset = start_offset
        self._limit = limit
        self._split_size_bytes = size_bytes
        self._records = self._size_bytes = 0
        self.splits: list[Split] = []
        self.end = start

    def has_room(self, one: BatchSpan) -> bool:
        """Whether this is within the limit; the first batch always is, unless it starts after the end."""
        limit = self._limit
        if one.offset >= limit.end_offset or (one.is_coarse and one.end_offset > limit.end_offset):
            return False
        if not self._size_bytes and not one.is_coarse:
            return True
        records = self._records + one.end_offset - one.offset
        size_bytes = self._size_bytes + one.end_position - one.position
        return (limit.records_max is None or records <= limit.records_max) and (
            limit.size_bytes_max is None or size_bytes <= limit.size_bytes_max
        )

    def take(self, one: BatchSpan) -> None:
        """Add it to the last split, or start another one."""
        self._records += one.end_offset - one.offset
        self._size_bytes += one.end_position - one.position
        self.end = after(one, self.end)
        first, last = (None if header is None else BatchIdentity.of(header) for header in (one.first, one.header))
        if self.splits and _goes_on(self.splits[-1], one, self._split_size_bytes):
            self.splits[-1] = replace(self.splits[-1], end_position=one.end_position, last=last)
            return
        self.splits.append(
            Split(
                replica=self._replica,
                path=str(one.segment),
                position=one.position,
                end_position=one.end_position,
                start_offset=self._start_offset if one.damage is None else one.offset,
                end_offset=self._limit.end_offset,
                first=first,
                last=last,
                damage=one.damage,
            )
        )


def _goes_on(split: Split, one: BatchSpan, size_bytes: int) -> bool:
    is_same = split.path == str(one.segment) and split.damage is None and one.damage is None
    return is_same and one.end_position - split.position <= size_bytes // weight_of(one.header)


def packed(splits: Sequence[Split], *, tasks_min: int | None = None) -> list[tuple[Split, ...]]:
    """Put small splits together, in order: a task costs more than the opening of a file.

    `TASKS_FEW` tasks are enough for small splits; ``tasks_min`` asks for more.
    """
    weights = [split.end_position - split.position + OPEN_SIZE_BYTES for split in splits]
    few = max(TASK_SIZE_BYTES_MIN, sum(weights) // TASKS_FEW)
    most = min(SPLIT_SIZE_BYTES, few, sum(weights) // (tasks_min or 1))
    groups: list[list[Split]] = []
    room = 0
    for split, weight in zip(splits, weights, strict=True):
        if weight > room:
            groups.append([])
            # Beside a large one there is room for a small one, such as the newest segment of an idle quorum.
            room = most if tasks_min is not None else max(most, weight + 2 * OPEN_SIZE_BYTES)
        groups[-1].append(split)
        room -= weight
    return [tuple(group) for group in groups]


def read_chunks(split: Split, *, size_bytes: int = CHUNK_SIZE_BYTES) -> Iterator[SplitChunk[ScannedHeaders]]:
    """As `chunks_with`, without NumPy."""
    return chunks_with(scanned_headers, split, size_bytes=size_bytes)


def chunks_with(
    read_headers: Callable[[Buffer], H], split: Split, *, size_bytes: int = CHUNK_SIZE_BYTES
) -> Iterator[SplitChunk[H]]:
    """A split in chunks of whole batches, so that only one needs to be in memory; each header is parsed once.

    A chunk has about ``size_bytes``, or one batch. ``read_headers`` returns the headers of the whole batches at the
    beginning of some bytes.

    Errors: TruncatedLogError when the log was written anew since the plan was made; CorruptionError when the file is no
    longer as it was, or a batch contradicts the other files; StorageError when it cannot be read.
    """
    try:
        yield from _read_chunks(read_headers, split, max(size_bytes, HEADER_SIZE_BYTES))
    except CorruptionError as problem:
        raise judged(split, problem) from problem


def _read_chunks(read_headers: Callable[[Buffer], H], split: Split, least: int) -> Iterator[SplitChunk[H]]:
    with closing(_open(Files(), located(split.path))) as file:
        expect_reads(file, split.position, split.end_position)
        position, wanted = split.position, least
        follow = _Follow(split, split.first) if split.first is not None else None
        while position < split.end_position:
            data = file.pread(min(wanted, split.end_position - position), position)
            headers = read_headers(data)
            if len(headers):
                at, last = headers.pair(-1)
                end = at + last.size_bytes
                if follow is not None:
                    follow.take(position, headers)
                chunk = replace(split, position=position, end_position=position + end)
                yield SplitChunk(split=chunk, data=memoryview(data)[:end], headers=headers)
                position, wanted = position + end, least
            elif wanted < (next_size_bytes := _size_of_next(data)) <= split.end_position - position:
                wanted = next_size_bytes
            else:
                found = f"{len(data)} bytes of something else"
                raise CorruptionError(split.path, position=position, expected="a whole batch", found=found)


class _Follow:
    def __init__(self, split: Split, first: BatchIdentity) -> None:
        self._split = split
        self._first = first
        self._segment = located(split.path)
        self._chain: Chain | None = None

    def take(self, position: int, headers: FoundHeaders) -> None:
        """The next batches, whose bytes begin at this position. Errors: as `read_chunks`."""
        chain = self._chain
        if chain is None:
            found = BatchIdentity.of(headers.pair(0)[1])
            if found != self._first:
                raise _rewritten(self._split, position, found, self._first)
            chain = self._chain = self._new_chain(self._first.base_offset, self._first.epoch)
        run = headers.run(position)
        for at, header in () if run is not None and chain.check_run(run) else headers.pairs():
            try:
                chain.check(self._segment, position + at, header)
            except EpochError:
                # A running node may have begun the epoch since the evidence was read.
                chain = self._chain = self._new_chain(chain.offset, chain.epoch)
                chain.check(self._segment, position + at, header)
        at, header = headers.pair(-1)
        last = BatchIdentity.of(header)
        if position + at + header.size_bytes == self._split.end_position and last != self._split.last:
            raise _rewritten(self._split, position, last, self._split.last)

    def _new_chain(self, offset: Offset, epoch: Epoch) -> Chain:
        evidence = read_evidence(Files(), self._segment.parent)
        return Chain(evidence, offset, epoch, segment_offset=base_offset_of(self._segment))


def judged(split: Split, problem: CorruptionError) -> CorruptionError:
    """The error for a batch that only its reader found bad, with what the judge says. Errors: StorageError."""
    if split.first is None:
        return problem
    fs, segment = Files(), located(split.path)
    evidence = read_evidence(fs, segment.parent)
    expected = Expected(base_offset=split.first.base_offset, epoch=split.first.epoch)

    def judge_bytes() -> Verdict:
        names = fs.listdir(segment.parent)
        later = [segment.with_name(name) for name in sorted(names) if name > segment.name and name.endswith(LOG)]
        return verdict_from(fs, segment, problem.position, expected, later=later)

    return error_of(problem, evidence.verdict_on(problem, expected.base_offset, judge_bytes=judge_bytes))


def _rewritten(split: Split, position: int, found: BatchIdentity, planned: BatchIdentity | None) -> TruncatedLogError:
    return TruncatedLogError(
        f"{split.path}: near position {position} stands {found}, where {planned} stood when the plan was made: the log "
        "was cut back and rewritten. A replica may lose what it has not committed. Read a live quorum with the option "
        "bootstrap.controllers, or ask again; a stream needs another checkpoint"
    )


def _open(fs: Files, segment: Path) -> File:
    """Open a segment, under its .deleted name if its node has just deleted it. Errors: StorageError."""
    try:
        return fs.open(segment)
    except StorageError:
        deleted = segment.with_name(segment.name + DELETED)
        if not fs.exists(deleted):
            raise
    return fs.open(deleted)


def _size_of_next(data: Buffer) -> int:
    """The size of the batch of which only the beginning is here; 0 when it has no valid header."""
    try:
        return read_header(data).size_bytes
    except ProtocolError:
        return 0
