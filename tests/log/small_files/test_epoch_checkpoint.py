"""leader-epoch-checkpoint: Kafka's text, and malformed text.

Source: KIP-101; Kafka's ``LeaderEpochCheckpointFile``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.errors import CorruptionError
from pykraft.log.small_files import epoch_checkpoint
from pykraft.log.small_files.epoch_checkpoint import encode_epochs, parse_epochs, read_epochs, write_epochs
from pykraft.types import Epoch, EpochStart, Offset
from tests.disks import ScriptedDisk

GOLDEN = Path(__file__).parents[2] / "golden"
PATH = Path("/data/leader-epoch-checkpoint")


def start(epoch: int, start_offset: int) -> EpochStart:
    return EpochStart(epoch=Epoch(epoch), start_offset=Offset(start_offset))


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/disk/n*/data/*/leader-epoch-checkpoint")), ids=str)
def test_kafkas_files_are_read_and_written(path: Path) -> None:
    entries = parse_epochs(path, path.read_bytes())
    assert entries
    assert encode_epochs(entries) == path.read_bytes()


def test_the_text() -> None:
    assert encode_epochs([]) == b"0\n0\n"
    assert encode_epochs([start(1, 0), start(4, 17)]) == b"0\n2\n1 0\n4 17\n"
    assert parse_epochs(PATH, b"0\n0\n") == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n1\n",
        b"0\n1\n1 0",
        b"0\n2\n1 0\n",
        b"0\n1\n1\n",
        b"0\n1\n-1 0\n",
        b"0\n1\n1 x\n",
        b"0\n2\n1 0\n1 5\n",
        b"0\n2\n1 5\n2 5\n",
        b"0\n1\n\xff 0\n",
    ],
)
def test_what_is_damaged_is_refused_with_the_repair(content: bytes) -> None:
    with pytest.raises(CorruptionError, match="remove leader-epoch-checkpoint"):
        parse_epochs(PATH, content)


def test_it_is_written_only_when_it_changes() -> None:
    fs = ScriptedDisk()
    fs.prepare(PATH.parent)
    write_epochs(fs, PATH.parent, [start(1, 0)])
    assert fs.read(PATH) == b"0\n1\n1 0\n"
    fs.operations.clear()
    write_epochs(fs, PATH.parent, [start(1, 0)])
    assert fs.operations == []
    write_epochs(fs, PATH.parent, [])
    assert fs.read(PATH) == b"0\n0\n"


def test_a_file_without_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    fs = ScriptedDisk()
    write = encode_epochs([start(1, 0), start(2, 5)])
    fs.write(PATH, write)
    assert read_epochs(fs, PATH) == [start(1, 0), start(2, 5)]
    monkeypatch.setattr(epoch_checkpoint, "SIZE_BYTES_MAX", len(write) - 1)
    with pytest.raises(CorruptionError, match="at most"):
        read_epochs(fs, PATH)
