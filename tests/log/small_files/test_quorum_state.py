"""quorum-state: Kafka's bytes, every changed bit, and a crash at every operation of a write."""

import json
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.errors import CorruptionError
from pykraft.log.small_files.quorum_state import ElectionStore, StoredElection, encode_quorum_state, parse_quorum_state
from pykraft.sim.machine.disk import Interrupted
from pykraft.types import Election, Epoch, NodeId, ReplicaKey, Uuid
from tests.disks import ScriptedDisk
from tests.log.logs import DIRECTORY, disk

GOLDEN = Path(__file__).parents[2] / "golden"
PATH = DIRECTORY / "quorum-state"
CHECK = DIRECTORY / "quorum-state.check"
VOTERS = (NodeId(1), NodeId(2), NodeId(3))
GOLDEN_PATHS = sorted(GOLDEN.glob("*/disk/n*/data/*/quorum-state"))

ids = st.integers(0, 2**31 - 1).map(NodeId)
directory_ids = st.binary(min_size=16, max_size=16).filter(any).map(Uuid)
elections = st.builds(
    Election,
    epoch=st.integers(0, 2**31 - 1).map(Epoch),
    leader_id=st.none() | ids,
    voted=st.none() | st.builds(ReplicaKey, ids, st.none() | directory_ids),
)


def election(epoch: int) -> Election:
    return Election(epoch=Epoch(epoch), voted=ReplicaKey(NodeId(epoch), Uuid(b"d" * 16)))


def write(fs: ScriptedDisk, epoch: int) -> None:
    ElectionStore(fs, DIRECTORY).write(election(epoch), voters=VOTERS, kraft_version=1)


def read(fs: ScriptedDisk) -> Election | None:
    stored = ElectionStore(fs, DIRECTORY).read()
    return stored.election if stored else None


@pytest.mark.conformance(149)
@pytest.mark.parametrize("path", GOLDEN_PATHS, ids=[str(path.relative_to(GOLDEN)) for path in GOLDEN_PATHS])
def test_kafkas_files_are_read_and_written(path: Path) -> None:
    stored = parse_quorum_state(path, path.read_bytes())
    assert stored.election.epoch >= 1
    again = encode_quorum_state(stored.election, voters=stored.voters, kraft_version=stored.data_version)
    assert again == path.read_bytes()


@pytest.mark.conformance(94, 95)
@given(elections, st.lists(ids, max_size=5).map(tuple), st.integers(0, 1))
def test_what_is_written_is_read_back(election: Election, voters: tuple[NodeId, ...], kraft_version: int) -> None:
    content = encode_quorum_state(election, voters=voters, kraft_version=kraft_version)
    if kraft_version == 0 and election.voted:
        election = Election(
            epoch=election.epoch, leader_id=election.leader_id, voted=ReplicaKey(election.voted.id, None)
        )
    assert parse_quorum_state(PATH, content) == StoredElection(
        election=election, voters=voters if kraft_version == 0 else (), data_version=kraft_version
    )


@pytest.mark.conformance(94, 149)
def test_the_bytes_of_both_versions() -> None:
    vote = Election(epoch=Epoch(2), voted=ReplicaKey(NodeId(3), Uuid(bytes(range(16)))))
    assert encode_quorum_state(vote, voters=VOTERS[:2], kraft_version=0) == (
        b'{"clusterId":"","leaderId":-1,"leaderEpoch":2,"votedId":3,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    )
    assert encode_quorum_state(vote, voters=VOTERS, kraft_version=1) == (
        b'{"leaderId":-1,"leaderEpoch":2,"votedId":3,"votedDirectoryId":"AAECAwQFBgcICQoLDA0ODw","data_version":1}'
    )


@pytest.fixture
def fs() -> ScriptedDisk:
    return disk()


@pytest.mark.conformance(84, 95)
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "found nothing"),
        (b"\xff", "can't decode"),
        (b"[]", "not an object"),
        (b"[" * 100_000, "quorum-state of data version 0 or 1"),
        (b'{"leaderId":1,"leaderEpoch":2,"votedId":-1}', "data_version = None"),
        (b'{"leaderId":1,"leaderEpoch":2,"votedId":-1,"data_version":2}', "data_version = 2, allowed are 0 to 1"),
        (b'{"leaderId":1,"leaderEpoch":-2,"votedId":-1,"currentVoters":[],"data_version":0}', "leaderEpoch = -2"),
        (b'{"leaderId":-2,"leaderEpoch":2,"votedId":-1,"currentVoters":[],"data_version":0}', "leaderId = -2"),
        (b'{"leaderId":1,"leaderEpoch":2,"votedId":true,"currentVoters":[],"data_version":0}', "votedId = True"),
        (b'{"leaderId":1,"leaderEpoch":2147483648,"votedId":1,"currentVoters":[],"data_version":0}', "leaderEpoch ="),
        (b'{"leaderId":1,"leaderEpoch":2,"votedId":1,"currentVoters":[1],"data_version":0}', "not a list of objects"),
        (b'{"leaderId":1,"leaderEpoch":2,"votedId":1,"currentVoters":[{}],"data_version":0}', "voterId = None"),
        (b'{"leaderId":1,"leaderEpoch":2,"votedId":1,"data_version":1}', "votedDirectoryId = None"),
        (b'{"leaderId":1,"leaderEpoch":2,"votedId":1,"votedDirectoryId":"x","data_version":1}', "not a Kafka UUID"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_repair(fs: ScriptedDisk, content: bytes, expected: str) -> None:
    fs.write(PATH, content)
    with pytest.raises(CorruptionError) as caught:
        read(fs)
    assert expected in str(caught.value)
    assert f"{PATH}: at position 0" in str(caught.value)
    assert "restore quorum-state from a copy" in str(caught.value)


@pytest.mark.conformance(95)
def test_no_files_mean_no_election() -> None:
    assert read(disk()) is None


@pytest.mark.conformance(95)
def test_a_kafka_file_without_check_is_accepted_and_checked_from_the_first_write_on(fs: ScriptedDisk) -> None:
    fs.write(PATH, GOLDEN_PATHS[0].read_bytes())
    before = read(fs)
    assert before is not None
    assert not fs.exists(CHECK)
    write(fs, before.epoch + 1)
    assert fs.exists(CHECK)
    assert read(fs) == election(before.epoch + 1)


@pytest.mark.conformance(84, 95)
def test_every_changed_bit_of_quorum_state_is_refused(fs: ScriptedDisk) -> None:
    write(fs, 1)
    write(fs, 2)
    content = fs.read(PATH)
    for position in range(len(content)):
        for bit in range(8):
            changed = bytearray(content)
            changed[position] ^= 1 << bit
            fs.write(PATH, bytes(changed))
            with pytest.raises(CorruptionError) as caught:
                read(fs)
            assert caught.value.position == position
            assert "remove quorum-state.check; else restore quorum-state" in str(caught.value)


@pytest.mark.parametrize("content", [b"", json.dumps({"leaderId": 1}).encode()])
def test_a_cut_or_foreign_quorum_state_is_refused(fs: ScriptedDisk, content: bytes) -> None:
    write(fs, 1)
    write(fs, 2)
    fs.write(PATH, content)
    with pytest.raises(CorruptionError):
        read(fs)


def test_a_lost_quorum_state_is_refused(fs: ScriptedDisk) -> None:
    write(fs, 1)
    write(fs, 2)
    fs.remove(PATH)
    with pytest.raises(CorruptionError, match="found nothing"):
        read(fs)


def test_every_changed_bit_of_the_check_is_harmless_or_refused(fs: ScriptedDisk) -> None:
    for epoch in (1, 2, 3):
        write(fs, epoch)
    content = fs.read(CHECK)
    for position in (at for at, byte in enumerate(content) if byte):
        changed = bytearray(content)
        changed[position] ^= 1
        fs.write(CHECK, bytes(changed))
        with suppress(CorruptionError):
            assert read(fs) == election(3)
    fs.write(CHECK, b"")
    with pytest.raises(CorruptionError, match=r"quorum-state\.check: at position 0"):
        read(fs)


def test_a_rename_that_the_disk_lost_is_finished(fs: ScriptedDisk) -> None:
    write(fs, 1)
    before = fs.read(PATH)
    write(fs, 2)
    fs.write(PATH, before)
    assert read(fs) == election(2)
    assert b'"leaderEpoch":2' in fs.read(PATH)


@pytest.mark.parametrize("has_file", [False, True])
@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_a_crash_at_every_operation_leaves_the_old_election_or_the_new(epochs: int, *, has_file: bool) -> None:
    """And with the new one in the check file, it is the new one for good, even if power is lost once more."""
    for last in range(12):
        for seed in range(30):
            fs, random = disk(), Random(seed)
            if has_file:
                fs.write(PATH, encode_quorum_state(election(7), voters=VOTERS, kraft_version=1))
            for epoch in range(8, 7 + epochs):
                write(fs, epoch)
            expected = [read(fs), election(20)]
            fs.last_operation = len(fs.operations) + last
            is_done = False
            with suppress(Interrupted):
                write(fs, 20)
                is_done = True
            if random.random() < 0.2:
                fs.kill()
            else:
                fs.power_loss(random)
            found = read(fs)
            assert found in expected[1 if is_done else 0 :]
            fs.power_loss(random)
            assert read(fs) == found
            write(fs, 21)
            fs.power_loss(random)
            assert read(fs) == election(21)


@pytest.mark.conformance(95)
def test_the_store_closes_and_opens_again(fs: ScriptedDisk) -> None:
    store = ElectionStore(fs, DIRECTORY)
    store.write(election(1), voters=VOTERS, kraft_version=1)
    store.close()
    store.write(election(2), voters=VOTERS, kraft_version=0)
    store.close()
    store.close()
    stored = store.read()
    assert stored is not None
    assert (stored.voters, stored.data_version) == (VOTERS, 0)
