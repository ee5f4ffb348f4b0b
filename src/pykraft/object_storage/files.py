"""Files of this machine and of object storage under one interface, `pykraft.log.fs.Fs`, for whoever only reads.

A path of this machine goes to `OsFs` at once. A folder in object storage is listed once, with sizes, and then
remembered: an instance therefore lives as long as one plan, task or micro-batch, and the next one looks again.

A request to object storage takes tens of milliseconds, whatever its size. So small reads of an object take a whole
block, and blocks are kept (an offset index is searched by halving); reads that follow each other take more and more at
a time, up to AHEAD_SIZE_BYTES. Who reads a known range front to back says so (`RemoteFile.expect`): then the next part
is already on its way, and nothing after the range is fetched. Memory holds at most BLOCKS_MAX blocks of an object, and
three times AHEAD_SIZE_BYTES or a larger read.

A store is a bucket, a container or a name node of Apache Arrow's file systems, which Spark's extra brings anyway (ADR
113). Credentials and endpoints come from the library's own places: the environment, and the configuration files of the
cloud. Only Spark's sink and tables write, through obstore, which can write under a condition (ADR 212).

Invariants: `Files` writes nothing; an error of a library leaves this file as a `StorageError` with the URI and a
reason of ours. The library's own text may hold parts of a request, so only its error code is passed on.

Source: ours; Apache Arrow's ``pyarrow.fs``.
"""

import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache, partial
from glob import glob, has_magic
from pathlib import Path
from threading import Lock
from typing import Any, Final, NoReturn

from pykraft.errors import StorageError
from pykraft.log.fs import File, read_small
from pykraft.log.os_fs import OsFs
from pykraft.object_storage.uris import SCHEMES, UriPath, is_uri, located, restored
from pykraft.process.extras import imported_for
from pykraft.types import Buffer

ATTEMPTS_MAX: Final = 5
"""Of a request to S3 that is refused for a passing reason, such as 503 or a broken connection."""
PAUSE_S: Final = 0.05
REFUSAL_SIZE_BYTES_MAX: Final = 4096
ANONYMOUS: Final = "anonymous@"
"""Before a bucket that everybody may read."""
STORES_MAX: Final = 64
"""Buckets whose connections a process keeps."""
_MARK: Final = bytes.fromhex("d15c8f1f0a7b4e2c93e66b0d5a37f284")
_OTHER_MARK: Final = bytes(each ^ 0xFF for each in _MARK)
_UNREADABLE: Final = "AWS Error INTERNAL_FAILURE"
_CODE: Final = re.compile(r"AWS Error (?P<code>[A-Z_]+)(?: \(HTTP status (?P<status>[0-9]{3})\))?")
_DENIED: Final = (
    "ACCESS_DENIED",
    "INVALID_ACCESS_KEY_ID",
    "INVALID_CLIENT_TOKEN_ID",
    "SIGNATURE_DOES_NOT_MATCH",
    "EXPIRED_TOKEN",
    "MISSING_AUTHENTICATION_TOKEN",
    "UNRECOGNIZED_CLIENT",
    "PERMISSION_DENIED",
    "403 Forbidden",
    "401 Unauthorized",
    "UNAUTHENTICATED",
    "HTTP status 401",
    "HTTP status 403",
    "AuthenticationFailed",
    "AuthorizationFailure",
)
_REASONS: Final[Mapping[str, tuple[str, ...]]] = {
    "there is no such bucket": ("NO_SUCH_BUCKET", "NoSuchBucket", "ContainerNotFound", "bucket does not exist"),
    "access is denied: give credentials in the environment or the configuration files": _DENIED,
    "the storage cannot be reached": (
        "NETWORK_CONNECTION",
        "curlCode",
        "UNAVAILABLE",
        "Could not resolve host",
        "error sending request",
    ),
    "it needs Hadoop's client: JAVA_HOME, HADOOP_HOME and CLASSPATH (hadoop classpath --glob)": ("libjvm", "libhdfs"),
    "the library that reads it was built without this kind of storage": ("built without", "not built with"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEntry:
    """A file of a folder, and its size; or a folder, without one."""

    name: str
    size_bytes: int | None


class ObjectReader:
    """An open object."""

    def __init__(self, path: UriPath, file: Any) -> None:  # noqa: ANN401 - the library's
        self.path = path
        self._file = file
        self._one_at_a_time = Lock()
        with _telling(path, "read"):
            self.size_bytes: int = file.size()

    def read(self, size_bytes: int, position: int) -> bytes:
        """These bytes, all within the object; threads may read at the same time. Errors: StorageError."""
        # If the object has become shorter, the library says that all bytes came, and leaves the rest of the memory as
        # it was. So the last bytes are marked before the read. A mark that is still there may be the object's own
        # bytes: another mark tells.
        for mark in (_MARK, _OTHER_MARK):
            data = bytearray(size_bytes)
            data[-len(mark) :] = mark[:size_bytes]
            with _telling(self.path, f"read {size_bytes} bytes at {position}"), self._one_at_a_time:
                count = self._read_into(data, position)
            if count == size_bytes and not data.endswith(mark[:size_bytes]):
                return bytes(data)
        raise StorageError(
            self.path, f"cannot read {size_bytes} bytes at {position}: the object has become shorter meanwhile"
        )

    def _read_into(self, data: bytearray, position: int) -> int:
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                self._file.seek(position)
                count: int = self._file.readinto(data)
            except OSError as error:
                # The library reads a refusal into the same memory. One that does not fit cannot be understood, and so
                # is not repeated by the library.
                if len(data) >= REFUSAL_SIZE_BYTES_MAX or _UNREADABLE not in str(error) or attempt == ATTEMPTS_MAX:
                    raise
                time.sleep(PAUSE_S * 2**attempt)
            else:
                return count
        raise AssertionError("the last attempt either returns or raises")

    def close(self) -> None:
        with _telling(self.path, "close"):
            self._file.close()


class Store:
    """One bucket, container or name node."""

    def __init__(self, scheme: str, authority: str) -> None:
        with imported_for(f"{scheme}://"):
            from pyarrow import fs
        self._selector = fs.FileSelector
        self._is_folder = fs.FileType.Directory
        self._is_missing = fs.FileType.NotFound
        is_s3 = SCHEMES[scheme] == "s3"
        self._s3: Any = {}
        place = authority.removeprefix(ANONYMOUS) if is_s3 else authority
        self._place = f"{SCHEMES[scheme]}://{place}"
        self._fs, self._root = fs.FileSystem.from_uri(self._place)
        if is_s3:
            # The library repeats refused connections only, unless it is told to.
            endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
            protocol, _, host = endpoint.rpartition("://")
            self._s3 = {"region": self._fs.region, **({"endpoint": endpoint} if host else {})}
            self._fs = fs.S3FileSystem(
                anonymous=authority.startswith(ANONYMOUS),
                region=self._fs.region,
                scheme=protocol or None,
                endpoint_override=host or None,
                retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS_MAX),
            )

    def entries(self, path: UriPath) -> list[StoredEntry]:
        """What is in a folder, in one listing. Errors: StorageError, caused by FileNotFoundError if nothing is."""
        with _telling(path, "list"):
            found = self._fs.get_file_info(self._selector(self._name(path), recursive=False))
        return [StoredEntry(name=one.base_name, size_bytes=one.size if one.is_file else None) for one in found]

    def entry(self, path: UriPath) -> StoredEntry | None:
        """A file or a folder; None if there is neither. Errors: StorageError."""
        with _telling(path, "look up"):
            (found,) = self._fs.get_file_info([self._name(path)])
        if found.type == self._is_missing:
            return None
        return StoredEntry(name=path.name, size_bytes=None if found.type == self._is_folder else found.size)

    def open(self, path: UriPath) -> ObjectReader:
        """Open an object for reading. Errors: StorageError, caused by FileNotFoundError if it is not there."""
        return ObjectReader(path, self.library_file(path))

    def library_file(self, path: UriPath) -> Any:  # noqa: ANN401 - the library's
        """The same, as the library has it: for readers of Parquet, who meet its errors. Errors: as `open`."""
        with _telling(path, "open"):
            return self._fs.open_input_file(self._name(path))

    def _name(self, path: UriPath) -> str:
        return f"{self._root.rstrip('/')}/{path.key}" if path.key else self._root

    @contextmanager
    def new_object(self, path: UriPath) -> Iterator[Callable[[bytes], object]]:
        """What is written within the block is an object after it; if the block fails, there is none.

        Memory holds three parts of AHEAD_SIZE_BYTES. Errors: StorageError.
        """
        with _writing(path) as to:
            file = to.open_writer(self._writer, path.key, buffer_size=AHEAD_SIZE_BYTES, max_concurrency=2)

        def write(data: bytes) -> None:
            with _writing(path):
                file.write(data)

        try:
            yield write
        except BaseException as error:
            with suppress(StorageError), _writing(path):
                file.__exit__(type(error), error, None)  # gives up what was sent
            raise
        with _writing(path):
            file.close()

    def create(self, path: UriPath, content: bytes) -> bool:
        """Whether there was no such object, so that there is this one now. Errors: StorageError."""
        with _writing(path) as to:
            try:
                to.put(self._writer, path.key, content, mode="create")
            except to.exceptions.AlreadyExistsError:
                return False
        return True

    def replace(self, path: UriPath, content: bytes) -> None:
        """Errors: StorageError."""
        with _writing(path) as to:
            to.put(self._writer, path.key, content, use_multipart=False)

    def remove(self, paths: Sequence[UriPath]) -> None:
        """Remove these objects, if they are there. Errors: StorageError."""
        with _writing(paths[0]) as to:
            to.delete(self._writer, [each.key for each in paths])

    def remove_folder(self, path: UriPath) -> None:
        """Remove every object below this name. Errors: StorageError."""
        with _writing(path) as to:
            for found in to.list(self._writer, f"{path.key}/"):
                to.delete(self._writer, [each["path"] for each in found])

    @property
    def delta_options(self) -> dict[str, str]:
        """What ``deltalake`` is told about the storage, beside what it finds in the environment, as obstore does."""
        return {**self._s3, "allow_http": str(self._is_plain).lower(), "max_retries": str(ATTEMPTS_MAX - 1)}

    @property
    def _is_plain(self) -> bool:
        return str(self._s3.get("endpoint", "")).startswith("http://")

    @cached_property
    def _writer(self) -> Any:  # noqa: ANN401 - the library's
        from obstore.store import from_url

        return from_url(
            self._place,
            config=self._s3,
            client_options={"allow_http": self._is_plain},
            retry_config={"max_retries": ATTEMPTS_MAX - 1},
        )


def store_of(path: UriPath) -> Store:
    """The store that holds this. Errors: StorageError; UsageError if the library is not installed."""
    with _telling(path, "open"):
        return _store(path.scheme, path.authority)


@lru_cache(maxsize=STORES_MAX)
def _store(scheme: str, authority: str) -> Store:
    return Store(scheme, authority)


def forget_stores() -> None:
    """Look up endpoints and credentials again before the next request."""
    _store.cache_clear()


@contextmanager
def _telling(path: UriPath, doing: str) -> Iterator[None]:
    """Within this block, an error of the library becomes one of ours."""
    try:
        yield
    except FileNotFoundError as error:
        missing = _known_reason(str(error)) or "there is no such object"
        raise StorageError(path, f"cannot {doing}: {missing}") from FileNotFoundError(str(path))
    except (OSError, ValueError, RuntimeError) as error:
        # Its text and its traceback stay here: they may hold parts of a request.
        raise StorageError(path, f"cannot {doing}: {reason_of(str(error))}") from None


@contextmanager
def _writing(path: UriPath) -> Iterator[Any]:
    """Within this block, the library that writes, whose errors become ours."""
    with imported_for(f"to write to {path.scheme}://"):
        import obstore
        import obstore.exceptions
    try:
        yield obstore
    except (obstore.exceptions.BaseError, OSError) as error:
        raise StorageError(path, f"cannot write: {reason_of(str(error))}") from None


def reason_of(text: str) -> str:
    """A reason of ours for an error of a library with this text, of which only the code is passed on."""
    code = _CODE.search(text)
    told = "" if code is None else f" ({code['status'] or code['code']})"
    return (_known_reason(text) or "the storage failed") + told


def _known_reason(text: str) -> str | None:
    return next((reason for reason, signs in _REASONS.items() if any(sign in text for sign in signs)), None)


BLOCK_SIZE_BYTES: Final = 64 * 1024
BLOCKS_MAX: Final = 32
AHEAD_SIZE_BYTES: Final = 8 * 1024 * 1024
SKIPS_MAX: Final = 4
"""Reads follow each other if the gap between them is at most so many times as long as they are."""


class RemoteFile:
    """A `File`: an object that is opened by its first read."""

    def __init__(self, path: UriPath, open_reader: Callable[[], ObjectReader], size_bytes: int | None) -> None:
        """``size_bytes`` is None if no listing has told it."""
        self.path = path
        self._open_reader = open_reader
        self._reader: ObjectReader | None = None
        self._size_bytes = size_bytes
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._window = (0, b"")
        self._last = (0, 0)
        self._ahead_size_bytes = BLOCK_SIZE_BYTES
        self._expected = (0, 0)
        self._coming: tuple[int, Future[bytes]] | None = None
        self._pool: ThreadPoolExecutor | None = None

    def size(self) -> int:
        if self._size_bytes is None:
            self._size_bytes = self._opened().size_bytes
        return self._size_bytes

    def expect(self, position: int, end: int) -> None:
        """The bytes from ``position`` to ``end`` (exclusive) will be read, front to back."""
        self._expected = (position, min(end, self.size()))

    def pread(self, size_bytes: int, position: int) -> bytes:
        """See `File.pread`. Errors: StorageError."""
        end = min(position + size_bytes, self.size())
        if end <= position:
            return b""
        last, self._last = self._last, (position, end)
        found = self._held(position, end)
        if found is not None:
            return found
        begin, until = self._expected
        if begin <= position and end <= until:
            return self._slide(position, end, until, AHEAD_SIZE_BYTES)
        # A walk over headers skips records; a search jumps further than it reads.
        if last[1] and last[0] <= position <= last[1] + SKIPS_MAX * (end - position):
            self._ahead_size_bytes = min(2 * self._ahead_size_bytes, AHEAD_SIZE_BYTES)
            return self._slide(position, end, self.size(), self._ahead_size_bytes)
        self._ahead_size_bytes = BLOCK_SIZE_BYTES
        block = position // BLOCK_SIZE_BYTES
        if end <= (block + 1) * BLOCK_SIZE_BYTES:
            return self._block(block, position, end)
        return self._fetch(position, end)

    def _held(self, position: int, end: int) -> bytes | None:
        start, data = self._window
        if start <= position and end <= start + len(data):
            return data[position - start : end - start]
        block = position // BLOCK_SIZE_BYTES
        if block in self._blocks and end <= (block + 1) * BLOCK_SIZE_BYTES:
            return self._block(block, position, end)
        return None

    def _block(self, block: int, position: int, end: int) -> bytes:
        start = block * BLOCK_SIZE_BYTES
        if block not in self._blocks:
            self._blocks[block] = self._fetch(start, min(start + BLOCK_SIZE_BYTES, self.size()))
            if len(self._blocks) > BLOCKS_MAX:
                self._blocks.popitem(last=False)
        self._blocks.move_to_end(block)
        return self._blocks[block][position - start : end - start]

    def _slide(self, position: int, end: int, until: int, ahead_size_bytes: int) -> bytes:
        """Move the window forward, so that it holds these bytes and more, up to ``until``."""
        start, data = self._window
        window_end = start + len(data)
        # What is held of the bytes already, such as a batch whose end was missing.
        kept = data[position - start :] if start <= position < window_end else b""
        begin = position + len(kept)
        parts = [kept]
        if self._coming is not None and self._coming[0] == begin:
            parts.append(self._coming[1].result())
            begin += len(parts[-1])
        self._coming = None
        if begin < end:
            parts.append(self._fetch(begin, max(end, min(begin + ahead_size_bytes, until))))
            begin += len(parts[-1])
        self._window = (position, b"".join(parts))
        if self._expected[1] == until and begin < until:
            self._begin_next(begin, min(begin + AHEAD_SIZE_BYTES, until))
        return self._window[1][: end - position]

    def _begin_next(self, position: int, end: int) -> None:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="read ahead")
        self._coming = (position, self._pool.submit(self._fetch, position, end))

    def _fetch(self, position: int, end: int) -> bytes:
        return self._opened().read(end - position, position)

    def _opened(self) -> ObjectReader:
        if self._reader is None:
            self._reader = self._open_reader()
        return self._reader

    def close(self) -> None:
        self._window, self._coming = (0, b""), None
        self._blocks.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
        reader, self._reader = self._reader, None
        if reader is not None:
            # Everything that was asked for has been read: how the connection ends is of no interest.
            with suppress(StorageError):
                reader.close()

    def is_at(self, path: Path) -> bool:
        return self.path == path

    def pwrite(self, parts: Sequence[Buffer], position: int) -> NoReturn:
        del parts, position
        raise refusal(self.path)

    def truncate(self, size_bytes: int) -> NoReturn:
        del size_bytes
        raise refusal(self.path)

    def sync(self) -> NoReturn:
        raise refusal(self.path)

    def reserve(self, position: int, size_bytes: int) -> None:
        """Nothing: see `File.reserve`."""

    def unreserve(self) -> None:
        """Nothing: see `File.unreserve`."""

    def uncache(self, position: int, size_bytes: int) -> None:
        """Nothing: see `File.uncache`."""


def expect_reads(file: File, position: int, end: int) -> None:
    """Say that this range of a file will be read front to back; the system does without for a file of this machine."""
    if isinstance(file, RemoteFile):
        file.expect(position, end)


def refusal(path: Path) -> AssertionError:
    """Nothing here writes."""
    return AssertionError(f"{path}: object storage is only read")


class Files:
    """See the module. Errors of all methods: StorageError with the path or URI. See `Fs`."""

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
        if _remote(path) is not None:
            with closing(self.open(path)) as file:
                return file.size()
        try:
            return path.stat().st_size
        except OSError as error:
            raise StorageError(path, f"cannot be read: {error.strerror}") from error

    def read(self, path: Path) -> bytes:
        if _remote(path) is None:
            return self._here.read(path)
        with closing(self.open(path)) as file:
            return read_small(file, path)

    def _is_there(self, path: UriPath) -> bool:
        return self.exists(path) if path.parent in self._listings else self.is_folder(path) or self.exists(path)

    def _known(self, path: UriPath) -> StoredEntry | None:
        return self._listings.get(path.parent, {}).get(path.name)

    def _names(self, path: UriPath) -> list[str]:
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
        raise refusal(path)

    def rename(self, old: Path, new: Path) -> NoReturn:
        del old
        raise refusal(new)

    def remove(self, path: Path, *, missing_ok: bool = False) -> NoReturn:
        del missing_ok
        raise refusal(path)

    def sync_dir(self, path: Path) -> NoReturn:
        raise refusal(path)

    def lock(self, path: Path) -> NoReturn:
        raise refusal(path)

    def mutex(self) -> AbstractContextManager[object]:
        return self._here.mutex()


def _remote(path: Path) -> UriPath | None:
    found = path if isinstance(path, UriPath) else restored(path)
    return found if isinstance(found, UriPath) else None


def _is_match(name: str, pattern: str) -> bool:
    """As `glob` has it: a star does not match a name that begins with a dot."""
    return fnmatchcase(name, pattern) and (pattern.startswith(".") or not name.startswith("."))
