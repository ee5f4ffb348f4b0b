"""Commits one micro-batch: decides which rows it has, and appends each of them exactly once.

1. The manifest of this micro-batch is created, unless a driver that was killed has left one.
2. Its record batches are appended in order, each under the sequence of its first row. After a kill it is not known how
   many are in the log. The leader answers OUT_OF_ORDER_SEQUENCE_NUMBER for a batch that it has and no longer remembers,
   and then the next one is tried; it recognizes its newest five, and appends the first that is missing.
3. When the last one is committed, all are, since a leader takes the batches of a producer only in order.

Invariant: a batch is sent only under the numbers of its manifest, so the log has it at most once; a commit returns only
when all are committed. Every failure says how many rows are certainly in the log.

QUERY/7.0.manifest.json   the rows of micro-batch 7 and their numbers; created once, then never changed
QUERY/7.progress.json     how much of it is certainly in the log, and whether all of it
QUERY/7.rows/             the files of its tasks, until all is in the log

The second number of a manifest is its generation: a later one has other numbers, because the quorum forgot those of the
one before. Of any number of drivers that create one, one succeeds, and all get the same. Only the newest is kept.

Source: ADR 097; KIP-98; Spark's ``StreamingWrite.commit`` and ``HDFSMetadataLog`` (created by rename).
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from pykraft.client.remote.leader_search import Patience
from pykraft.client.remote.numbered_appender import NumberedAppender
from pykraft.errors import (
    ErrorCode,
    OutcomeUnknownError,
    QuorumUnavailableError,
    RefusedError,
    StorageError,
    UsageError,
)
from pykraft.object_storage import shared_folder
from pykraft.protocol.batch import number_batch, read_header
from pykraft.protocol.records import iterate_records
from pykraft.spark.sink.sink_options import BATCH_SIZE_BYTES_MAX, SinkOptions
from pykraft.spark.sink.staged import StagedBatch, StagedFile, staged_batches
from pykraft.text.words import counted
from pykraft.types import Offset

VERSION = 1
MANIFEST, PROGRESS, ROWS = ".manifest.json", ".progress.json", ".rows"
R = TypeVar("R")


CLIENT_ID: Final = "pykraft-spark-sink"
PRODUCER_EPOCH_MAX: Final = 32_767
SEQUENCES: Final = 2**31
CONTINUES: Final = "the query continues there when it is started again"
BEGINS_ANEW: Final = "the query appends all rows again when it is started again: with a jobId it would continue there"
NOTED_BATCHES: Final = 16
"""Record batches between two notes of the progress."""
_OF_ROWS: Final = frozenset({ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.CORRUPT_MESSAGE})
_OLD: Final = (
    "the log has newer rows of this query than its folder knows: a checkpoint, or the folder {folder}, was restored "
    "from a copy. Restore the newest, or begin with new folders at the position that the log is at"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The rows of one micro-batch in their order, and the producer's numbers under which they are appended.

    ``start_offset``: the log end before the first of them was sent. Sequences begin at 0.
    """

    batch_id: int
    generation: int
    cluster_id: str | None
    producer_id: int
    producer_epoch: int
    start_offset: Offset
    files: tuple[StagedFile, ...]

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.files)

    @property
    def batches(self) -> int:
        return sum(each.batches for each in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """How much of a micro-batch is certainly in the log, from its beginning."""

    batches: int = 0
    rows: int = 0
    is_done: bool = False


class QueryFolder:
    """The folder of one query; ``root`` must be there."""

    def __init__(self, root: Path, query_id: str) -> None:
        self.path = root / query_id

    def rows_folder(self, batch_id: int) -> Path:
        """Where the tasks of a micro-batch stage their rows."""
        return self.path / f"{batch_id}{ROWS}"

    def newest(self) -> Manifest | None:
        """The manifest of the newest micro-batch, in its last generation. Errors: StorageError."""
        found = []
        for path in self._named(MANIFEST):
            words = path.name.removesuffix(MANIFEST).split(".")
            if len(words) == 2 and all(word.isdecimal() for word in words):
                found.append((int(words[0]), int(words[1]), path))
        return _read(max(found)[2], _parsed_manifest) if found else None

    def create(self, manifest: Manifest) -> Manifest:
        """The manifest with this number and generation: this one, or one that is there already. Errors: StorageError.

        The driver that finds another one than it gave repeats a micro-batch.
        """
        path = self._manifest_path(manifest)
        try:
            if shared_folder.create(path, _json({"version": VERSION, **asdict(manifest)})):
                return manifest
        except OSError as error:
            problem = f"the manifest cannot be created; the folder needs hard links: {error}"
            raise StorageError(path, problem) from error
        there = _read(path, _parsed_manifest)
        if there is None:
            raise StorageError(path, "another driver withdrew it, since a row was refused: start the query again")
        # It is this one if the storage's answer was lost, and the request was repeated.
        return manifest if there == manifest else there

    def progress(self, manifest: Manifest) -> Appended:
        """How far this micro-batch is. Errors: StorageError."""
        return _read(self._progress_path(manifest.batch_id), lambda content: Appended(**content)) or Appended()

    def is_finished(self, manifest: Manifest) -> bool:
        """Whether all of an earlier micro-batch is in the log: that is noted, or its rows were removed after it was."""
        return self.progress(manifest).is_done or not shared_folder.entries(self.rows_folder(manifest.batch_id))

    def note(self, manifest: Manifest, progress: Appended) -> None:
        """Write how far it is. Errors: StorageError."""
        path = self._progress_path(manifest.batch_id)
        if self.progress(manifest).is_done:
            return  # another driver repeated this micro-batch
        try:
            shared_folder.replace(path, _json(asdict(progress)))
        except OSError as error:
            raise StorageError(path, f"the progress cannot be written: {error}") from error

    def finish(self, manifest: Manifest) -> None:
        """All of it is in the log: note that, and remove its rows and what is older. Errors: StorageError."""
        self.note(manifest, Appended(batches=manifest.batches, rows=manifest.rows, is_done=True))
        kept = {self._manifest_path(manifest), self._progress_path(manifest.batch_id)}
        for path in self._named(MANIFEST, PROGRESS, ROWS, shared_folder.UNFINISHED):
            number = path.name.partition(".")[0]
            if path in kept or not number.isdecimal() or int(number) > manifest.batch_id:
                continue
            if path.name.endswith(ROWS):
                shared_folder.remove_folder(path)
            else:
                shared_folder.remove(path)

    def withdraw(self, manifest: Manifest) -> None:
        """Nothing of this micro-batch is in the log or ever will be: it may get other rows."""
        shared_folder.remove(self._progress_path(manifest.batch_id))
        shared_folder.remove(self._manifest_path(manifest))

    def discard(self, batch_id: int, files: Iterable[StagedFile]) -> None:
        """Remove these files, except those that the manifest of this micro-batch names. Errors: StorageError."""
        manifest = self.newest()
        kept = {each.name for each in manifest.files} if manifest is not None and manifest.batch_id == batch_id else ()
        for each in files:
            if each.name not in kept:
                shared_folder.remove(self.rows_folder(batch_id) / each.name)

    def remove(self) -> None:
        shared_folder.remove_folder(self.path)

    def _manifest_path(self, manifest: Manifest) -> Path:
        return self.path / f"{manifest.batch_id}.{manifest.generation}{MANIFEST}"

    def _progress_path(self, batch_id: int) -> Path:
        return self.path / f"{batch_id}{PROGRESS}"

    def _named(self, *ends: str) -> list[Path]:
        return [path for path in shared_folder.entries(self.path) if path.name.endswith(ends)]


def next_generation(manifest: Manifest, *, producer_id: int) -> Manifest:
    """The same rows under another producer id."""
    return replace(manifest, generation=manifest.generation + 1, producer_id=producer_id, producer_epoch=0)


def _parsed_manifest(content: dict[str, Any]) -> Manifest:
    if content.pop("version") != VERSION:
        raise ValueError("another version of pykraft wrote it")
    files = tuple(StagedFile(**each) for each in content.pop("files"))
    return Manifest(files=files, **content)


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content).encode()


def _read(path: Path, parse: Callable[[dict[str, Any]], R]) -> R | None:
    content = shared_folder.content(path)
    try:
        return None if content is None else parse(json.loads(content))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageError(path, f"is not what the sink wrote: {error}") from error


def commit(options: SinkOptions, folder: QueryFolder, batch_id: int, files: Sequence[StagedFile]) -> Manifest | None:
    """Append the rows of these files, or what an earlier commit of this micro-batch began; None if there are none.

    Errors: OutcomeUnknownError, QuorumUnavailableError, RefusedError, ForeignClusterError, UsageError, StorageError.
    """
    return asyncio.run(_commit(options, folder, batch_id, files))


async def _commit(
    options: SinkOptions, folder: QueryFolder, batch_id: int, files: Sequence[StagedFile]
) -> Manifest | None:
    newest = folder.newest()
    if newest is not None and newest.batch_id > batch_id:
        raise UsageError(f"micro-batch {batch_id}: {_OLD.format(folder=folder.path)}")
    if newest is not None and newest.batch_id < batch_id and not folder.is_finished(newest):
        raise UsageError(
            f"{folder.path} has rows of micro-batch {newest.batch_id} that are not in the log, but the checkpoint is "
            f"at {batch_id}: they do not belong together"
        )
    is_repeated = newest is not None and newest.batch_id == batch_id
    if not files and not is_repeated:
        return None
    if newest is not None and is_repeated:
        folder.discard(batch_id, files)
        if folder.progress(newest).is_done:
            folder.finish(newest)
            return newest
    cluster_id = None if newest is None else newest.cluster_id
    patience = Patience(timeout_ms=options.timeout_ms)
    async with NumberedAppender(
        options.controllers, cluster_id=cluster_id, client_id=CLIENT_ID, patience=patience, security=options.security
    ) as appender:
        # 1.
        if newest is not None and is_repeated:
            manifest, is_new = newest, False
        else:
            asked = await _manifest(appender, newest, batch_id, files)
            manifest = folder.create(asked)
            is_new = manifest is asked
        attempt = _Append(appender, folder, manifest, options, is_new=is_new)
        await attempt.run()
    folder.finish(attempt.manifest)
    return attempt.manifest


async def _manifest(
    appender: NumberedAppender, newest: Manifest | None, batch_id: int, files: Sequence[StagedFile]
) -> Manifest:
    if newest is None or newest.producer_epoch >= PRODUCER_EPOCH_MAX:
        producer_id, producer_epoch = await appender.issue_id(), 0
    else:
        producer_id, producer_epoch = newest.producer_id, newest.producer_epoch + 1
    start_offset = await appender.end_offset()
    return Manifest(
        batch_id=batch_id,
        generation=0,
        cluster_id=appender.cluster_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        start_offset=start_offset,
        files=tuple(sorted(files, key=lambda each: each.partition)),
    )


class _Append:
    def __init__(
        self, appender: NumberedAppender, folder: QueryFolder, manifest: Manifest, options: SinkOptions, *, is_new: bool
    ) -> None:
        self.manifest = manifest
        self._appender = appender
        self._folder = folder
        self._timeout_ms = options.timeout_ms
        self._way_on = CONTINUES if options.continues else BEGINS_ANEW
        self._is_untouched = is_new
        """Nothing of it can be in the log: this process created the manifest, and each answer so far was a refusal."""
        self._progress = folder.progress(manifest)
        self._noted = self._progress.batches

    async def run(self) -> None:
        """Append what is missing. Errors: see `commit`."""
        loop = asyncio.get_running_loop()
        advanced_s = loop.time()
        # 2.
        while self._progress.batches < self.manifest.batches:
            before = self._progress.batches
            await self._pass()
            if self._progress.batches > before:
                advanced_s = loop.time()
            elif loop.time() - advanced_s >= self._timeout_ms / 1_000:
                raise self._old()
            # 3. Without the last one: this leader had batches that the next leader does not have. Try those again.

    async def _pass(self) -> None:
        folder = self._folder.rows_folder(self.manifest.batch_id)
        start = self._progress.batches
        batches = staged_batches(folder, self.manifest.files, size_bytes_max=BATCH_SIZE_BYTES_MAX)
        for index, batch in enumerate(batches):
            if index >= start and await self._append(batch):
                self._progress = Appended(batches=index + 1, rows=batch.first_row + batch.count)
                if index + 1 - self._noted >= NOTED_BATCHES:
                    self._folder.note(self.manifest, self._progress)
                    self._noted = index + 1

    async def _append(self, batch: StagedBatch) -> bool:
        """Whether this batch is now committed; False if the leader has it, or had it, but does not say so.

        Errors: see `commit`.
        """
        try:
            base_offset = await self._send(batch)
        except (OutcomeUnknownError, QuorumUnavailableError) as error:
            raise type(error)(f"{error}; {self._known}, and {self._way_on}") from error
        except RefusedError as error:
            if error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not self._is_certain:
                return False
            if error.code in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH):
                raise self._old() from error
            if error.code in _OF_ROWS and self._is_certain:
                # The query may be changed, and repeat this micro-batch with other rows.
                self._folder.withdraw(self.manifest)
            what = f"the append of {batch.story}{_culprit(batch, error)}"
            raise RefusedError(what, error.code, f"{error.text}; {self._known}") from error
        self._is_untouched = False
        if base_offset < self.manifest.start_offset:
            raise self._old()
        return True

    async def _send(self, batch: StagedBatch) -> Offset:
        try:
            return await self._appender.append(self._numbered(batch))
        except RefusedError as error:
            if error.code != ErrorCode.UNKNOWN_PRODUCER_ID or not self._is_certain:
                raise
        # The quorum forgot this query's producer, and has nothing of this micro-batch: take a new id.
        renewed = next_generation(self.manifest, producer_id=await self._appender.issue_id())
        self.manifest = self._folder.create(renewed)
        self._is_untouched = self.manifest is renewed
        return await self._appender.append(self._numbered(batch))

    def _numbered(self, batch: StagedBatch) -> bytearray:
        number_batch(
            batch.data,
            producer_id=self.manifest.producer_id,
            producer_epoch=self.manifest.producer_epoch,
            base_sequence=batch.first_row % SEQUENCES,
        )
        return batch.data

    @property
    def _is_certain(self) -> bool:
        return self._is_untouched and not self._appender.was_doubtful

    @property
    def _known(self) -> str:
        rows = counted(self.manifest.rows, "row")
        return f"{self._progress.rows:,} of {rows} of micro-batch {self.manifest.batch_id} are known to be in the log"

    def _old(self) -> UsageError:
        return UsageError(f"{_OLD.format(folder=self._folder.path)}; {self._known}")


def _culprit(batch: StagedBatch, error: RefusedError) -> str:
    """Which row probably caused this, if one can be told: the first that Kafka's replicas cannot read."""
    if error.code == ErrorCode.INVALID_RECORD:
        base_ms = read_header(batch.data).base_timestamp
        for place, record in enumerate(iterate_records(batch.data)):
            problems = {
                "has a key": record.key is not None,
                "has no value, or an empty one": not record.value,
                "has headers": bool(record.headers),
                "has another time than the row before": record.timestamp_ms != base_ms,
            }
            for what in (problem for problem, is_there in problems.items() if is_there):
                return f" (row {batch.first_row_of_partition + place} of partition {batch.partition} {what})"
    return ""
