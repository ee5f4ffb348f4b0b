"""A log directory (an entry of ``log.dirs``): its lock, its identity, and how the directories of a node are formatted.

Invariant: while a `LogDirectory` is open, this process holds ``.lock`` and the directory against every other process,
Java or Python, that asks for it, and ``meta.properties`` durably names this node, cluster and directory id. All
directories of a node have the same node id and cluster id, and each its own directory id. `format_directories` writes
nothing unless all of them can be formatted, and what it writes is durable when it returns.

Source: KIP-858, KIP-853 §Directory id, KIP-631 §Formatting; Kafka's ``MetaPropertiesEnsemble``, ``DirectoryId``,
``Formatter`` and ``StorageTool``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from pykraft.errors import ConfigError, CorruptionError, ForeignDirectoryError, StorageError, UsageError
from pykraft.log.fs import Fs, Lock, make_directory, write_atomically
from pykraft.log.small_files.meta import FILE_NAME, MetaProperties, encode_meta, parse_meta
from pykraft.log.small_files.proof_file import ProofFile
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

    def check_lock(self) -> None:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Formatted:
    """One directory after formatting."""

    path: Path
    directory_id: Uuid | None
    is_new: bool
    """False when the directory was formatted before and left as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What is in the directories of one node."""

    found: list[Path]
    """The paths that are directories."""
    meta: MetaProperties | None
    """The first ``meta.properties`` found."""
    problems: list[str]


def format_directories(
    fs: Fs,
    paths: Sequence[Path],
    *,
    node_id: NodeId,
    cluster_id: str,
    directory_ids: dict[Path, Uuid],
    ignore_formatted: bool,
    random_uuid: Callable[[], Uuid],
    before_metadata: Callable[[], None] = lambda: None,
) -> list[Formatted]:
    """Give each directory a ``meta.properties`` of version 1.

    ``directory_ids`` has the ids that are given; the other directories get random ones. The last path is the metadata
    directory. If that one has no ``meta.properties`` yet, ``before_metadata`` is called before any directory is
    formatted.

    An unproven directory (a node created it by itself or found it emptied, and the other voters have not proven it yet)
    is formatted too: it keeps its ids, and the operator vouches that no data was lost with it (ADR 022).

    Errors: UsageError when a directory is formatted already and ``ignore_formatted`` is not set; ForeignDirectoryError
    when a formatted one belongs to another node or cluster, or its directory id differs from the given one;
    CorruptionError; StorageError.
    """
    known = {path: parse_meta(path / FILE_NAME, fs.read(path / FILE_NAME)) for path in paths if _is_formatted(fs, path)}
    unproven = {path for path in known if _is_unproven(fs, path)}
    # Check every directory before writing to any.
    for path, meta in known.items():
        if not ignore_formatted and path not in unproven:
            raise UsageError(
                f"log directory {path} is already formatted: --ignore-formatted ignores it and formats the others"
            )
        _refuse_other(path, "cluster.id", cluster_id, meta.cluster_id)
        _refuse_other(path, "node.id", node_id, meta.node_id)
        if path in directory_ids and meta.directory_id is not None:
            _refuse_other(path, "directory.id", uuid_text(directory_ids[path]), uuid_text(meta.directory_id))
    if paths[-1] not in known:
        before_metadata()
    done = []
    for path in paths:
        if path in known and (ignore_formatted or path not in unproven):
            done.append(Formatted(path=path, directory_id=known[path].directory_id, is_new=False))
            continue
        opened = LogDirectory.open(
            fs,
            path,
            node_id=node_id,
            cluster_id=cluster_id,
            directory_id=directory_ids.get(path),
            random_uuid=random_uuid,
        )
        opened.release()
        # Last: after a crash before this line the directory does not look formatted, or is still unproven.
        ProofFile(fs, path).remove()
        done.append(Formatted(path=path, directory_id=opened.directory_id, is_new=True))
    return done


def meta_in(fs: Fs, path: Path) -> MetaProperties | None:
    """The ``meta.properties`` of a directory; None when it is not formatted. Errors: StorageError, CorruptionError."""
    return parse_meta(path / FILE_NAME, fs.read(path / FILE_NAME)) if _is_formatted(fs, path) else None


def inspect_directories(fs: Fs, paths: Sequence[Path], *, node_id: NodeId | None) -> Inspection:
    """What is in these directories; problems are in Kafka's words where Kafka has a message for them."""
    found: list[Path] = []
    problems: list[str] = []
    first: MetaProperties | None = None
    for path in paths:
        if not fs.exists(path):
            problems.append(f"{path} does not exist")
            continue
        if not path.is_dir():
            problems.append(f"{path} is not a directory")
            continue
        found.append(path)
        try:
            if not _is_formatted(fs, path):
                problems.append(f"{path} is not formatted.")
                continue
            meta = parse_meta(path / FILE_NAME, fs.read(path / FILE_NAME))
        except StorageError as error:
            problems.append(f"Error loading {error}")
            continue
        first = first or meta
        if meta.cluster_id != first.cluster_id:
            problems.append("Mismatched cluster IDs between storage directories.")
        elif meta.node_id != first.node_id:
            problems.append("Mismatched node IDs between storage directories.")
        elif meta.directory_id is None:
            problems.append(f"{path / FILE_NAME} has no directory.id; the first start of the node adds one")
    if first is not None and node_id is not None and first.node_id != node_id:
        problems.append(
            f"The directories are those of node {first.node_id}, and the configuration is node {node_id}'s."
        )
    return Inspection(found=found, meta=first, problems=problems)


def _is_formatted(fs: Fs, path: Path) -> bool:
    return fs.exists(path) and fs.exists(path / FILE_NAME)


def _is_unproven(fs: Fs, path: Path) -> bool:
    try:
        proof = ProofFile(fs, path).read()
    except CorruptionError:
        return True
    return proof is not None and not proof.is_complete


def _refuse_other(path: Path, key: str, expected: object, found: object) -> None:
    if expected != found:
        raise ForeignDirectoryError(
            path / FILE_NAME,
            f"Invalid {key}: expected {expected}, but read {found}",
            repair="this directory is another replica's: correct the configuration or the options",
        )
