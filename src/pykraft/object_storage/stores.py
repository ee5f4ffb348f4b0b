"""The only module that knows the file system library: Apache Arrow's, which Spark's extra brings anyway (ADR 113).

A store is a bucket, a container or a name node; it lists folders and reads ranges. Credentials and endpoints come from
the library's own places: the environment, and the configuration files of the cloud. The library repeats what failed for
a passing reason (ATTEMPTS_MAX times on S3).

Invariant: an error of the library leaves this file as a `StorageError` with the URI and a reason of ours. The library's
own text may hold parts of a request, so only its error code is passed on.

Source: Apache Arrow's ``pyarrow.fs``.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any, Final

from pykraft.errors import StorageError
from pykraft.object_storage.uris import SCHEMES, UriPath
from pykraft.process.extras import imported_for

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
    "UNAUTHENTICATED",
    "HTTP status 401",
    "HTTP status 403",
    "AuthenticationFailed",
    "AuthorizationFailure",
)
_REASONS: Final[Mapping[str, tuple[str, ...]]] = {
    "there is no such bucket": ("NO_SUCH_BUCKET", "ContainerNotFound", "bucket does not exist"),
    "access is denied: give credentials in the environment or the configuration files": _DENIED,
    "the storage cannot be reached": ("NETWORK_CONNECTION", "curlCode", "UNAVAILABLE", "Could not resolve host"),
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
        """Give the connection back."""
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
        place = authority.removeprefix(ANONYMOUS) if is_s3 else authority
        self._fs, self._root = fs.FileSystem.from_uri(f"{SCHEMES[scheme]}://{place}")
        if is_s3:
            # The library repeats refused connections only, unless it is told to.
            endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
            protocol, _, host = endpoint.rpartition("://")
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
        with _telling(path, "open"):
            file = self._fs.open_input_file(self._name(path))
        return ObjectReader(path, file)

    def _name(self, path: UriPath) -> str:
        return f"{self._root.rstrip('/')}/{path.key}" if path.key else self._root


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
        raise StorageError(path, f"cannot {doing}: {_reason(str(error))}") from None


def _reason(text: str) -> str:
    code = _CODE.search(text)
    told = "" if code is None else f" ({code['status'] or code['code']})"
    return (_known_reason(text) or "the storage failed") + told


def _known_reason(text: str) -> str | None:
    return next((reason for reason, signs in _REASONS.items() if any(sign in text for sign in signs)), None)
