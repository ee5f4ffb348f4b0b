"""Finds replicas from partition directories, segment files, and globs of them, here and in object storage.

A replica is named by the part of its path that differs from the others. Invariant: this module reads directories only.

Source: KIP-595 (log layout).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pykraft.errors import UsageError
from pykraft.object_storage.files import Files
from pykraft.spark.data_source.walk import ReplicaLog, segments_of


def find_replicas(patterns: Sequence[str]) -> list[ReplicaLog]:
    """The replicas that these patterns match, each once; if a pattern names segment files, only those are read.

    What they list of object storage is listed once, for as long as the replicas are used.

    Errors: UsageError if a pattern matches no segment; StorageError.
    """
    fs = Files()
    whole: set[Path] = set()
    named: dict[Path, set[Path]] = {}
    for pattern in patterns:
        found = 0
        for path in fs.find(pattern):
            files = segments_of(fs, path)
            found += len(files)
            if files and fs.is_folder(path):
                whole.add(path)
            for file in files:
                named.setdefault(file.parent, set()).add(file)
        if not found:
            raise UsageError(f"{pattern}: no segment files; give partition directories, .log files or globs of them")
    names = replica_names(sorted(named))
    return [
        ReplicaLog(names[directory], directory, None if directory in whole else sorted(named[directory]), fs)
        for directory in sorted(named)
    ]


def replica_names(directories: Sequence[Path]) -> dict[Path, str]:
    """A short name for each directory: the part of its path that differs from the others."""
    if len(directories) == 1:
        return {directories[0]: directories[0].parent.name or str(directories[0])}
    parts = {directory: directory.absolute().parts for directory in directories}
    start = _common_length(list(parts.values()))
    end = _common_length([tuple(reversed(each)) for each in parts.values()])
    return {directory: "/".join(each[start : len(each) - end]) or str(directory) for directory, each in parts.items()}


def _common_length(sequences: Sequence[Sequence[str]]) -> int:
    """How many leading elements all sequences share."""
    count = 0
    for column in zip(*sequences, strict=False):
        if len(set(column)) > 1:
            break
        count += 1
    return count
