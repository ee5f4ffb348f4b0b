"""A sink without Spark: a real quorum of one, staged files of given rows, and what the log has afterwards."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pykraft.spark.sink.commit_rows import Manifest, QueryFolder, commit
from pykraft.spark.sink.sink_options import SinkOptions
from pykraft.spark.sink.staged import BatchMaker, StagedFile, stage
from tests.spark.quorum_of_one import OneNode, logged_values

BATCH_SIZE_BYTES = 1_024
TIME_MS = 1_700_000_000_000
ROW_SIZE_BYTES = 100
ROWS_IN_BATCH = (BATCH_SIZE_BYTES - 61) // (ROW_SIZE_BYTES + 24)


def rows_of(partition: int, count: int, *, attempt: int = 0) -> list[bytes]:
    """Rows that tell where they come from."""
    return [f"{attempt}:{partition}:{index}:".encode().ljust(ROW_SIZE_BYTES, b".") for index in range(count)]


def batches_of(
    partition: int,
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None = None,
    *,
    size_bytes_max: int = BATCH_SIZE_BYTES,
    **more: Any,
) -> Iterator[tuple[bytes, int]]:
    """These rows as batches of about a KiB; ``more`` are other columns of `BatchMaker.add`."""
    maker = BatchMaker(partition=partition, size_bytes_max=size_bytes_max, timestamp_ms=TIME_MS)
    yield from maker.add(values, keys, **more)
    yield from maker.rest()


class Sink:
    """The query ``a-query`` into a quorum of one."""

    def __init__(self, folder: Path, root: Path | None = None, **changes: Any) -> None:
        """``root`` has staged rows if it is not in ``folder``; ``changes`` are fields of the node's configuration."""
        self.node = OneNode(folder / "quorum", serves_clients=True, **changes)
        self.root = root or folder / "staging"
        if root is None:
            self.root.mkdir()
        self.folder = QueryFolder(self.root, "a-query")
        self.options = SinkOptions(
            controllers=(self.node.endpoint,),
            staging=self.root,
            batch_size_bytes_max=BATCH_SIZE_BYTES,
            timeout_ms=10_000,
        )

    def stage(
        self,
        batch_id: int,
        partition: int,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None = None,
        *,
        size_bytes_max: int = BATCH_SIZE_BYTES,
        **more: Any,
    ) -> StagedFile:
        """What one task does."""
        batches = batches_of(partition, values, keys, size_bytes_max=size_bytes_max, **more)
        file = stage(self.folder.rows_folder(batch_id), partition, batches)
        assert file is not None
        return file

    def commit(self, batch_id: int, files: Sequence[StagedFile] = (), **changes: Any) -> Manifest | None:
        """What the driver does."""
        return commit(replace(self.options, **changes), self.folder, batch_id, files)

    def logged(self) -> list[bytes | None]:
        """The value of each committed data record, in the order of the log."""
        return logged_values(self.options.controllers)


class KilledError(Exception):
    """In tests: the driver was killed here."""


def dies(after: int, act: Callable[..., Any], *, is_done: bool) -> Callable[..., Any]:
    """A coroutine function that ends with KilledError after so many calls, before or after it ``is_done``."""
    calls = 0

    async def wrapped(*words: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > after and not is_done:
            raise KilledError
        result = await act(*words, **named)
        if calls > after:
            raise KilledError
        return result

    return wrapped
