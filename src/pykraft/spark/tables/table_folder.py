"""The folder of a table: on a disk that the driver and all tasks share, or in object storage.

On a disk a file is synced, and then committed. An object is there, whole and durable, when it is written, or not at
all, so there is nothing to sync and no folder to make; ``deltalake`` creates the next entry of the log with a
conditional write, which the storage refuses if there is one. It finds credentials by itself, where obstore does, and
is told the endpoint.

Invariant: how a table is opened and its files are written, synced and read by pyarrow is decided here, and errors are
ours; those of object storage without the library's text, which may hold parts of a request.

Source: ADR 113, ADR 212, ADR 221; the Delta protocol (mutual exclusion of commits).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from pykraft.errors import StorageError, UsageError
from pykraft.object_storage.files import ANONYMOUS, reason_of, store_of
from pykraft.object_storage.uris import SCHEMES, WRITTEN_SCHEMES, UriPath, located, restored

LOG: Final = "_delta_log"


def tables_at(place: Path | str) -> Path:
    """The folder of tables that a path or a URI names. Errors: UsageError for storage that no table can be in."""
    found = located(str(restored(place) if isinstance(place, Path) else place))
    if isinstance(found, UriPath) and (found.scheme not in WRITTEN_SCHEMES or found.authority.startswith(ANONYMOUS)):
        known = ", ".join(f"{scheme}://" for scheme in WRITTEN_SCHEMES)
        raise UsageError(f"{found}: tables are in a folder, or in object storage of {known}, written with credentials")
    return found


def open_table(folder: Path) -> DeltaTable | None:
    """The newest version of the table; None if there is none. Errors: StorageError."""
    uri, options = delta_place(folder)
    with telling(folder, "the table cannot be opened"):
        try:
            return DeltaTable(uri, storage_options=options)
        except TableNotFoundError:
            return None


def delta_place(folder: Path) -> tuple[str, dict[str, str] | None]:
    """The URI of a table, and the options of its storage, as ``deltalake`` takes them."""
    if not isinstance(folder, UriPath):
        return str(folder), None
    return f"{SCHEMES[folder.scheme]}://{folder.authority}/{folder.key}", store_of(folder).delta_options


def log_of(table: DeltaTable) -> Path:
    """The folder of its log."""
    return located(unquote(table.table_uri)) / LOG


@contextmanager
def telling(folder: Path, problem: str) -> Iterator[None]:
    """Within this block, an error of a library or of the system becomes one of ours that begins with ``problem``."""
    try:
        yield
    except (DeltaError, OSError, pa.ArrowException) as error:
        if isinstance(folder, UriPath):
            raise StorageError(folder, f"{problem}: {reason_of(str(error))}") from None
        raise StorageError(folder, f"{problem}: {error}") from error


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """A file of a name that nobody else uses, durable after the block. Errors: StorageError, OSError."""
    if isinstance(path, UriPath):
        with store_of(path).new_object(path) as write:
            yield pa.PythonFile(SimpleNamespace(write=write, closed=False), mode="w")
        return
    with path.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def parquet_file(path: Path) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Open a Parquet file for reading. Errors: StorageError; OSError and pyarrow's, for `telling`."""
    return pq.ParquetFile(store_of(path).library_file(path) if isinstance(path, UriPath) else path)


def make_folder(folder: Path) -> None:
    """Make a folder for files, unless it exists. Errors: StorageError."""
    if isinstance(folder, UriPath):
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(folder, f"cannot be made: {error.strerror}") from error


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Errors: OSError."""
    if isinstance(folder, UriPath):
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
