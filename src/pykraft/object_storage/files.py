"""Files of this machine and of object storage under one interface, `pykraft.log.fs.Fs`, for whoever only reads.

A path of this machine goes to `OsFs` at once. A folder in object storage is listed once, with sizes, and then
remembered: an instance therefore lives as long as one plan, task or micro-batch, and the next one looks again.

Invariant: nothing is written; nothing but `pykraft.object_storage.stores` speaks to the storage.

Source: ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, closing
from fnmatch import fnmatchcase
from functools import partial
from glob import glob, has_magic
from pathlib import Path
from typing import NoReturn

from pykraft.errors import StorageError
from pykraft.log.fs import File, read_small
from pykraft.log.os_fs import OsFs
from pykraft.object_storage.remote_file import RemoteFile, refusal
from pykraft.object_storage.stores import ObjectReader, StoredEntry, store_of
from pykraft.object_storage.uris import UriPath, is_uri, located, restored


class Files:
    """See the module. Errors of all methods: StorageError with the path or URI."""

    def __init__(self) -> None:
        self._here = OsFs()
        self._listings: dict[UriPath, Mapping[str, StoredEntry]] = {}

    def find(self, pattern: str) -> list[Path]:
        """What a path, a URI, or a glob of either matches. Errors: UsageError for a URI that cannot be read."""
        if not is_uri(pattern) or not isinstance(path := located(pattern), UriPath):
            here = pattern if not is_uri(pattern) else str(located(pattern))
            matches = [here] if Path(here).exists() else glob(here)  # noqa: PTH207 - may be absolute
            return [Path(match).resolve() for match in matches]
        found = [UriPath(*path.parts[:2])]
        for part in path.parts[2:]:
            if has_magic(part):
                found = [each / name for each in found for name in self._names(each) if _is_match(name, part)]
            else:
                found = [each / part for each in found]
        return [each for each in found if self._is_there(each)]

    def open(self, path: Path, *, create: bool = False, write: bool = False) -> File:
        """See `Fs.open`, for reading only. An object is opened by its first read, if a listing told its size."""
        if (there := _remote(path)) is None:
            return self._here.open(path, create=create, write=write)
        if create or write:
            raise refusal(there)
        entry = self._known(there)
        file = RemoteFile(there, partial(self._reader, there), None if entry is None else entry.size_bytes)
        file.size()
        return file

    def exists(self, path: Path) -> bool:
        """See `Fs.exists`."""
        if (there := _remote(path)) is None:
            return self._here.exists(path)
        listing = self._listings.get(there.parent)
        return there.name in listing if listing is not None else store_of(there).entry(there) is not None

    def is_folder(self, path: Path) -> bool:
        """Whether it is a directory, or something in object storage has a name below it."""
        if (there := _remote(path)) is None:
            return path.is_dir()
        entry = self._known(there)
        return entry.size_bytes is None if entry is not None else bool(self._names(there))

    def listdir(self, path: Path) -> list[str]:
        """See `Fs.listdir`; an object is an empty folder."""
        there = _remote(path)
        return self._here.listdir(path) if there is None else sorted(self._listed(there))

    def size_bytes(self, path: Path) -> int:
        """The size of a file."""
        if _remote(path) is not None:
            with closing(self.open(path)) as file:
                return file.size()
        try:
            return path.stat().st_size
        except OSError as error:
            raise StorageError(path, f"cannot be read: {error.strerror}") from error

    def read(self, path: Path) -> bytes:
        """See `Fs.read`."""
        if _remote(path) is None:
            return self._here.read(path)
        with closing(self.open(path)) as file:
            return read_small(file, path)

    def _is_there(self, path: UriPath) -> bool:
        return self.exists(path) if path.parent in self._listings else self.is_folder(path) or self.exists(path)

    def _known(self, path: UriPath) -> StoredEntry | None:
        """What a listing has told."""
        return self._listings.get(path.parent, {}).get(path.name)

    def _names(self, path: UriPath) -> list[str]:
        """What is in a folder; nothing if there is none."""
        try:
            return sorted(self._listed(path))
        except StorageError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return []
            raise

    def _listed(self, path: UriPath) -> Mapping[str, StoredEntry]:
        entry = self._known(path)
        if entry is not None and entry.size_bytes is not None:
            return {}
        known = self._listings.get(path)
        if known is None:
            found = store_of(path).entries(path)
            known = self._listings[path] = {entry.name: entry for entry in found}
        return known

    def _reader(self, path: UriPath) -> ObjectReader:
        try:
            return store_of(path).open(path)
        except StorageError:
            # It was listed and is gone: who tries again shall see what is there now.
            self._listings.pop(path.parent, None)
            raise

    def mkdir(self, path: Path) -> NoReturn:
        """Never."""
        raise refusal(path)

    def rename(self, old: Path, new: Path) -> NoReturn:
        """Never."""
        del old
        raise refusal(new)

    def remove(self, path: Path, *, missing_ok: bool = False) -> NoReturn:
        """Never."""
        del missing_ok
        raise refusal(path)

    def sync_dir(self, path: Path) -> NoReturn:
        """Never."""
        raise refusal(path)

    def lock(self, path: Path) -> NoReturn:
        """Never."""
        raise refusal(path)

    def mutex(self) -> AbstractContextManager[object]:
        """See `Fs.mutex`."""
        return self._here.mutex()


def _remote(path: Path) -> UriPath | None:
    """The path, if it is one of object storage."""
    found = path if isinstance(path, UriPath) else restored(path)
    return found if isinstance(found, UriPath) else None


def _is_match(name: str, pattern: str) -> bool:
    """As `glob` has it: a star does not match a name that begins with a dot."""
    return fnmatchcase(name, pattern) and (pattern.startswith(".") or not name.startswith("."))
