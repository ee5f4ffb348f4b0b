"""The advice about damage empties no directory of an only voter.

Source: KIP-595, KIP-853.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pykraft.errors import ProtocolError
from pykraft.log.judge import MISSING_START_REPAIR
from pykraft.log.offline import verify
from pykraft.log.offline.verify import OF_AN_ONLY_VOTER, is_only_voter
from pykraft.log.os_fs import OsFs
from pykraft.log.scan import REPAIR
from pykraft.log.small_files.quorum_state import REPAIR_FILE, ElectionStore
from pykraft.protocol.batch import HEADER_SIZE_BYTES
from pykraft.protocol.records import encode_control_batch
from pykraft.types import ControlRecord, Election, Epoch, KRaftVersion, KRaftVoters, NodeId, Offset
from tests.core.replicas import voter_set
from tests.log.data_directory import META, batch_size, flip, look, segments

assert META.node_id == 1


def hold(node: Path, *voters: int, kraft_version: int = 0) -> None:
    """Write a quorum-state with these voters, or one of data version 1 without any."""
    store = ElectionStore(OsFs(), node)
    ids = tuple(NodeId(voter) for voter in voters)
    store.write(Election(epoch=Epoch(2), leader_id=NodeId(1)), voters=ids, kraft_version=kraft_version)
    store.close()


def put_voters(path: Path, *voters: int) -> None:
    """Put a voter set before everything else in this file."""
    records: list[ControlRecord] = [KRaftVersion(1), KRaftVoters(voter_set(*voters))]
    _, data = encode_control_batch(records, base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1)
    path.write_bytes(bytes(data) + (path.read_bytes() if path.exists() else b""))


def advice(node: Path) -> str:
    return look(node).findings.damage[0].advice


def test_an_only_voter_keeps_its_directory(node: Path) -> None:
    flip(segments(node)[1], batch_size(segments(node)[1]) + 90)
    assert advice(node) == OF_AN_ONLY_VOTER[REPAIR]
    hold(node, 1, 2, 3)
    assert advice(node) == REPAIR


def test_so_it_does_without_its_beginning_and_its_election(node: Path) -> None:
    segments(node)[0].unlink()
    assert advice(node) == OF_AN_ONLY_VOTER[MISSING_START_REPAIR]


def test_an_election_that_cannot_be_read_names_no_voters(node: Path) -> None:
    for name in ("quorum-state", "quorum-state.check"):
        (node / name).write_bytes(b"{")
    put_voters(segments(node)[0], 1)
    told = {one.path.name: one.advice for one in look(node).findings.damage}
    assert told["quorum-state"] == OF_AN_ONLY_VOTER[REPAIR_FILE]


@pytest.mark.parametrize(("voters", "is_only"), [((1,), True), ((1, 2), False), ((2,), False)])
def test_dynamic_voters_are_those_of_the_newest_readable_set(
    node: Path, voters: tuple[int, ...], is_only: bool
) -> None:
    hold(node, kraft_version=1)
    assert not is_only_voter(OsFs(), node)
    snapshot = node / "00000000000000000010-0000000001.checkpoint"
    put_voters(snapshot, *voters)
    assert is_only_voter(OsFs(), node) is is_only
    put_voters(segments(node)[1], *voters)
    put_voters(snapshot, 1, 2, 3)
    assert is_only_voter(OsFs(), node) is is_only


def test_sets_that_cannot_be_read_do_not_count(node: Path) -> None:
    hold(node, kraft_version=1)
    path = segments(node)[2]
    put_voters(path, 1)
    flip(path, HEADER_SIZE_BYTES + 3)
    assert not is_only_voter(OsFs(), node)
    data = bytearray(encode_control_batch([KRaftVersion(1)], base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1)[1])
    path.write_bytes(data)
    assert not is_only_voter(OsFs(), node)


def test_without_an_id_the_careful_advice_is_given(node: Path) -> None:
    (node.parent / "meta.properties").unlink()
    assert is_only_voter(OsFs(), node)


def test_no_advice_for_an_only_voter_empties_anything() -> None:
    for text in OF_AN_ONLY_VOTER.values():
        assert "Do not empty the directory" in text
        assert text.lower().count("empty the directory") == 1
    for text in OF_AN_ONLY_VOTER:
        assert "empty" not in text or "never" in text


def test_a_control_batch_of_nobodys_format_does_not_count(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(batch: bytes) -> Iterator[tuple[Offset, KRaftVoters]]:
        raise ProtocolError("an unknown control record")

    hold(node, kraft_version=1)
    put_voters(segments(node)[2], 1)
    assert is_only_voter(OsFs(), node)
    monkeypatch.setattr(verify, "membership_records", unknown)
    assert not is_only_voter(OsFs(), node)
