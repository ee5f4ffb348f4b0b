"""Formats the log directories of one node, and reports what is in them.

This module owns the rules for ``meta.properties`` across several directories: all have the same node id and cluster id,
and each has its own directory id. Invariant of `format_directories`: it writes nothing unless all directories can be
formatted, and what it writes is durable when it returns. The command line reads the properties files and prints.

Source: KIP-858, KIP-631 §Formatting; Kafka's ``Formatter``, ``StorageTool`` and ``MetaPropertiesEnsemble``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pykraft.errors import CorruptionError, ForeignDirectoryError, StorageError, UsageError
from pykraft.log.directory import LogDirectory
from pykraft.log.fs import Fs
from pykraft.log.small_files.meta import FILE_NAME, MetaProperties, parse_meta
from pykraft.log.small_files.proof_file import ProofFile
from pykraft.types import NodeId, Uuid, uuid_text


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
