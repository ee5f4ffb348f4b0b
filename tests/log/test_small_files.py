"""Any content of a small file is read or rejected with a StorageError that names the file.

Source: ours.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.core.quarantine import Quarantine
from pykraft.errors import StorageError
from pykraft.log.small_files.epoch_checkpoint import parse_epochs
from pykraft.log.small_files.meta import parse_meta, parse_partition_metadata
from pykraft.log.small_files.quarantine_file import encode_quarantine, parse_quarantine
from pykraft.log.small_files.quorum_state import encode_quorum_state, parse_quorum_state
from pykraft.log.small_files.recovery_point import RecoveryPoint
from pykraft.log.small_files.slots import SlotFile, parse_slots
from pykraft.types import Damage, Election, Epoch, NodeId, Offset, ReplicaKey, Uuid
from tests.disks import ScriptedDisk
from tests.log.logs import DIRECTORY

PATH = DIRECTORY / "file"
MANY_DIGITS = "9" * 5_000
"""More than Python's ``int`` converts."""
DAMAGE = Damage(path="a", position=1, start_offset=Offset(2), end_offset=Offset(3), expected="x", found="y")
NOTE = encode_quarantine(Quarantine(epoch=Epoch(5), until_offset=Offset(9), damages=(DAMAGE,), is_cut=False))
ELECTION = Election(epoch=Epoch(5), leader_id=None, voted=ReplicaKey(NodeId(1), Uuid(b"a" * 16)))
STATES = [encode_quorum_state(ELECTION, voters=(NodeId(1), NodeId(2)), kraft_version=version) for version in (0, 1)]
VALUES = [
    "1e999",
    "-1e999",
    "NaN",
    "Infinity",
    "-1",
    "1.5",
    "true",
    "null",
    '"5"',
    "[]",
    "{}",
    str(2**63),
    str(2**200),
    MANY_DIGITS,
    "[" * 3_000 + "]" * 3_000,
]


def slot_of(payload: bytes) -> bytes:
    """The file of a sound slot with this payload."""
    fs = ScriptedDisk()
    fs.prepare(DIRECTORY)
    SlotFile.create(fs, PATH, payload).close()
    return fs.read(PATH)


def point_of(path: Path, payload: bytes) -> object:
    """A recovery point read from a sound slot with this payload."""
    del path
    fs = ScriptedDisk()
    fs.write(DIRECTORY / "recovery-point", slot_of(payload))
    found = RecoveryPoint.open(fs, DIRECTORY)
    assert found is not None
    assert 0 <= found.offset < 2**63
    return found


PARSERS: dict[str, Callable[[Path, bytes], object]] = {
    "quarantine": lambda path, content: parse_quarantine(path, slot_of(content)),
    "recovery-point": point_of,
    "quorum-state": parse_quorum_state,
    "leader-epoch-checkpoint": parse_epochs,
    "meta.properties": parse_meta,
    "partition.metadata": parse_partition_metadata,
    "slots": lambda _, content: parse_slots(content),
}


def with_each_value(content: bytes, path: tuple[str | int, ...], value: str) -> bytes:
    """This JSON with another value at one place."""
    tree = json.loads(content)
    place = tree
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = "HERE"
    return json.dumps(tree).replace('"HERE"', value).encode()


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value[:9])
@pytest.mark.parametrize(
    "path", [("epoch",), ("damages",), ("damages", 0), *((("damages", 0, key)) for key in ("position", "startOffset"))]
)
def test_no_value_of_a_quarantine_is_an_error_of_another_kind(path: tuple[str | int, ...], value: str) -> None:
    content = with_each_value(NOTE, path, value)
    if path == ("damages",) and value in ("[]", "{}"):
        assert parse_quarantine(PATH, slot_of(content)).damages == ()
        return
    with pytest.raises(StorageError, match="a slot with a quarantine"):
        parse_quarantine(PATH, slot_of(content))


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value[:9])
@pytest.mark.parametrize("path", [("untilOffset",), ("damages", 0, "endOffset")])
def test_an_end_that_is_not_known_is_null(path: tuple[str | int, ...], value: str) -> None:
    content = slot_of(with_each_value(NOTE, path, value))
    if value == "null":
        assert parse_quarantine(PATH, content).epoch == 5
        return
    with pytest.raises(StorageError, match="a slot with a quarantine"):
        parse_quarantine(PATH, content)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value[:9])
@pytest.mark.parametrize("key", ["leaderId", "leaderEpoch", "votedId", "data_version"])
@pytest.mark.parametrize("content", STATES, ids=["v0", "v1"])
def test_no_value_of_quorum_state_is_an_error_of_another_kind(content: bytes, key: str, value: str) -> None:
    changed = with_each_value(content, (key,), value)
    if value == "-1" and key in ("leaderId", "votedId"):
        assert parse_quorum_state(PATH, changed).election.epoch == 5
        return
    with pytest.raises(StorageError, match="quorum-state of data version"):
        parse_quorum_state(PATH, changed)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value[:9])
@pytest.mark.parametrize("key", ["currentVoters", "votedDirectoryId"])
def test_no_voters_and_no_directory_id_is_an_error_of_another_kind(key: str, value: str) -> None:
    changed = with_each_value(STATES[key == "votedDirectoryId"], (key,), value)
    if (key, value) == ("currentVoters", "[]"):
        assert parse_quorum_state(PATH, changed).voters == ()
        return
    with pytest.raises(StorageError, match="quorum-state of data version"):
        parse_quorum_state(PATH, changed)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("recovery-point", MANY_DIGITS),
        ("recovery-point", str(2**63)),
        ("recovery-point", ""),
        ("recovery-point", "²"),
        ("leader-epoch-checkpoint", f"0\n1\n{MANY_DIGITS} 0\n"),
        ("leader-epoch-checkpoint", f"0\n1\n1 {MANY_DIGITS}\n"),
        ("leader-epoch-checkpoint", "0\n1\n² 0\n"),
        ("meta.properties", f"version=1\nnode.id={MANY_DIGITS}\ncluster.id=a\n"),
        ("meta.properties", "version=1\nnode.id=²\ncluster.id=a\n"),
        ("partition.metadata", "version: 0\ntopic_id: ²\n"),
    ],
    ids=lambda value: value[:30],
)
def test_numbers_without_end_are_refused(name: str, content: str) -> None:
    with pytest.raises(StorageError):
        PARSERS[name](PATH, content.encode())


@pytest.mark.parametrize("name", PARSERS)
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_read_or_refused(name: str, content: bytes) -> None:
    try:
        PARSERS[name](PATH, content)
    except StorageError as error:
        assert str(PATH) in str(error) or "recovery-point" in str(error)
