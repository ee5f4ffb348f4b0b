"""Walks over the batches of one segment file, even while its node keeps writing.

The walk reads every batch header, because it says where the batch ends, and no records. Where no batch follows,
`pykraft.log.judge` says why: the walk ends at a torn tail; damage, and an end of which no file says whether it was
synced, is an error or, if the caller wants to continue, a span of bytes without records. CRCs are computed only of
batches that may not have been synced; the tasks that read the records compute all others. A node may append or truncate
after the evidence was read, so the walk reads it again before it believes a problem.

Invariant: the spans follow each other without a gap of offsets, and each is either sound or damaged.

Source: KIP-595 (log layout); Kafka's ``FileRecords``, ``LogSegment.recover``.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from pykraft.errors import CorruptionError, ProtocolError
from pykraft.log.evidence import ALL_SYNCED, read_evidence
from pykraft.log.fs import File, Fs
from pykraft.log.judge import Chain, EpochError, Evidence, Verdict
from pykraft.log.paths import LOG, parse_segment_file
from pykraft.log.scan import scan_headers
from pykraft.log.tail import SECTOR_SIZE_BYTES, Expected, verdict_on, written_end
from pykraft.protocol.batch import BatchHeader, check_crc
from pykraft.types import EPOCH_ZERO, Offset

LOOK_INTERVAL_S: Final = 0.01
LOOKS_MAX: Final = 30
"""How often to read a batch that may be in flight; writing the rest of a sector takes microseconds."""
UNPROVEN: Final = (
    "without a recovery-point file nobody knows whether these bytes were synced: compare the log with another replica's"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpan:
    """Bytes of a segment: one valid batch, several, or, if ``damage`` is set, bytes that should be batches.

    Offsets: ``end_offset`` is exclusive; for damage they are where its first batch should start, and where the batch
    after it starts, which is the same offset if nothing follows. ``header`` is that of the last batch, which starts at
    ``last_position``, and ``first`` that of the first; if these are two batches, the ones between were not read.
    """

    segment: Path
    position: int
    last_position: int
    end_position: int
    offset: Offset
    end_offset: Offset
    first: BatchHeader | None
    header: BatchHeader | None
    damage: str | None = None

    @property
    def is_coarse(self) -> bool:
        """True if it may hold several batches."""
        return self.position != self.last_position


@dataclass(slots=True, kw_only=True)
class WalkState:
    """How far a walk is in a segment, the batch that must come next, and what the judge needs to know."""

    fs: Fs
    segment: Path
    later: Sequence[Path]
    """The segments after it in the directory."""
    position: int
    expected: Expected
    evidence: Evidence
    is_over: bool = False
    """True once the log has ended, even if segments follow."""

    def pass_over(self, one: BatchSpan) -> None:
        """Continue after it."""
        self.position = one.end_position
        self.expected = Expected(base_offset=one.end_offset, epoch=one.header.epoch if one.header else EPOCH_ZERO)

    def pass_batches(self, begin: tuple[int, BatchHeader], last: tuple[int, BatchHeader]) -> BatchSpan:
        """Continue after the batches from one to another, each with its position; the span that they are."""
        (position, first), (last_position, header) = begin, last
        one = BatchSpan(
            segment=self.segment,
            position=position,
            last_position=last_position,
            end_position=last_position + header.size_bytes,
            offset=first.base_offset,
            end_offset=header.end_offset,
            first=first,
            header=header,
        )
        self.pass_over(one)
        return one

    def chain(self) -> Chain:
        offset, epoch = self.expected.base_offset, self.expected.epoch
        return Chain(self.evidence, offset, epoch, segment_offset=base_offset_of(self.segment))


@lru_cache(maxsize=65_536)
def segment_offset(name: str) -> Offset | None:
    """The base offset in the name of a segment; None for another file. Each trigger reads all names again."""
    parsed = parse_segment_file(name)
    return parsed[0] if parsed is not None and parsed[1] == LOG else None


def base_offset_of(segment: Path) -> Offset:
    offset = segment_offset(segment.name)
    assert offset is not None, f"{segment} is not a segment"
    return offset


def walk_segment(state: WalkState, *, tolerant: bool) -> Iterator[BatchSpan]:
    """The rest of one segment; the state goes along.

    Errors: CorruptionError for damage and for an unproven end, unless ``tolerant``; StorageError.
    """
    believed_at = -1
    with closing(state.fs.open(state.segment)) as file:
        while True:
            try:
                yield from _batches(state, file)
            except CorruptionError as problem:
                if believed_at != state.position:
                    # The node may have begun an epoch or truncated its log since the evidence was read.
                    believed_at = state.position
                    state.evidence = read_evidence(state.fs, state.segment.parent)
                    continue
                verdict = _verdict_on(state, problem)
                if verdict is Verdict.TORN:
                    state.is_over = True
                    return
                if not tolerant:
                    raise error_of(problem, verdict) from problem
                damage = _damage(state, file.size(), str(problem))
                state.pass_over(damage)
                yield damage
            return


def batches_within(fs: Fs, one: BatchSpan) -> Iterator[BatchSpan]:
    """The batches of a valid span. Errors: CorruptionError, StorageError."""
    assert one.first is not None
    state = WalkState(
        fs=fs,
        segment=one.segment,
        later=(),
        position=one.position,
        expected=Expected(base_offset=one.offset, epoch=one.first.epoch),
        evidence=ALL_SYNCED,
    )
    for batch in walk_segment(state, tolerant=False):
        yield batch
        if batch.end_position >= one.end_position:
            return


def _batches(state: WalkState, file: File) -> Iterator[BatchSpan]:
    """The batches up to the end of the segment. Errors: CorruptionError where none follows; the state is there then."""
    size_bytes = file.size()
    written = size_bytes if state.later else written_end(file)
    chain = state.chain()
    for at, header in scan_headers(state.segment, file, state.position, size_bytes):
        end_position = at + header.size_bytes
        if state.evidence.is_unsynced(header):
            _check_crc(state.segment, file, at, header)
        elif end_position > written - SECTOR_SIZE_BYTES and written < size_bytes:
            _check_written(state.segment, file, at, header, written)
        try:
            chain.check(state.segment, at, header)
        except EpochError:
            # An epoch tells something only in a whole batch.
            _check_crc(state.segment, file, at, header)
            raise
        yield state.pass_batches((at, header), (at, header))
    if state.later:
        chain.begin_segment(state.later[0], base_offset_of(state.later[0]))
    elif (missing := state.evidence.missing_end(state.segment, state.position, chain.offset)) is not None:
        raise missing


def _verdict_on(state: WalkState, problem: CorruptionError) -> Verdict:
    later = [segment for segment in state.later if segment != Path(problem.path)]
    return verdict_on(problem, state.expected, state.evidence, fs=state.fs, later=later)


def error_of(problem: CorruptionError, verdict: Verdict) -> CorruptionError:
    """The error for a caller that cannot continue without these bytes."""
    repair = UNPROVEN if verdict is Verdict.UNPROVEN else None
    return CorruptionError(
        problem.path, position=problem.position, expected=problem.expected, found=problem.found, repair=repair
    )


def _damage(state: WalkState, size_bytes: int, text: str) -> BatchSpan:
    """The rest of the segment, which does not hold the batches that it should."""
    offset = state.expected.base_offset
    return BatchSpan(
        segment=state.segment,
        position=state.position,
        last_position=state.position,
        end_position=size_bytes,
        offset=offset,
        end_offset=max(offset, base_offset_of(state.later[0])) if state.later else offset,
        first=None,
        header=None,
        damage=text,
    )


def _check_crc(segment: Path, file: File, position: int, header: BatchHeader) -> None:
    """Errors: CorruptionError when the CRC is wrong."""
    try:
        check_crc(file.pread(header.size_bytes, position), 0, header)
    except ProtocolError as error:
        raise CorruptionError(segment, position=position, expected="a whole batch", found=str(error)) from error


def _check_written(segment: Path, file: File, position: int, header: BatchHeader, written: int) -> None:
    """Reject the last batch before preallocated space if some of its bytes were never written."""
    # Bytes that are missing only in its last sector may be in flight: a running node writes them in the next moment.
    looks = 1 if position + header.size_bytes > written else LOOKS_MAX
    for left in reversed(range(looks)):
        try:
            _check_crc(segment, file, position, header)
        except CorruptionError:
            if left == 0:
                raise
            _let_it_write()
        else:
            return


def _let_it_write() -> None:
    time.sleep(LOOK_INTERVAL_S)
