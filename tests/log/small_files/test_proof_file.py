"""The replica-proof file: its content, when it is durable, and what a directory proves without it."""

import json
from dataclasses import replace
from random import Random

import pytest

from pykraft.core.proof import PROVEN, Proof
from pykraft.errors import CorruptionError
from pykraft.log.small_files.proof_file import (
    FILE_NAME,
    ProofFile,
    encode_proof,
    is_partition_there,
    look_up_proof,
    parse_proof,
)
from pykraft.log.small_files.slots import SlotFile, parse_slots
from pykraft.types import Epoch
from tests.disks import ScriptedDisk
from tests.log.logs import DIRECTORY

FOLDER = DIRECTORY.parent
UNPROVEN = Proof(is_complete=False)


def disk(*, has_partition: bool = False, note: Proof | None = None) -> ScriptedDisk:
    fs = ScriptedDisk()
    fs.prepare(DIRECTORY if has_partition else FOLDER)
    if has_partition:
        fs.write(DIRECTORY / "quorum-state", b"{}")
        fs.write(DIRECTORY / f"{0:020}.log", b"")
    if note is not None:
        ProofFile(fs, FOLDER).write(note)
    return fs


def look_up(fs: ScriptedDisk, *, is_formatted: bool, has_given_id: bool = False) -> Proof:
    file = ProofFile(fs, FOLDER)
    return look_up_proof(fs, file, DIRECTORY, is_formatted=is_formatted, has_given_id=has_given_id)


@pytest.mark.parametrize("proof", [PROVEN, UNPROVEN, Proof(is_complete=True, votes_above=Epoch(7), has_fresh_id=True)])
def test_what_is_written_is_durable_and_read_again(proof: Proof) -> None:
    fs = disk()
    file = ProofFile(fs, FOLDER)
    assert file.read() is None
    file.write(proof)
    fs.power_loss(Random(1))
    assert file.read() == proof
    file.remove()
    fs.power_loss(Random(2))
    assert file.read() is None
    file.remove()


def test_it_is_one_slot_of_json_that_anyone_can_look_at() -> None:
    fs = disk(note=Proof(is_complete=True, votes_above=Epoch(3)))
    (slot,) = parse_slots(fs.read(FOLDER / FILE_NAME))
    assert json.loads(slot.payload) == {"isComplete": True, "votesAboveEpoch": 3, "hasFreshDirectoryId": False}


@pytest.mark.parametrize(
    ("note", "has_partition", "is_formatted", "has_given_id", "found"),
    [
        (None, False, False, False, Proof(is_complete=False, has_fresh_id=True)),
        (None, False, False, True, UNPROVEN),
        (None, False, True, False, PROVEN),  # formatted by an operator, or by Kafka's tool
        (None, True, False, False, PROVEN),  # Kafka's test server has no meta.properties
        (None, True, True, False, PROVEN),
        (PROVEN, True, True, False, PROVEN),
        (PROVEN, False, True, False, Proof(is_complete=False, was_complete=True)),  # the partition is gone
        (PROVEN, False, False, False, Proof(is_complete=False, has_fresh_id=True, was_complete=True)),
        (UNPROVEN, True, True, False, UNPROVEN),
        (Proof(is_complete=False, has_fresh_id=True), False, True, True, Proof(is_complete=False, has_fresh_id=True)),
    ],
)
def test_what_a_directory_proves(
    note: Proof | None, has_partition: bool, is_formatted: bool, has_given_id: bool, found: Proof
) -> None:
    fs = disk(has_partition=has_partition, note=note)
    assert look_up(fs, is_formatted=is_formatted, has_given_id=has_given_id) == found
    fs.power_loss(Random(3))
    assert ProofFile(fs, FOLDER).read() == (note if found.is_complete else replace(found, was_complete=False))


@pytest.mark.parametrize("missing", ["quorum-state", f"{0:020}.log"])
def test_a_partition_without_its_election_or_without_a_segment_was_emptied(missing: str) -> None:
    fs = disk(has_partition=True)
    assert is_partition_there(fs, DIRECTORY)
    fs.remove(DIRECTORY / missing)
    assert not is_partition_there(fs, DIRECTORY)
    fs.write(DIRECTORY / "recovery-point", b"")
    assert is_partition_there(fs, DIRECTORY) is (missing != "quorum-state")


@pytest.mark.parametrize(
    "payload",
    [b"", b"[]", b"{}", encode_proof(PROVEN).replace(b"-1", b"1e999"), encode_proof(PROVEN).replace(b"-1", b'"x"')],
)
def test_what_cannot_be_read_proves_nothing(payload: bytes) -> None:
    fs = disk(has_partition=True)
    SlotFile.create(fs, FOLDER / FILE_NAME, payload).close()
    with pytest.raises(CorruptionError, match="expected a slot with the proof of the directory"):
        parse_proof(FOLDER / FILE_NAME, fs.read(FOLDER / FILE_NAME))
    assert look_up(fs, is_formatted=True) == UNPROVEN
    assert ProofFile(fs, FOLDER).read() == UNPROVEN
