"""The two-slot file: turns, torn writes, and every changed bit.

Source: the ping-pong meta pages of LMDB; rules of ours (no Kafka file).
"""

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.errors import CorruptionError, StorageError
from pykraft.log.small_files.slots import SLOT_SIZE_BYTES, SlotFile, parse_slots
from pykraft.sim.machine.disk import Interrupted
from tests.disks import ScriptedDisk

PATH = Path("/data/slots")


def disk() -> ScriptedDisk:
    fs = ScriptedDisk()
    fs.prepare(PATH.parent)
    return fs


@given(st.lists(st.binary(max_size=100), min_size=1, max_size=5))
def test_the_newest_payload_and_the_one_before_are_read_back(payloads: list[bytes]) -> None:
    fs = disk()
    file = SlotFile.create(fs, PATH, payloads[0])
    for payload in payloads[1:]:
        file.write(payload)
    file.sync()
    file.close()
    file = SlotFile.open(fs, PATH, repair="")
    assert (file.newest.payload, file.newest.generation) == (payloads[-1], len(payloads))
    if len(payloads) == 1:
        assert file.previous is None
    else:
        assert file.previous is not None
        assert file.previous.payload == payloads[-2]


def test_a_rewrite_replaces_what_is_not_durable_and_nothing_else() -> None:
    fs = disk()
    file = SlotFile.create(fs, PATH, b"one")
    fs.operations.clear()
    for payload in (b"two", b"three"):
        file.rewrite(payload)
    assert [operation for operation, _ in fs.operations] == ["pwrite", "pwrite"]
    assert [(slot.generation, slot.payload) for slot in parse_slots(fs.read(PATH))] == [(1, b"one"), (2, b"three")]
    file.sync()
    file.rewrite(b"four")
    assert [(slot.generation, slot.payload) for slot in parse_slots(fs.read(PATH))] == [(2, b"three"), (3, b"four")]


def test_the_layout() -> None:
    fs = disk()
    file = SlotFile.create(fs, PATH, b"one")
    file.write(b"second")
    content = fs.read(PATH)
    assert content.startswith(b"pykraft 0 1 3 ")
    assert content[SLOT_SIZE_BYTES:].startswith(b"pykraft 0 2 6 ")
    assert content.endswith(b"\nsecond")


@pytest.mark.parametrize("seed", range(200))
def test_power_loss_leaves_the_last_synced_payload_or_a_later_one(seed: int) -> None:
    fs, random = disk(), Random(seed)
    file = SlotFile.create(fs, PATH, b"0")
    synced = written = 0
    fs.last_operation = len(fs.operations) + random.randrange(12)
    with suppress(Interrupted):
        while written < 20:
            written += 1
            put = random.choice([file.write, file.rewrite])
            put(b"%d" % written * random.choice([1, 3000]))
            if random.random() < 0.5:
                file.sync()
                synced = written
    fs.power_loss(random)
    payload = SlotFile.open(fs, PATH, repair="").newest.payload
    assert payload.startswith(tuple(b"%d" % one for one in range(synced, written + 1)))


def test_every_changed_bit_of_a_slot_is_noticed() -> None:
    fs = disk()
    SlotFile.create(fs, PATH, b"payload")
    content = fs.read(PATH)
    for position in range(len(content)):
        for bit in range(8):
            changed = bytearray(content)
            changed[position] ^= 1 << bit
            assert parse_slots(bytes(changed)) == ()


@given(st.binary(max_size=200))
def test_garbage_holds_no_slot(content: bytes) -> None:
    assert parse_slots(content) == ()
    assert parse_slots(b"pykraft 0 " + content) == ()


def test_a_file_without_a_whole_slot_is_refused_with_the_repair() -> None:
    fs = disk()
    fs.write(PATH, b"")
    with pytest.raises(CorruptionError, match="expected a slot with a valid CRC, found neither of two; do this"):
        SlotFile.open(fs, PATH, repair="do this")


def test_a_slot_in_the_place_of_the_other_does_not_count() -> None:
    fs = disk()
    SlotFile.create(fs, PATH, b"one")
    content = fs.read(PATH)
    assert parse_slots(bytes(SLOT_SIZE_BYTES) + content) == ()


def test_a_payload_too_large_for_a_slot_is_refused() -> None:
    file = SlotFile.create(disk(), PATH, b"")
    file.write(bytes(SLOT_SIZE_BYTES - 40))
    with pytest.raises(StorageError, match="do not fit into a slot"):
        file.write(bytes(SLOT_SIZE_BYTES))


def test_the_newest_slot_is_written_again_when_the_file_is_opened_since_a_sync_of_it_may_have_failed() -> None:
    fs = disk()
    file = SlotFile.create(fs, PATH, b"first")
    file.write(b"second")
    content = fs.read(PATH)
    fs.operations.clear()
    SlotFile.open(fs, PATH, repair="")
    assert fs.operations == [("pwrite", PATH.name), ("sync", PATH.name)]
    assert fs.read(PATH) == content
