"""``leader-epoch-checkpoint``: where each leader epoch begins, as text.

Line 1 is the version ``0``, line 2 the number of entries, then ``<epoch> <start offset>`` in ascending order.

Invariant: the file is a cache. Every start derives the entries from the batches again, so a file that is damaged, or
lags after a crash, is replaced and nothing is lost. It grows with every election until the log is cleaned, so it may be
larger than other small files (`Fs.read`); its own limit only keeps an unrelated huge file out of memory.

Source: KIP-101; Kafka's ``LeaderEpochCheckpointFile``.
"""

import re
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Final

from pykraft.errors import CorruptionError
from pykraft.log.fs import Fs, write_atomically
from pykraft.types import Epoch, EpochStart, Offset

FILE_NAME = "leader-epoch-checkpoint"
SIZE_BYTES_MAX: Final = 256 * 1024 * 1024
"""Largest file that is read: enough for ten million epochs."""
_VERSION = "0"
_DIGITS_MAX: Final = 19
_VERSION_LINE: Final = re.compile(rb"0\n")
_ROWS: Final = re.compile(rb"0\n([0-9]{1,19})\n(?:[0-9]{1,19} [0-9]{1,19}\n)*")


def write_epochs(fs: Fs, directory: Path, entries: Sequence[EpochStart]) -> None:
    """Replace the file unless it has this content already; durable when it returns."""
    path = directory / FILE_NAME
    content = encode_epochs(entries)
    if not fs.exists(path) or not _says(fs, path, content):
        write_atomically(fs, path, content)


def read_epochs(fs: Fs, path: Path) -> list[EpochStart]:
    """The entries of the file. Errors: CorruptionError as `parse_epochs`, and when it is too large; StorageError."""
    return parse_epochs(path, read_content(fs, path))


def read_content(fs: Fs, path: Path) -> bytes:
    """All bytes of the file. Errors: CorruptionError when it is larger than SIZE_BYTES_MAX; StorageError."""
    with closing(fs.open(path)) as file:
        size_bytes = file.size()
        if size_bytes > SIZE_BYTES_MAX:
            raise _unreadable(path, f"at most {SIZE_BYTES_MAX} bytes", f"{size_bytes}")
        return file.pread(size_bytes, 0)


def encode_epochs(entries: Sequence[EpochStart]) -> bytes:
    lines = [_VERSION, str(len(entries)), *(f"{entry.epoch} {entry.start_offset}" for entry in entries)]
    return ("\n".join(lines) + "\n").encode()


def position_of(found: Sequence[EpochStart], expected: Sequence[EpochStart]) -> int:
    """The first byte at which the files with these entries differ, without the line that counts them."""
    one, other = encode_epochs(found), encode_epochs(expected)
    rows, others = one.split(b"\n", 2)[2], other.split(b"\n", 2)[2]
    same = next((at for at, (left, right) in enumerate(zip(rows, others, strict=False)) if left != right), None)
    return len(one) - len(rows) + (min(len(rows), len(others)) if same is None else same)


def parse_epochs(path: Path, content: bytes) -> list[EpochStart]:
    """The entries in these bytes. Errors: CorruptionError, also when they do not ascend."""
    lines = content.decode("utf-8", "replace").split("\n")
    rows = [line.split(" ") for line in lines[2:-1]]
    numbers_ok = all(len(row) == 2 and all(map(_is_number, row)) for row in rows)
    if lines[0] == _VERSION and lines[-1] == "" and numbers_ok and lines[1:2] == [str(len(rows))]:
        entries = [EpochStart(epoch=Epoch(int(row[0])), start_offset=Offset(int(row[1]))) for row in rows]
        pairs = list(pairwise(entries))
        if all(one.epoch < two.epoch and one.start_offset < two.start_offset for one, two in pairs):
            return entries
    expected = "a version line 0, a count, and that many ascending entries"
    raise _unreadable(path, expected, repr(content[:80]), _first_bad(content))


def _first_bad(content: bytes) -> int:
    """The first byte that no such file has there; the start of the line if its number is wrong."""
    good = _ROWS.match(content)
    if good is None:
        return 0 if _VERSION_LINE.match(content) is None else len(_VERSION) + 1
    if good.end() < len(content) or content.count(b"\n") - 2 != int(good[1]):
        # A count that is wrong is as likely as a row that is missing; a row that is wrong shows itself.
        return good.end() if good.end() < len(content) else good.start(1)
    numbers = [tuple(map(int, row.split())) for row in good[0].split(b"\n")[2:-1]]
    wrong = next(at for at, (one, two) in enumerate(pairwise(numbers), 1) if not (one[0] < two[0] and one[1] < two[1]))
    return sum(len(row) + 1 for row in content.split(b"\n")[: wrong + 2])


def _is_number(field: str) -> bool:
    # The length is checked first: ``int`` raises a ValueError of its own for thousands of digits.
    return field.isascii() and field.isdigit() and len(field) <= _DIGITS_MAX


def _says(fs: Fs, path: Path, content: bytes) -> bool:
    with closing(fs.open(path)) as file:
        return file.size() == len(content) and file.pread(len(content), 0) == content


def _unreadable(path: Path, expected: str, found: str, position: int = 0) -> CorruptionError:
    repair = f"remove {FILE_NAME}; it is derived from the log again"
    return CorruptionError(path, position=position, expected=expected, found=found, repair=repair)
