"""Signatures first; the body follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pykraft.log.fs import Fs, Lock
from pykraft.types import NodeId, Uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """A log directory (`log.dirs`) that this process owns."""

    path: Path
    directory_id: Uuid
    lock: Lock

    @classmethod
    def open(
        cls,
        fs: Fs,
        path: Path,
        *,
        node_id: NodeId,
        cluster_id: str,
        directory_id: Uuid | None,
        random_uuid: Callable[[], Uuid],
    ) -> Directory:
        """Lock it; create meta.properties or check it. ForeignDirectoryError, CorruptionError, StorageError."""
        ...

    def release(self) -> None: ...
