"""The quarantine file: its content, when it is durable, and what an unreadable one means."""

import json
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from pykraft.core.quarantine import Quarantine
from pykraft.errors import CorruptionError
from pykraft.log.small_files.quarantine_file import FILE_NAME, QuarantineFile, encode_quarantine, parse_quarantine
from pykraft.log.small_files.slots import SlotFile, parse_slots
from pykraft.sim.machine.disk import Interrupted
from pykraft.types import Damage, Epoch, Offset
from tests.log.logs import DIRECTORY, disk

DAMAGE = Damage(
    path="/data/topic-0/0.log",
    position=9,
    start_offset=Offset(3),
    end_offset=Offset(7),
    expected="CRC 1",
    found="CRC 2",
)
NOTE = Quarantine(epoch=Epoch(5), until_offset=Offset(12), damages=(DAMAGE,), is_cut=True)


@pytest.mark.parametrize(
    "note",
    [
        NOTE,
        Quarantine(epoch=Epoch(0), until_offset=None, damages=(), is_cut=True),
        Quarantine(
            epoch=Epoch(1),
            until_offset=None,
            damages=(Damage(path="é", position=0, start_offset=Offset(0), expected="a", found="b"),),
            is_cut=True,
        ),
    ],
)
def test_what_is_written_is_durable_and_read_again(note: Quarantine) -> None:
    fs = disk()
    file = QuarantineFile(fs, DIRECTORY)
    assert not file.exists()
    file.write(note)
    fs.power_loss(Random(1))
    assert file.exists()
    assert file.read() == note


def test_it_is_one_slot_of_json_that_anyone_can_look_at() -> None:
    fs = disk()
    QuarantineFile(fs, DIRECTORY).write(NOTE)
    (slot,) = parse_slots(fs.read(DIRECTORY / FILE_NAME))
    assert json.loads(slot.payload)["damages"][0] == {
        "file": DAMAGE.path,
        "position": 9,
        "startOffset": 3,
        "endOffset": 7,
        "expected": "CRC 1",
        "found": "CRC 2",
    }


def test_a_note_is_replaced_as_a_whole_and_removed_for_good() -> None:
    fs = disk()
    file = QuarantineFile(fs, DIRECTORY)
    file.write(NOTE)
    later = Quarantine(epoch=Epoch(6), until_offset=None, damages=(), is_cut=True)
    file.write(later)
    assert file.read() == later
    file.remove()
    fs.power_loss(Random(2))
    assert not file.exists()


@pytest.mark.parametrize("operations", range(6))
def test_power_loss_while_it_is_replaced_leaves_one_or_the_other(operations: int) -> None:
    fs = disk()
    file = QuarantineFile(fs, DIRECTORY)
    file.write(NOTE)
    later = Quarantine(epoch=Epoch(6), until_offset=None, damages=(), is_cut=True)
    left = [operations]

    def fails(_operation: str, _path: Path) -> bool:
        left[0] -= 1
        if left[0] < 0:
            raise Interrupted(loses_power=True)
        return False

    fs.fail = fails
    with suppress(Interrupted):
        for _ in range(9):
            file.write(later)
    assert left[0] < 0
    fs.fail = lambda _operation, _path: False
    fs.power_loss(Random(operations))
    assert file.read() in (NOTE, later)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        encode_quarantine(NOTE).replace(b'"epoch":5', b'"epoch":"x"'),
        encode_quarantine(NOTE).replace(b'"found"', b'"lost"'),
        b"[" * 100_000,
    ],
)
def test_what_is_no_note_is_said_to_be_none(payload: bytes) -> None:
    fs = disk()
    path = DIRECTORY / FILE_NAME
    if len(payload) < 60_000:
        SlotFile.create(fs, path, payload).close()
    else:
        fs.write(path, payload)
    with pytest.raises(CorruptionError, match="expected a slot with a quarantine"):
        parse_quarantine(path, fs.read(path))
    assert QuarantineFile(fs, DIRECTORY).exists()
