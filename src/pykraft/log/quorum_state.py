"""Signatures first; the body follows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pykraft.log.fs import Fs
from pykraft.types import Election, NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredElection:
    """Content of `quorum-state`. `voters` is empty for data_version 1."""

    election: Election
    voters: tuple[NodeId, ...]
    data_version: int


class ElectionStore:
    """`quorum-state` and `quorum-state.check` in the partition directory."""

    def __init__(self, fs: Fs, directory: Path) -> None: ...

    def read(self) -> StoredElection | None:
        """None when there is none yet. Durable when it returns. Errors: CorruptionError with file and repair."""
        ...

    def write(self, election: Election, *, voters: tuple[NodeId, ...], kraft_version: int) -> None:
        """Durable when it returns."""
        ...
