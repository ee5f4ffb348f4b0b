"""A log directory (an entry of ``log.dirs``) that this process owns: its lock and its identity.

Invariant: while a `LogDirectory` is open, this process holds ``.lock`` and the directory against every other process,
Java or Python, that asks for it, and ``meta.properties`` durably names this node, cluster and directory id. Partitions
are handled elsewhere (`pykraft.log.small_files.partition`).

Source: KIP-858, KIP-853 §Directory id; Kafka's ``MetaPropertiesEnsemble`` and ``DirectoryId``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from pykraft.errors import ConfigError, ForeignDirectoryError, StorageError
from pykraft.log.fs import Fs, Lock, make_directory, write_atomically
from pykraft.log.small_files.meta import FILE_NAME, MetaProperties, encode_meta, parse_meta
from pykraft.types import NodeId, Uuid, uuid_text

LOCK_NAME = ".lock"
_MEANT = {
    "node.id": "node.id",
    "cluster.id": "cluster id",
    "directory.id": "directory id (given none, it takes the one found)",
}
_RESERVED_IDS_COUNT = 100


class OnOwned(Protocol):
    """A callback that runs once the directory is locked and before anything is written to it."""

    def __call__(self, *, is_formatted: bool) -> None:
        """``is_formatted``: the directory has a ``meta.properties``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectory:
    """An open directory; `release` gives up its ownership."""

    path: Path
    directory_id: Uuid
    lock: Lock

    @classmethod
    def open(
        cls,
        fs: Fs,
        path: Path,
        *,
        node_id: NodeId | None,
        cluster_id: str,
        directory_id: Uuid | None,
        random_uuid: Callable[[], Uuid],
        on_owned: OnOwned | None = None,
    ) -> LogDirectory:
        """Lock the directory; create ``meta.properties``, or check that it is this node's.

        ``directory_id`` is the configured one. With None, the id in the file counts, or a random one if the file has
        none. An observer without ``node_id`` has no such file and gets a new directory id at every start.

        ``on_owned`` is called only for a node with an id.

        Errors: ForeignDirectoryError (file, expected, found, repair) for another node, cluster or directory id;
        CorruptionError for an unreadable file; StorageError when another process holds the lock.
        """
        if directory_id is not None and is_reserved(directory_id):
            raise ConfigError("directory.id", uuid_text(directory_id), "the 100 lowest UUIDs are reserved by Kafka")
        make_directory(fs, path)
        lock = fs.lock(path / LOCK_NAME)
        try:
            if node_id is None:
                # An observer without node.id keeps no identity: no peer remembers its directory id, so each start may
                # draw a new one.
                _refuse_owned(fs, path / FILE_NAME)
                found_id = directory_id or _fresh_id(random_uuid)
            else:
                if on_owned is not None:
                    on_owned(is_formatted=fs.exists(path / FILE_NAME))
                wanted = MetaProperties(node_id=node_id, cluster_id=cluster_id, directory_id=directory_id)
                found_id = _own(fs, path / FILE_NAME, wanted, random_uuid)
        except BaseException:
            lock.release()
            raise
        return cls(path=path, directory_id=found_id, lock=lock)

    def look(self) -> None:
        """Check that the name of the lock file still belongs to the file that is held. Errors: StorageError.

        Whoever finds no file there, Kafka for example, makes another one, which is free.
        """
        if not self.lock.is_at_name():
            raise StorageError(
                self.path / LOCK_NAME,
                "is gone, or another file is in its place: somebody deleted or renamed it while the node runs",
                repair="find out who did, and start the node again; never remove the lock of a node that runs",
            )

    def release(self) -> None:
        """Release the lock."""
        self.lock.release()


def is_reserved(directory_id: Uuid) -> bool:
    """True for the ids with a special meaning in Kafka's protocol (unassigned, lost, ...)."""
    return int.from_bytes(directory_id, "big") < _RESERVED_IDS_COUNT


def _own(fs: Fs, path: Path, wanted: MetaProperties, random_uuid: Callable[[], Uuid]) -> Uuid:
    """Check the file against ``wanted``, or add what it lacks; returns the directory id."""
    found = parse_meta(path, fs.read(path)) if fs.exists(path) else replace(wanted, directory_id=None)
    _refuse_foreign(path, "node.id", wanted.node_id, found.node_id)
    _refuse_foreign(path, "cluster.id", wanted.cluster_id, found.cluster_id)
    if found.directory_id is not None:
        if wanted.directory_id is not None:
            _refuse_foreign(path, "directory.id", uuid_text(wanted.directory_id), uuid_text(found.directory_id))
        return found.directory_id
    directory_id = wanted.directory_id or _fresh_id(random_uuid)
    # Files of Kafka before 3.7 have no directory.id: this also adds one to a file that exists.
    write_atomically(fs, path, encode_meta(replace(found, directory_id=directory_id)))
    return directory_id


def _refuse_owned(fs: Fs, path: Path) -> None:
    if fs.exists(path):
        raise ForeignDirectoryError(
            path,
            "expected none for an observer without node.id, found that of a node",
            repair="give the observer a directory of its own in log.dirs, or set node.id",
        )


def _refuse_foreign(path: Path, key: str, expected: object, found: object) -> None:
    if expected != found:
        raise ForeignDirectoryError(
            path,
            f"expected {key}={expected}, found {key}={found}",
            repair=f"this directory is another replica's: correct log.dirs of this node, or its {_MEANT[key]}",
        )


def _fresh_id(random_uuid: Callable[[], Uuid]) -> Uuid:
    """A random id that is not reserved and does not start with ``-``, which a command line would take for an option."""
    while True:
        directory_id = random_uuid()
        if not is_reserved(directory_id) and not uuid_text(directory_id).startswith("-"):
            return directory_id
