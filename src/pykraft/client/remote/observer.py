"""Reads the committed batches of a live quorum, as a replica without an id and without a log of its own.

Invariant: an observer returns each committed batch from its start on, once and in order, below the high watermark, with
the right CRC and epochs that never go back, whatever happens to leaders and connections. How it reads:

1. It asks any node for an offset that no log contains (2^60). A node that does not lead names the leader; the leader
   answers with its high watermark. Now the start is known: the log start, the high watermark, or an offset between.
2. It fetches like a follower: the leader answers when it has records, or when the high watermark has moved. In the
   middle of a log the epoch of the record before is unknown: it names the leader's own epoch instead, for which a
   leader's log contains every offset below its end.
3. If the leader fails or no longer leads, it searches among all known nodes, and fetches uncommitted batches again,
   since the new leader may never have had them.

A leader with snapshots answers a fetch from offset 0 or the log start with a snapshot id. With ``load_snapshot`` an
observer then fetches the snapshot into a temporary file, hands it over, and continues where it ends. Any other begins
at the first record that the log still has; at a log start above 0 it must name the epoch of the record before it
(`epoch_before`). A leader answers a fetch beyond the end of any log with the last epoch up to the one in the request;
or, if that epoch is older than the oldest snapshot, with a snapshot id. So the smallest epoch that does not get a
snapshot id is the one.

Source: KIP-595 §Fetch, KIP-1166 (the high watermark in the request), KIP-630 §FetchSnapshot; Kafka's observers
(brokers) and ``KafkaRaftLog.validateOffsetAndEpoch``; KAFKA-18723 (a replica must check what it fetched).
"""

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Self, TypeAlias

from pykraft.client.reader import StateReader, read_in_a_thread
from pykraft.client.remote.leader_search import PATIENCE, LeaderFetch, Patience
from pykraft.client.serde import bytes_serde
from pykraft.config import METADATA_TOPIC_ID, METADATA_TOPIC_NAME, TEST_TOPIC_ID, TEST_TOPIC_NAME
from pykraft.core.messages import FetchRequest, FetchResponse, FetchSnapshotRequest, FetchSnapshotResponse
from pykraft.errors import ErrorCode, ProtocolError, QuorumUnavailableError, UsageError, error_name
from pykraft.host.delivery import CommittedBatch
from pykraft.log.os_fs import OsFs
from pykraft.protocol.batch import BATCHES_MAX, BatchRun
from pykraft.rpc.fetched import read_runs
from pykraft.security.settings import IN_THE_CLEAR, Security
from pykraft.snapshot.download import Download
from pykraft.snapshot.files import checkpoint_path, stem_of
from pykraft.snapshot.head import SnapshotReader
from pykraft.types import Buffer, Endpoint, Epoch, Offset, OffsetAndEpoch, Uuid


class SnapshotFetch:
    """The fetches of one observer, in one event loop; a thread writes the files."""

    def __init__(self, leader: LeaderFetch, patience: Patience, *, size_bytes_max: int) -> None:
        """``size_bytes_max`` limits one slice."""
        self._leader = leader
        self._timeout_s = patience.timeout_ms / 1_000
        self._size_bytes_max = size_bytes_max
        self._folder: TemporaryDirectory[str] | None = None
        self._stuck_since_s: float | None = None

    def close(self) -> None:
        """Remove everything that was fetched."""
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.cleanup()

    async def fetch(self, snapshot_id: OffsetAndEpoch) -> Path | None:
        """The file of this snapshot, complete; None when the caller must ask the leader again which snapshot to fetch.

        Errors: QuorumUnavailableError when no byte of any snapshot arrived within the time limit for a leader;
        StorageError for the temporary file.
        """
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="pykraft-snapshot-")
        directory = Path(self._folder.name)
        epoch = self._leader.epoch
        download = Download(OsFs(), directory, snapshot_id, leader_epoch=epoch)
        try:
            while not await asyncio.to_thread(download.catch_up):
                pass
            is_whole = download.is_whole
            while not is_whole:
                found = await self._slice(download, epoch)
                if found is None:
                    self._give_up_when_stuck(snapshot_id)
                    await self._leader.pause()
                    return None
                is_whole = found
            await asyncio.to_thread(download.freeze)
        except ProtocolError as error:
            # The leader sent bytes that cannot be a snapshot, so do not resume this download.
            download.abandon()
            self._leader.reject(str(error))
            self._give_up_when_stuck(snapshot_id)
            return None
        finally:
            download.close()
        return checkpoint_path(directory, snapshot_id)

    async def _slice(self, download: Download, epoch: Epoch) -> bool | None:
        """Fetch the next bytes; True when they are the last. None when this leader does not have them.

        Errors: ProtocolError for bytes that cannot belong to a snapshot.
        """
        position = download.position

        def request_in(known: Epoch) -> FetchSnapshotRequest:
            return FetchSnapshotRequest(
                replica=None,
                epoch=known,
                snapshot_id=download.snapshot_id,
                position=position,
                size_bytes_max=self._size_bytes_max,
            )

        found = await self._leader.ask_for_snapshot(request_in)
        # Another leader's file may have other bytes, so start again with its epoch.
        if found is None or self._leader.epoch != epoch:
            return None
        answer, data = found
        problem = _what_is_wrong(answer, data, download.snapshot_id, position)
        if problem is not None:
            self._leader.reject(problem)
            return None
        await asyncio.to_thread(download.append, data)
        self._leader.accept()
        self._stuck_since_s = None
        return download.position == answer.size_bytes

    def _give_up_when_stuck(self, snapshot_id: OffsetAndEpoch) -> None:
        """Check for progress. Errors: QuorumUnavailableError when there was none for too long."""
        now_s = asyncio.get_running_loop().time()
        if self._stuck_since_s is None:
            self._stuck_since_s = now_s
        if now_s >= self._stuck_since_s + self._timeout_s:
            self._stuck_since_s = None
            what = f"the snapshot {stem_of(snapshot_id)} could not be fetched"
            raise QuorumUnavailableError(f"{what} within {self._timeout_s:g} s: {self._leader.story}")


def _what_is_wrong(
    answer: FetchSnapshotResponse, data: Buffer, snapshot_id: OffsetAndEpoch, position: int
) -> str | None:
    if answer.error:
        return f"it answers FetchSnapshot with {error_name(answer.error)}"
    if (answer.snapshot_id, answer.position) != (snapshot_id, position):
        sent = f"{stem_of(answer.snapshot_id)} from position {answer.position} on"
        return f"asked for the snapshot {stem_of(snapshot_id)} from {position} on, it sends {sent}"
    if not len(data) or position + len(data) > answer.size_bytes:
        return f"it sends {len(data)} bytes at {position} of a snapshot of {answer.size_bytes} bytes"
    return None


class Window:
    """Begins at ``next_offset``. If that is within a batch, the whole batch is the first one.

    With ``last_epoch``, the epoch of the record before it, a batch must begin exactly there.
    """

    def __init__(self, next_offset: Offset, last_epoch: Epoch | None = None) -> None:
        self.next_offset = next_offset
        """Offset of the next batch to return."""
        self.high_watermark: Offset | None = None
        """Everything below is committed; None until a leader told it."""
        self._last_epoch = last_epoch
        self._held: deque[BatchRun] = deque()
        self._held_size_bytes = 0

    @property
    def end_offset(self) -> Offset:
        """Offset of the next batch to fetch."""
        return self._held[-1].end_offset if self._held else self.next_offset

    @property
    def end_epoch(self) -> Epoch | None:
        """Epoch of the batch before `end_offset`; None before the first batch."""
        return self._held[-1].epoch if self._held else self._last_epoch

    @property
    def held_size_bytes(self) -> int:
        """Bytes that were fetched but not returned."""
        return self._held_size_bytes

    def add(self, run: BatchRun, *, leader_epoch: Epoch) -> str | None:
        """Take the next batches; returns why they cannot be the next ones, or None."""
        expected = self.end_offset
        if run.base_offset != expected:
            is_first = self.end_epoch is None and run.base_offset < expected <= run.last_offsets[0]
            if not is_first:
                return f"a batch with offsets {run.base_offset} to {run.last_offsets[0]} where {expected} comes next"
        # No CRC covers the epoch, so check it against its neighbours and the leader's.
        if not (self.end_epoch or 0) <= run.epoch <= leader_epoch:
            return (
                f"the batch at offset {run.base_offset} is of epoch {run.epoch}, "
                f"after {self.end_epoch or 0}, from the leader of epoch {leader_epoch}"
            )
        self._held.append(run)
        self._held_size_bytes += run.size_bytes
        return None

    def commit_to(self, high_watermark: Offset) -> None:
        """Raise the high watermark; a new leader may know a lower one, which changes nothing."""
        self.high_watermark = Offset(max(self.high_watermark or 0, high_watermark))

    def drop_held(self) -> bool:
        """Drop the batches that were not returned; False when there were none."""
        had_some = bool(self._held)
        self._held.clear()
        self._held_size_bytes = 0
        return had_some

    def take(self, batches_max: int = BATCHES_MAX) -> BatchRun | None:
        """The next batches that are committed, all of one epoch and at most so many; None if there are none."""
        if not self._held or self.high_watermark is None:
            return None
        run = self._held[0]
        # The batches before the next offset were returned.
        begin = bisect_left(run.last_offsets, self.next_offset)
        end = min(begin + batches_max, bisect_left(run.last_offsets, self.high_watermark, lo=begin))
        if begin == end:
            return None
        taken = run.part(begin, end)
        if end == len(run):
            self._held.popleft()
        self._held_size_bytes -= taken.size_bytes
        self.next_offset, self._last_epoch = taken.end_offset, taken.epoch
        return taken


FAR_OFFSET: Final = Offset(2**60)
"""An offset that no log contains."""


def probe(epoch: Epoch, last_fetched_epoch: Epoch | None = None) -> FetchRequest:
    """A fetch beyond any log, to a leader of this epoch: the answer has no records and comes at once."""
    return FetchRequest(
        replica=None,
        epoch=epoch,
        fetch_offset=FAR_OFFSET,
        last_fetched_epoch=epoch if last_fetched_epoch is None else last_fetched_epoch,
        wait_ms_max=0,
        size_bytes_max=0,
        high_watermark=-1,
    )


async def epoch_before(leader: LeaderFetch, log_start_offset: Offset) -> Epoch:
    """The epoch of the record before the log start, for a log that begins at a snapshot's end.

    Errors: QuorumUnavailableError, ForeignClusterError.
    """
    low, high = Epoch(0), leader.epoch
    while low < high:
        middle = Epoch((low + high) // 2)
        answer, _ = await leader.ask(partial(probe, last_fetched_epoch=middle))
        leader.accept()
        if answer.log_start_offset != log_start_offset:
            break  # the log was cleaned meanwhile: the next fetch gets a snapshot id again
        # Bisection: without a snapshot id the epoch is not older than the oldest snapshot's.
        if answer.snapshot_id is None:
            high = middle
        else:
            low = Epoch(middle + 1)
    return high


TOPICS: Final = ((TEST_TOPIC_NAME, TEST_TOPIC_ID), (METADATA_TOPIC_NAME, METADATA_TOPIC_ID))
"""Topics in which quorums keep their logs, tried in turn: pykraft's and TestRaftServer's, and Kafka's."""
LoadSnapshot: TypeAlias = Callable[[StateReader[bytes]], Awaitable[None] | None]
"""Gets a snapshot that replaces everything before it; the reader is closed when the call is done."""


class Start(Enum):
    """Where to begin, other than at a given offset."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """How long a leader may wait for records (ms), the bytes of one fetch, and of all uncommitted batches held here."""

    wait_ms_max: int = 500
    size_bytes_max: int = 1024 * 1024
    held_size_bytes_max: int = 8 * 1024 * 1024


FETCH_LIMITS: Final = FetchLimits()
QUERY_LIMITS: Final = FetchLimits(size_bytes_max=4 * 1024 * 1024, held_size_bytes_max=16 * 1024 * 1024)
"""For a program that reads much at once."""
QUERY_PATIENCE: Final = Patience(timeout_ms=60_000)
"""A query should survive a fail-over, which takes some seconds."""


class Observer(AbstractAsyncContextManager["Observer", None]):
    """An endless async iterator over committed batches; use it in ``async with``, in one loop.

    The first batch may begin before the requested offset, if that is within the batch.
    """

    def __init__(  # noqa: PLR0913 - keyword-only, and each for itself
        self,
        bootstrap: Sequence[Endpoint],
        *,
        start: Start | Offset = Start.EARLIEST,
        cluster_id: str | None = None,
        topics: Sequence[tuple[str, Uuid]] = TOPICS,
        client_id: str = "pykraft-observer",
        patience: Patience = PATIENCE,
        limits: FetchLimits = FETCH_LIMITS,
        security: Security = IN_THE_CLEAR,
        load_snapshot: LoadSnapshot | None = None,
    ) -> None:
        """``bootstrap`` has some nodes of the quorum; with ``cluster_id`` nodes of another cluster are refused.

        With ``load_snapshot`` the earliest start is the newest snapshot, if there is one, and any offset below the high
        watermark is allowed.

        Errors: UsageError for a list that is empty or has no endpoints, and for a wrong start; ConfigError for
        certificates that cannot be used.
        """
        if not topics:
            raise UsageError("the topics list is empty: give the topic of the quorum")
        if not isinstance(start, Start) and (type(start) is not int or start < 0):
            raise UsageError(f"start = {start!r}: it is an offset of 0 or more, or {' or '.join(map(str, Start))}")
        self._start = start
        self._limits = limits
        self._leader = LeaderFetch(
            bootstrap, topics=topics, cluster_id=cluster_id, client_id=client_id, patience=patience, security=security
        )
        self._load_snapshot = load_snapshot
        self._snapshots = SnapshotFetch(self._leader, patience, size_bytes_max=limits.size_bytes_max)
        self._window: Window | None = None
        self._is_under_way = False
        self._fetch_size_bytes_max = limits.size_bytes_max

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection, and remove a partly fetched snapshot."""
        self._snapshots.close()
        await self._leader.close()

    def seek(self, start: Start | Offset, *, size_bytes_max: int | None = None) -> None:
        """Begin anew at another place, over the same connection; with ``size_bytes_max`` in fetches of this size."""
        self._start, self._window, self._is_under_way = start, None, False
        self._fetch_size_bytes_max = size_bytes_max or self._limits.size_bytes_max

    @property
    def next_offset(self) -> Offset | None:
        """Offset of the next batch, for resuming there later; None before `begin`."""
        return None if self._window is None else self._window.next_offset

    @property
    def high_watermark(self) -> Offset | None:
        """The last high watermark from a leader; None before `begin`."""
        return None if self._window is None else self._window.high_watermark

    @property
    def topic_name(self) -> str:
        """The topic of the quorum's log; only right after `begin`."""
        return self._leader.topic_name

    async def find_cluster_id(self) -> str | None:
        """As `LeaderFetch.find_cluster_id`, over the same connection."""
        return await self._leader.find_cluster_id()

    async def begin(self) -> Offset:
        """Find the leader and the start offset, unless known already; returns that offset.

        Errors: UsageError for an offset that the log does not contain; QuorumUnavailableError, ForeignClusterError.
        """
        while self._window is None:
            # 1. Any node names the leader, which tells the high watermark and the log start.
            answer, _ = await self._leader.ask(probe)
            if answer.high_watermark is None:
                self._leader.reject("it leads, but does not know its high watermark yet")
                continue
            self._leader.accept()
            log_start_offset = Offset(max(0, answer.log_start_offset))
            self._window = Window(self._first_offset(log_start_offset, answer.high_watermark))
            self._window.commit_to(answer.high_watermark)
        return self._window.next_offset

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> CommittedBatch:
        """The next committed batch, as soon as there is one.

        Errors: as `begin`; ProtocolError when the quorum no longer has what was committed. The position is kept.
        """
        run = await self.next_run(batches_max=1)
        ((_, header),) = run.headers()
        return CommittedBatch(
            base_offset=header.base_offset,
            end_offset=header.end_offset,
            epoch=header.epoch,
            timestamp_ms=header.max_timestamp,
            is_control=header.is_control,
            data=run.data,
        )

    async def next_run(self, *, batches_max: int = BATCHES_MAX) -> BatchRun:
        """The next committed batches, as soon as there is one: all of one epoch, and at most so many.

        Errors: as `__anext__`.
        """
        await self.begin()
        assert self._window is not None
        while (run := self._window.take(batches_max)) is None:
            await self._fetch(self._window)
        self._is_under_way = True
        return run

    async def _fetch(self, window: Window) -> None:
        if window.held_size_bytes >= self._limits.held_size_bytes_max:
            # Too many uncommitted bytes: drop them and, after a pause, fetch them again.
            window.drop_held()
            await self._leader.pause()
        known = window.end_offset, window.high_watermark
        begun_s = asyncio.get_running_loop().time()
        # 2. Like a follower: the leader answers when its high watermark moved, and Kafka's when it has records.
        answer, records = await self._leader.ask(lambda epoch: self._request(window, epoch))
        if answer.snapshot_id is not None:
            await self._instead_of_records(window, answer, answer.snapshot_id)
            return
        problem = self._take_in(window, answer, records)
        if problem is not None:
            self._leader.reject(problem)
            return
        self._leader.accept()
        waited_ms = (asyncio.get_running_loop().time() - begun_s) * 1_000
        # An answer without news that came too early: pause, or a faulty leader keeps us in a busy loop.
        if known == (window.end_offset, window.high_watermark) and waited_ms < self._limits.wait_ms_max / 2:
            await self._leader.pause()

    def _take_in(self, window: Window, answer: FetchResponse, records: Buffer) -> str | None:
        """Take in an answer; returns what was unusable in it, if anything. Errors: as `__anext__`."""
        offset = window.end_offset
        if answer.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise UsageError(f"offset {offset} is no longer in the log: it begins at offset {answer.log_start_offset}")
        if answer.diverging is not None:
            # 3. The new leader never had the uncommitted batches; if all were committed, the quorum lost records.
            if window.drop_held():
                return None
            raise ProtocolError(
                f"the log of the quorum ends epoch {answer.diverging.epoch} at offset {answer.diverging.offset}, "
                f"but offset {offset} was committed: it has lost records, or it is another quorum's"
            )
        runs, problem = read_runs(records)
        for run in runs:
            refusal = window.add(run, leader_epoch=answer.epoch)
            if refusal is not None:
                problem = refusal
                break
        if answer.high_watermark is not None:
            window.commit_to(answer.high_watermark)
        return problem

    async def _instead_of_records(self, window: Window, answer: FetchResponse, snapshot_id: OffsetAndEpoch) -> None:
        """The leader answered with a snapshot id instead of records. Errors: as `__anext__`."""
        offset, log_start_offset = window.end_offset, Offset(max(0, answer.log_start_offset))
        if window.drop_held():
            return
        if snapshot_id.offset < offset or snapshot_id.epoch < 0:
            self._leader.reject(f"it offers the snapshot {stem_of(snapshot_id)} instead of offset {offset}")
            return
        self._leader.accept()
        await self._leader.pause()
        if self._load_snapshot is not None:
            await self._load(snapshot_id)
        # Nothing but the first leader's LeaderChange is at offset 0.
        elif not self._is_under_way and offset == log_start_offset == 0:
            self._go_on_at(Offset(1))
        # Skip what only the snapshot has, as Kafka's consumers do. Later on, this would be a gap.
        elif not self._is_under_way and (offset == log_start_offset or self._start is Start.EARLIEST):
            self._go_on_at(log_start_offset, await epoch_before(self._leader, log_start_offset))
        else:
            raise UsageError(
                f"offset {offset} is no longer in the log, which begins at offset {log_start_offset}: what came before "
                f"is only in the snapshot {stem_of(snapshot_id)}; begin at a later offset, or load snapshots"
            )

    async def _load(self, snapshot_id: OffsetAndEpoch) -> None:
        """Fetch a snapshot, hand it over, and continue where it ends. Errors: as `__anext__`; those of the caller."""
        assert self._load_snapshot is not None
        path = await self._snapshots.fetch(snapshot_id)
        if path is None:
            return
        with closing(StateReader(read_in_a_thread, SnapshotReader(OsFs(), path, snapshot_id, bytes_serde))) as reader:
            waiting = self._load_snapshot(reader)
            if waiting is not None:
                await waiting
        path.unlink()
        self._go_on_at(snapshot_id.offset, snapshot_id.epoch)

    def _go_on_at(self, offset: Offset, last_epoch: Epoch | None = None) -> None:
        """Continue at another offset; a high watermark once known stays."""
        known = self.high_watermark
        self._window = Window(offset, last_epoch)
        self._window.commit_to(Offset(max(offset, known or 0)))

    def _request(self, window: Window, epoch: Epoch) -> FetchRequest:
        """The next fetch; in the middle of a log it names the leader's own epoch."""
        return FetchRequest(
            replica=None,
            epoch=epoch,
            fetch_offset=window.end_offset,
            # In the middle of a log the epoch of the record before is unknown; the leader's own epoch covers all its
            # offsets.
            last_fetched_epoch=epoch if window.end_epoch is None else window.end_epoch,
            wait_ms_max=self._limits.wait_ms_max,
            size_bytes_max=self._fetch_size_bytes_max,
            high_watermark=-1 if window.high_watermark is None else window.high_watermark,
            is_committed_only=True,
        )

    def _first_offset(self, log_start_offset: Offset, high_watermark: Offset) -> Offset:
        """The offset to begin at. Errors: UsageError when the log does not contain it."""
        loads = self._load_snapshot is not None
        match self._start:
            case Start.EARLIEST:
                return Offset(0) if loads else log_start_offset
            case Start.LATEST:
                return high_watermark
        if not (0 if loads else log_start_offset) <= self._start <= high_watermark:
            raise UsageError(
                f"offset {self._start} is not there: committed are the offsets from {log_start_offset} "
                f"to {high_watermark}, the last one excluded"
            )
        return self._start
