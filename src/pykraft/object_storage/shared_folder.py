"""Files of a folder that the driver and the tasks of a query share: on a disk, or in object storage.

Invariant: a file is seen with its whole content or not at all, and `create` makes it once, of all who try at the same
time. On a disk its name is a hard link to what was synced before; in object storage it is a conditional write, which
the storage refuses where an object is.

Source: ADR 097, ADR 212; POSIX ``link``; HTTP's ``If-None-Match: *`` (RFC 9110 §13.1.2).
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from pykraft.errors import StorageError
from pykraft.log.os_fs import OsFs
from pykraft.object_storage.files import Files, store_of
from pykraft.object_storage.uris import UriPath

UNFINISHED = ".tmp"


@contextmanager
def new_file(path: Path) -> Iterator[Callable[[bytes], object]]:
    """How to write to a file of a name that nobody else uses; durable after the block.

    Errors: StorageError, OSError.
    """
    if isinstance(path, UriPath):
        with store_of(path).new_object(path) as write:
            yield write
        return
    with path.open("xb") as file:
        yield file.write
        file.flush()
        os.fsync(file.fileno())
    OsFs().sync_dir(path.parent)


def create(path: Path, content: bytes) -> bool:
    """Whether there was no file, so that there is this one now. Errors: StorageError, OSError."""
    if isinstance(path, UriPath):
        return store_of(path).create(path, content)
    path.parent.mkdir(exist_ok=True)
    with _written(path, content) as written:
        try:
            path.hardlink_to(written)
        except FileExistsError:
            return False
    OsFs().sync_dir(path.parent)
    return True


def replace(path: Path, content: bytes) -> None:
    """Errors: StorageError, OSError."""
    if isinstance(path, UriPath):
        store_of(path).replace(path, content)
        return
    with _written(path, content) as written:
        written.replace(path)
    OsFs().sync_dir(path.parent)


@contextmanager
def _written(path: Path, content: bytes) -> Iterator[Path]:
    written = path.with_name(f"{path.name}-{uuid4().hex}{UNFINISHED}")
    with new_file(written) as write:
        write(content)
    yield written
    written.unlink(missing_ok=True)


def content(path: Path) -> bytes | None:
    """None if there is no such file. Errors: StorageError."""
    with _absent(), closing(Files().open(path)) as file:
        return file.pread(file.size(), 0)
    return None


def entries(folder: Path) -> list[Path]:
    """What is in a folder; nothing if it is not there. Errors: StorageError."""
    with _absent():
        return [folder / name for name in Files().listdir(folder)]
    return []


@contextmanager
def _absent() -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise


def remove(path: Path) -> None:
    """Remove a file, if it is there. Errors: StorageError, OSError."""
    if isinstance(path, UriPath):
        store_of(path).remove([path])
    else:
        path.unlink(missing_ok=True)


def remove_folder(path: Path) -> None:
    """Remove all that is in it; what cannot be removed stays."""
    if not isinstance(path, UriPath):
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(StorageError):
        store_of(path).remove_folder(path)
