"""``leader-epoch-checkpoint``: where each leader epoch begins, as text.

Line 1 the version ``0``, line 2 the number of entries, then ``<epoch> <start offset>`` in ascending order.

Owns the text and when it is written. Invariant: it is a cache. The entries that count are derived from the
batches at every start; a file that is damaged, or lags after a crash, is replaced and nothing is lost.

It refuses to know what epochs are compared for (`pykraft.core.epochs`).
Source: KIP-101; Kafka's ``LeaderEpochCheckpointFile``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from pykraft.errors import CorruptionError
from pykraft.log.fs import Fs, write_atomically
from pykraft.types import Epoch, EpochStart, Offset

FILE_NAME = "leader-epoch-checkpoint"
_VERSION = "0"


def write_epochs(fs: Fs, directory: Path, entries: Sequence[EpochStart]) -> None:
    """Replace the file unless it says this already; durable when it returns."""
    path = directory / FILE_NAME
    content = encode_epochs(entries)
    if not fs.exists(path) or fs.read(path) != content:
        write_atomically(fs, path, content)


def encode_epochs(entries: Sequence[EpochStart]) -> bytes:
    """The file's bytes."""
    lines = [_VERSION, str(len(entries)), *(f"{entry.epoch} {entry.start_offset}" for entry in entries)]
    return ("\n".join(lines) + "\n").encode()


def parse_epochs(path: Path, content: bytes) -> list[EpochStart]:
    """The entries in these bytes. Errors: CorruptionError, also when they do not ascend."""
    lines = content.decode("utf-8", "replace").split("\n")
    rows = [line.split(" ") for line in lines[2:-1]]
    numbers_ok = all(len(row) == 2 and all(field.isascii() and field.isdigit() for field in row) for row in rows)
    if lines[0] == _VERSION and lines[-1] == "" and numbers_ok and lines[1:2] == [str(len(rows))]:
        entries = [EpochStart(epoch=Epoch(int(row[0])), start_offset=Offset(int(row[1]))) for row in rows]
        pairs = list(pairwise(entries))
        if all(one.epoch < two.epoch and one.start_offset < two.start_offset for one, two in pairs):
            return entries
    raise CorruptionError(
        path,
        position=0,
        expected="a version line 0, a count, and that many ascending entries",
        found=repr(content[:80]),
        repair=f"remove {FILE_NAME}; it is derived from the log again",
    )
