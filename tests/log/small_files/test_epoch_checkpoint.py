"""leader-epoch-checkpoint: Kafka's text, malformed text, and 62,000 epochs."""

from pathlib import Path
from struct import pack_into

import pytest

from pykraft.errors import CorruptionError
from pykraft.log.fs import SMALL_FILE_SIZE_BYTES_MAX
from pykraft.log.offline.dump import dump_file
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files import epoch_checkpoint
from pykraft.log.small_files.epoch_checkpoint import FILE_NAME, encode_epochs, parse_epochs, read_epochs, write_epochs
from pykraft.types import Epoch, EpochStart, Offset
from tests.disks import ScriptedDisk
from tests.log.logs import ONE, batch, open_log

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


EPOCHS = 62_000
BASE = 10**10
"""Where the log begins: offsets have 11 digits in a quorum that is that old."""


def batches_of_all_epochs() -> bytes:
    """One batch each. Neither offset nor epoch is covered by the CRC, so one batch is the model of all."""
    model = batch(0, epoch=1, size_bytes=1)[1]
    content = bytearray(model * EPOCHS)
    for at in range(EPOCHS):
        pack_into(">q", content, at * len(model), BASE + at)
        pack_into(">i", content, at * len(model) + 12, at + 1)
    return bytes(content)


def all_epochs() -> list[EpochStart]:
    return [EpochStart(epoch=Epoch(at + 1), start_offset=Offset(BASE + at)) for at in range(EPOCHS)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """As Kafka, or pykraft before a clean stop, has it."""
    (tmp_path / f"{BASE:020}.log").write_bytes(batches_of_all_epochs())
    (tmp_path / f"{BASE:020}-{0:010}.checkpoint").touch()
    (tmp_path / FILE_NAME).write_bytes(encode_epochs(all_epochs()))
    assert (tmp_path / FILE_NAME).stat().st_size > SMALL_FILE_SIZE_BYTES_MAX
    return tmp_path


@pytest.mark.no_cover
def test_a_log_of_so_many_epochs_opens_and_grows(directory: Path) -> None:
    log, recovery = open_log(OsFs(), ONE, directory)
    assert (log.end_offset, len(log.epochs), recovery.corrupt) == (BASE + EPOCHS, EPOCHS, ())
    log.append([batch(BASE + EPOCHS, epoch=EPOCHS + 1)])
    log.append([batch(BASE + EPOCHS + 1, epoch=EPOCHS + 2)])
    listed = parse_epochs(directory, (directory / FILE_NAME).read_bytes())
    assert (len(listed), listed[-1].epoch) == (EPOCHS + 2, EPOCHS + 2)
    log.truncate_to(Offset(BASE + EPOCHS))
    assert read_epochs(OsFs(), directory / FILE_NAME) == all_epochs()
    log.close()


@pytest.mark.no_cover
def test_tools_read_so_many_epochs(directory: Path) -> None:
    assert sum(1 for _ in dump_file(OsFs(), directory / FILE_NAME, with_records=False)) == EPOCHS


@pytest.mark.no_cover
def test_a_list_of_epochs_that_is_not_read_for_its_size_is_derived_from_the_log(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (directory / f"{BASE:020}.log").write_bytes(b"")
    monkeypatch.setattr(epoch_checkpoint, "SIZE_BYTES_MAX", SMALL_FILE_SIZE_BYTES_MAX)
    log, recovery = open_log(OsFs(), ONE, directory)
    assert any("it is derived from the log again" in note for note in recovery.notes)
    assert read_epochs(OsFs(), directory / FILE_NAME) == []
    log.close()
