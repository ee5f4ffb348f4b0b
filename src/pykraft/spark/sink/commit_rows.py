"""Commits one micro-batch: decides which rows it has, and appends each of them exactly once.

1. The manifest of this micro-batch is created, unless a driver that was killed has left one.
2. Its record batches are appended in order, each under the sequence of its first row. After a kill it is not known how
   many are in the log. The leader answers OUT_OF_ORDER_SEQUENCE_NUMBER for a batch that it has and no longer remembers,
   and then the next one is tried; it recognizes its newest five, and appends the first that is missing.
3. When the last one is committed, all are, since a leader takes the batches of a producer only in order.

Invariant: a batch is sent only under the numbers of its manifest, so the log has it at most once; a commit returns only
when all are committed. Every failure says how many rows are certainly in the log.

Source: ADR 097; KIP-98; Spark's ``StreamingWrite.commit``, which may be repeated for one epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from pykraft.client.remote.leader_fetch import Patience
from pykraft.client.remote.numbered_appender import NumberedAppender
from pykraft.errors import ErrorCode, OutcomeUnknownError, QuorumUnavailableError, RefusedError, UsageError
from pykraft.protocol.batch import number_batch
from pykraft.protocol.records import iterate_records
from pykraft.spark.sink.manifest import Appended, Manifest, QueryFolder, next_generation
from pykraft.spark.sink.sink_options import BATCH_SIZE_BYTES_MAX, SinkOptions
from pykraft.spark.sink.staged import StagedBatch, StagedFile, staged_batches
from pykraft.text.words import counted
from pykraft.types import Offset

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
        options.controllers, cluster_id=cluster_id, client_id=CLIENT_ID, patience=patience
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
    """A manifest of these files, in the order of their partitions, under the next numbers of this query."""
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
    """The appends of one manifest."""

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
        """Send each batch after the known progress once."""
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
        """Whether a refusal of the last batch means that nothing of the manifest is in the log."""
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
        for place, record in enumerate(iterate_records(batch.data)):
            if record.key is not None or not record.value:
                what = "has a key" if record.key is not None else "has no value, or an empty one"
                return f" (row {batch.first_row_of_partition + place} of partition {batch.partition} {what})"
    return ""
