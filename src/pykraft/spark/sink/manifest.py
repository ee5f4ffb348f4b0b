"""What a query's folder holds: the manifest of its newest micro-batch, how far that is appended, and staged rows.

    QUERY/7.0.manifest.json   the rows of micro-batch 7 and their numbers; created once, then never changed
    QUERY/7.progress.json     how much of it is certainly in the log, and whether all of it
    QUERY/7.rows/             the files of its tasks, until all is in the log

The second number of a manifest is its generation: a later one has other numbers, because the quorum forgot those of the
one before and nothing was sent under them. Invariant: of any number of drivers that create the manifest of a
micro-batch, one succeeds, and all get the same one. Only the newest is kept, so a folder does not grow with the query.

Source: ADR 097; Spark's ``HDFSMetadataLog`` (created by rename) and ``ManifestFileCommitProtocol``.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from pykraft.errors import StorageError
from pykraft.log.os_fs import OsFs
from pykraft.spark.sink.staged import StagedFile
from pykraft.types import Offset

VERSION = 1
MANIFEST, PROGRESS, ROWS, UNFINISHED = ".manifest.json", ".progress.json", ".rows", ".tmp"
R = TypeVar("R")


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
        """All its rows."""
        return sum(each.rows for each in self.files)

    @property
    def batches(self) -> int:
        """All its record batches."""
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
        return _read(max(found)[2], _manifest) if found else None

    def create(self, manifest: Manifest) -> Manifest:
        """The manifest with this number and generation: this one, or one that is there already. Errors: StorageError.

        The driver that finds another one than it gave repeats a micro-batch.
        """
        path = self._manifest_path(manifest)
        content = {"version": VERSION, **asdict(manifest)}
        try:
            self.path.mkdir(exist_ok=True)
            written = self._write(path, content)
            try:
                # A link appears with its whole content, and only if the name is free.
                os.link(written, path)
            except FileExistsError:
                return _read(path, _manifest)
            finally:
                written.unlink()
            OsFs().sync_dir(self.path)
        except OSError as error:
            problem = f"the manifest cannot be created; the folder needs hard links: {error}"
            raise StorageError(path, problem) from error
        return manifest

    def progress(self, manifest: Manifest) -> Appended:
        """How far this micro-batch is. Errors: StorageError."""
        path = self._progress_path(manifest.batch_id)
        return _read(path, lambda content: Appended(**content)) if path.exists() else Appended()

    def is_finished(self, manifest: Manifest) -> bool:
        """Whether all of an earlier micro-batch is in the log: that is noted, or its rows were removed after it was."""
        return self.progress(manifest).is_done or not self.rows_folder(manifest.batch_id).exists()

    def note(self, manifest: Manifest, progress: Appended) -> None:
        """Write how far it is. Errors: StorageError."""
        path = self._progress_path(manifest.batch_id)
        if self.progress(manifest).is_done:
            return  # another driver repeated this micro-batch
        try:
            self._write(path, asdict(progress)).replace(path)
            OsFs().sync_dir(self.path)
        except OSError as error:
            raise StorageError(path, f"the progress cannot be written: {error}") from error

    def finish(self, manifest: Manifest) -> None:
        """All of it is in the log: note that, and remove its rows and what is older. Errors: StorageError."""
        self.note(manifest, Appended(batches=manifest.batches, rows=manifest.rows, is_done=True))
        kept = {self._manifest_path(manifest), self._progress_path(manifest.batch_id)}
        for path in self._named(MANIFEST, PROGRESS, ROWS, UNFINISHED):
            number = path.name.partition(".")[0]
            if path in kept or not number.isdecimal() or int(number) > manifest.batch_id:
                continue
            if path.name.endswith(ROWS):
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def withdraw(self, manifest: Manifest) -> None:
        """Nothing of this micro-batch is in the log or ever will be: it may get other rows."""
        self._progress_path(manifest.batch_id).unlink(missing_ok=True)
        self._manifest_path(manifest).unlink(missing_ok=True)

    def discard(self, batch_id: int, files: Iterable[StagedFile]) -> None:
        """Remove these files, except those that the manifest of this micro-batch names. Errors: StorageError."""
        manifest = self.newest()
        kept = {each.name for each in manifest.files} if manifest is not None and manifest.batch_id == batch_id else ()
        for each in files:
            if each.name not in kept:
                (self.rows_folder(batch_id) / each.name).unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove all of it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _manifest_path(self, manifest: Manifest) -> Path:
        return self.path / f"{manifest.batch_id}.{manifest.generation}{MANIFEST}"

    def _progress_path(self, batch_id: int) -> Path:
        return self.path / f"{batch_id}{PROGRESS}"

    def _named(self, *ends: str) -> list[Path]:
        with suppress(FileNotFoundError):
            return [path for path in self.path.iterdir() if path.name.endswith(ends)]
        return []

    def _write(self, path: Path, content: Mapping[str, Any]) -> Path:
        """A synced file with this content beside ``path``."""
        written = path.with_name(f"{path.name}-{uuid4().hex}{UNFINISHED}")
        with written.open("x", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        return written


def next_generation(manifest: Manifest, *, producer_id: int) -> Manifest:
    """The same rows under another producer id."""
    return replace(manifest, generation=manifest.generation + 1, producer_id=producer_id, producer_epoch=0)


def _manifest(content: dict[str, Any]) -> Manifest:
    if content.pop("version") != VERSION:
        raise ValueError("another version of pykraft wrote it")
    files = tuple(StagedFile(**each) for each in content.pop("files"))
    return Manifest(files=files, **content)


def _read(path: Path, parse: Callable[[dict[str, Any]], R]) -> R:
    try:
        return parse(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise StorageError(path, f"cannot be read: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageError(path, f"is not what the sink wrote: {error}") from error
