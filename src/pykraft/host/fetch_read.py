"""Records for the answer to a Fetch: from memory in the same call, from the files on the bulk lane.

Invariant: what is handed out was in the log when it is handed out, in whole batches, none beyond the end that was
asked for. A file is only read below the end that is durable, and a truncation makes every read that was under way
stale, whatever it returns:

1. a follower asks for 5, the files hold 5-14 and all is durable; a read begins; 2. this node loses the leadership,
and its log is cut to 10; 3. the read returns 5-14. Records 10-14 are no part of any log: the answer is
NOT_LEADER_OR_FOLLOWER.

Damage gets the same answer, and is passed on to whoever looks into it: nothing of a damaged batch is handed out.

Bounded: so many reads at a time, the others wait in order; there is at most one for each request.

It refuses to know requests and how records are put into an answer.

Source: Kafka's ``KafkaRaftLog.read`` (isolation UNCOMMITTED); the generation is ours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from pykraft.errors import CorruptionError, UsageError
from pykraft.host.ports import Ports
from pykraft.host.recent import RecentBatches
from pykraft.protocol.batch import scan
from pykraft.types import Buffer, Offset

READS_MAX: Final = 4
"""Reads of files for fetches that are under way at one time."""

Records: TypeAlias = Sequence[Buffer]
Then: TypeAlias = Callable[[Records | None], None]
"""Takes the records, or None when the log was truncated in the meantime, or is damaged there."""
Suspect: TypeAlias = Callable[[Offset, Callable[[], None]], None]
"""Is told an offset whose batch could not be read as it was written, and whom to call if it can, after all."""


class ReadableLog(Protocol):
    """The part of `pykraft.log.log.Log` that any thread may use."""

    def read(self, offset: Offset, size_bytes_max: int) -> Buffer:
        """Whole batches from the one that holds ``offset`` on.

        Errors: UsageError outside of the log, CorruptionError for a damaged first batch.
        """
        ...


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
        """The log was cut: reads that have not returned are stale."""
        self._generation += 1

    def read(
        self,
        offset: Offset,
        end_offset: Offset,
        size_bytes_max: int,
        then: Then,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Hand records of [offset, end_offset) to ``then``, now or later; at least one whole batch if there is one.

        ``end_offset`` is at most the log end. A read that ``is_wanted`` no more when its turn comes is left out, and
        ``then`` is not called.
        """
        if offset >= end_offset:
            then(())
        elif offset >= self._recent.start_offset:
            then([data for _, data in self._recent.take(offset, end_offset, size_bytes_max)])
        else:
            wanted = _Wanted(
                offset=offset,
                end_offset=min(end_offset, self._recent.start_offset),
                size_bytes_max=size_bytes_max,
                generation=self._generation,
                then=then,
                is_wanted=is_wanted,
            )
            self._waiting.append(wanted)
            self._begin()

    def find_batch(self, offset: Offset, then: Callable[[Offset | None], None]) -> None:
        """Hand ``then`` the offset at which the batch begins that holds ``offset``, which the log does, now or later.

        None when the log was truncated in the meantime, or is damaged there.
        """

        def found(records: Records | None) -> None:
            then(None if not records else Offset(next(scan(records[0], verify_crc=False))[1].base_offset))

        self.read(offset, self._recent.end_offset, 0, found)

    def _begin(self) -> None:
        while self._waiting and self._under_way < READS_MAX:
            wanted = self._waiting.popleft()
            if wanted.is_wanted():  # whoever connects, asks and hangs up costs no reads
                self._under_way += 1
                self._submit(wanted)

    def _submit(self, wanted: _Wanted) -> None:
        self._ports.submit_read(
            lambda: read_durable(self._log, wanted.offset, wanted.size_bytes_max),
            lambda data: self._done(wanted, data),
        )

    def _done(self, wanted: _Wanted, data: Buffer | CorruptionError | None) -> None:
        self._under_way -= 1
        self._begin()
        if wanted.generation != self._generation:
            wanted.then(None)
            return
        if isinstance(data, CorruptionError):
            self._suspect(wanted.offset, _leave_it)
            wanted.then(None)
            return
        assert data is not None, "what is durable and was not truncated can be read"
        wanted.then([cut(data, wanted.end_offset)])


def _leave_it() -> None:
    """Nobody waits: the follower was told to ask again."""


def read_durable(log: ReadableLog, offset: Offset, size_bytes_max: int) -> Buffer | CorruptionError | None:
    """Read a file, in whatever thread; None when the log was cut below ``offset`` since it was asked for.

    Damage is an answer, too; a disk that cannot be read is none. Errors: StorageError.
    """
    try:
        return log.read(offset, size_bytes_max)
    except UsageError:
        return None
    except CorruptionError as damage:
        return damage


def cut(data: Buffer, end_offset: Offset) -> Buffer:
    """The batches in ``data`` up to ``end_offset``; no copy."""
    size_bytes = 0
    for position, header in scan(data, verify_crc=False):
        if header.end_offset > end_offset:
            break
        size_bytes = position + header.size_bytes
    return data if size_bytes == len(data) else memoryview(data)[:size_bytes]
