"""Records for a Fetch answer: from memory in the same call, from the files on the bulk lane.

Invariant: the records are in the log when they are handed out, in whole batches, none beyond the requested end. A file
is only read below the durable end. A truncation makes every read in progress stale, whatever it returns:

1. A follower asks for 5; the files hold 5-14, all durable. A read begins.
2. This node loses the leadership, and its log is truncated to 10.
3. The read returns 5-14, but records 10-14 are in no log now: the answer is NOT_LEADER_OR_FOLLOWER.

In memory are the newest batches (`RecentBatches`), contiguous up to the log end. A batch that is not durable yet is
never evicted, whatever the size. So a reader finds each offset there or in the files, and never needs a file for bytes
that are still being written.

Damage gets the same answer and is reported to scrubbing; no byte of a damaged batch is handed out.

At most READS_MAX reads run at a time, the others wait in order, and each request has at most one.

Source: Kafka's ``KafkaRaftLog.read`` (isolation UNCOMMITTED), which serves up to the log end; etcd
``raft/log_unstable.go``; the generation is ours.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, Protocol, TypeAlias

from pykraft.config import INT32_MAX
from pykraft.errors import CorruptionError, UsageError
from pykraft.host.ports import Ports
from pykraft.log.segment import SegmentView
from pykraft.protocol.batch import BatchHeader, batch_starts, read_header, scan
from pykraft.types import Buffer, Offset

RECENT_SIZE_BYTES_MAX: Final = 32 * 1024 * 1024
"""Above this many bytes, durable batches are evicted, oldest first."""
_SPENT_MIN: Final = 256
"""The lists are compacted only after this many evictions at the front."""

HeaderAndBytes: TypeAlias = tuple[BatchHeader, Buffer]
"""One whole batch with a valid CRC: its header and its bytes."""


class RecentBatches:
    """A window of the log that ends at the log end."""

    def __init__(self, *, end_offset: Offset, size_bytes_max: int = RECENT_SIZE_BYTES_MAX) -> None:
        self.end_offset = end_offset
        """The log end (exclusive)."""
        self._size_bytes_max = size_bytes_max
        self.size_bytes = 0
        """Bytes of all batches in memory."""
        self._batches: list[HeaderAndBytes] = []
        self._base_offsets: list[Offset] = []
        self._first = 0

    @property
    def start_offset(self) -> Offset:
        """Offset of the first batch in memory; the log end when there is none."""
        return self._base_offsets[self._first] if self._first < len(self._base_offsets) else self.end_offset

    def append(self, batches: Sequence[HeaderAndBytes]) -> None:
        for batch in batches:
            header, data = batch
            assert header.base_offset == self.end_offset, "batches follow each other"
            self._batches.append(batch)
            self._base_offsets.append(header.base_offset)
            self.size_bytes += len(data)
            self.end_offset = header.end_offset

    def truncate_to(self, end_offset: Offset) -> None:
        """The log was truncated: drop every batch that reaches beyond its new end."""
        at = bisect_left(self._base_offsets, end_offset, self._first)
        if at > self._first and self._batches[at - 1][0].end_offset > end_offset:
            at -= 1
        self.size_bytes -= sum(len(data) for _, data in self._batches[at:])
        del self._batches[at:]
        del self._base_offsets[at:]
        self.end_offset = end_offset

    def begin_anew_at(self, offset: Offset) -> None:
        """The log continues, empty, at this offset: drop everything."""
        self._batches.clear()
        self._base_offsets.clear()
        self._first = self.size_bytes = 0
        self.end_offset = offset

    def evict(self, flushed_end_offset: Offset) -> None:
        """Evict the oldest durable batches while there are too many bytes."""
        while self.size_bytes > self._size_bytes_max:
            header, data = self._batches[self._first]
            # Not durable yet, so readers find it only here.
            if header.end_offset > flushed_end_offset:
                break
            self._batches[self._first] = (header, b"")
            self._first += 1
            self.size_bytes -= len(data)
        # Compact rarely: deleting at the front of a list moves the rest of it.
        if self._first >= _SPENT_MIN and self._first * 2 > len(self._batches):
            del self._batches[: self._first]
            del self._base_offsets[: self._first]
            self._first = 0

    def take(self, offset: Offset, end_offset: Offset, size_bytes_max: int) -> list[HeaderAndBytes]:
        """Whole batches from the one that contains ``offset`` on, none that reaches beyond ``end_offset``.

        At least one, however large, if there is any; more while all fit into ``size_bytes_max``.
        """
        assert self.start_offset <= offset
        if offset >= self.end_offset:
            return []
        taken: list[HeaderAndBytes] = []
        size_bytes = 0
        for at in range(bisect_right(self._base_offsets, offset, self._first) - 1, len(self._batches)):
            header, data = self._batches[at]
            size_bytes += len(data)
            if header.end_offset > end_offset or (taken and size_bytes > size_bytes_max):
                break
            taken.append((header, data))
        return taken


READS_MAX: Final = 4
"""File reads for Fetches that run at one time."""

RecordBuffers: TypeAlias = Sequence[Buffer]
Then: TypeAlias = Callable[[RecordBuffers | None], None]
"""Gets the records, or None when the log was truncated meanwhile or is damaged there."""
Suspect: TypeAlias = Callable[[Offset, Callable[[], None]], None]
"""Gets an offset whose batch failed its check, and a callback in case a second read finds no damage."""


class ReadableLog(Protocol):
    """The part of `pykraft.log.log.Log` that any thread may use."""

    def read(self, offset: Offset, size_bytes_max: int) -> Buffer:
        """Whole batches from the one that contains ``offset`` on.

        Errors: UsageError outside of the log, CorruptionError for a damaged first batch.
        """

    def views(self) -> Sequence[SegmentView]:
        """All segments as readers see them now, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    offset: Offset
    end_offset: Offset
    size_bytes_max: int
    generation: int
    then: Then
    is_wanted: Callable[[], bool]


class FetchReads:
    """Reads of one log for its replicas."""

    def __init__(self, ports: Ports, log: ReadableLog, recent: RecentBatches, suspect: Suspect) -> None:
        self._ports = ports
        self._log = log
        self._recent = recent
        self._suspect = suspect
        self._generation = 0
        self._under_way = 0
        self._waiting: deque[_Wanted] = deque()

    def truncated(self) -> None:
        """Step 2: the log was truncated, so reads in progress are stale."""
        self._generation += 1

    def read(
        self,
        offset: Offset,
        end_offset: Offset,
        size_bytes_max: int,
        then: Then,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Pass records of [offset, end_offset) to ``then``, now or later; at least one whole batch if there is one.

        ``end_offset`` is at most the log end. If ``is_wanted`` is false when the read's turn comes, it is skipped and
        ``then`` is not called.
        """
        if offset >= end_offset:
            then(())
        elif offset >= self._recent.start_offset:
            then([data for _, data in self._recent.take(offset, end_offset, size_bytes_max)])
        else:
            wanted = _Wanted(
                offset=offset,
                # Read files only below the batches in memory, and so never beyond the durable end.
                end_offset=min(end_offset, self._recent.start_offset),
                size_bytes_max=size_bytes_max,
                generation=self._generation,
                then=then,
                is_wanted=is_wanted,
            )
            self._waiting.append(wanted)
            self._begin()

    def recent_size_bytes(self, offset: Offset, end_offset: Offset) -> int | None:
        """Bytes of the batches from ``offset`` on up to ``end_offset``; None when one of them is only in the files.

        Control batches do not count, since consumers get none.
        """
        if offset < self._recent.start_offset:
            return None
        found = self._recent.take(offset, end_offset, INT32_MAX)
        return sum(len(data) for header, data in found if not header.is_control)

    def find_batch(self, offset: Offset, then: Callable[[Offset | None], None]) -> None:
        """Pass ``then`` the start of the batch that contains ``offset``, which is in the log; now or later.

        None when the log was truncated meanwhile or is damaged there.
        """

        def take(records: RecordBuffers | None) -> None:
            then(None if not records else Offset(next(scan(records[0], verify_crc=False))[1].base_offset))

        self.read(offset, self._recent.end_offset, 0, take)

    def _begin(self) -> None:
        while self._waiting and self._under_way < READS_MAX:
            wanted = self._waiting.popleft()
            # A client that connects, asks and hangs up costs no read.
            if wanted.is_wanted():
                self._under_way += 1
                self._submit(wanted)

    def _submit(self, wanted: _Wanted) -> None:
        self._ports.submit_read(
            lambda: read_durable(self._log, wanted.offset, wanted.size_bytes_max), lambda data: self._done(wanted, data)
        )

    def _done(self, wanted: _Wanted, data: Buffer | CorruptionError | None) -> None:
        self._under_way -= 1
        self._begin()
        # Step 3: the log was truncated after this read had begun (step 1).
        if wanted.generation != self._generation:
            wanted.then(None)
            return
        if isinstance(data, CorruptionError):
            # The same answer for damage: no byte of a damaged batch is handed out.
            self._suspect(wanted.offset, _leave_it)
            wanted.then(None)
            return
        assert data is not None, "what is durable and was not truncated can be read"
        wanted.then([cut(data, wanted.end_offset)])


def _leave_it() -> None:
    """No retry: the follower was already told to ask again."""


def read_durable(log: ReadableLog, offset: Offset, size_bytes_max: int) -> Buffer | CorruptionError | None:
    """Read the log in any thread; None when it was truncated below ``offset`` meanwhile.

    Damage is returned; a disk that cannot be read raises. Errors: StorageError.
    """
    try:
        return log.read(offset, size_bytes_max)
    except UsageError:
        return None
    except CorruptionError as damage:
        return damage


def batches_up_to(end_offset: Offset, data: Buffer) -> list[HeaderAndBytes]:
    """The batches in ``data`` up to ``end_offset``, as views."""
    view = memoryview(data)
    found = takewhile(lambda placed: placed[1].end_offset <= end_offset, scan(data, verify_crc=False))
    return [(header, view[position : position + header.size_bytes]) for position, header in found]


def cut(data: Buffer, end_offset: Offset) -> Buffer:
    """The bytes of the batches in ``data`` up to ``end_offset``, without a copy."""
    end = 0
    while len(starts := batch_starts(data, end)) > 1:
        # Their offsets ascend, so only a few headers are read: there may be ten thousands.
        count = bisect_right(starts, end_offset, hi=len(starts) - 1, key=lambda at: read_header(data, at).end_offset)
        end = starts[count]
        if count < len(starts) - 1:
            break
    return data if end == len(data) else memoryview(data)[:end]
