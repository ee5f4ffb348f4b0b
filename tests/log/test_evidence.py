"""What the other files say about a log: intact, missing and damaged ones; nothing is written."""

from pathlib import Path

import pytest

from pykraft.core.proof import PROVEN, Proof
from pykraft.log.evidence import ALL_SYNCED, read_evidence
from pykraft.log.judge import NO_ONE_KNOWS
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.proof_file import ProofFile
from pykraft.log.small_files.quorum_state import ElectionStore
from pykraft.types import EPOCH_MAX, Election, Epoch, NodeId


def test_all_files_are_read_and_none_is_written(node: Path) -> None:
    before = {path: path.read_bytes() for path in node.iterdir()}
    evidence = read_evidence(OsFs(), node)
    assert (evidence.recovery_point, evidence.synced_offset, evidence.epoch_max) == (60, 60, 2)
    assert evidence.epochs is not None
    assert [(entry.epoch, entry.start_offset) for entry in evidence.epochs.entries] == [(1, 0), (2, 30)]
    assert {path: path.read_bytes() for path in node.iterdir()} == before


def test_files_that_are_missing_say_nothing(tmp_path: Path) -> None:
    evidence = read_evidence(OsFs(), tmp_path)
    assert (evidence.recovery_point, evidence.synced_offset) == (None, 0)
    assert (evidence.epochs, evidence.epoch_max) == (None, EPOCH_MAX)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"nonsense" * 20_000])
def test_files_that_cannot_be_read_are_evidence_too(content: bytes, node: Path) -> None:
    for name in ("recovery-point", "leader-epoch-checkpoint", "quorum-state"):
        (node / name).write_bytes(content)
    evidence = read_evidence(OsFs(), node)
    assert evidence.recovery_point == NO_ONE_KNOWS == ALL_SYNCED.recovery_point
    assert evidence.epochs is not None
    assert (evidence.epochs.entries, evidence.epoch_max) == ((), EPOCH_MAX)


def test_an_interrupted_write_of_quorum_state_counts(node: Path) -> None:
    """The next start finishes it, so the newer epoch in quorum-state.check is the one to compare with."""
    path = node / "quorum-state"
    before = path.read_bytes()
    with_epoch_3 = ElectionStore(OsFs(), node)
    with_epoch_3.write(Election(epoch=Epoch(3)), voters=(NodeId(1),), kraft_version=0)
    with_epoch_3.close()
    path.write_bytes(before)
    assert read_evidence(OsFs(), node).epoch_max == 3


def test_recovery_point_that_is_missing_in_a_directory_of_ours_was_lost(node: Path) -> None:
    (node / "recovery-point").unlink()
    check, proof = node / "quorum-state.check", ProofFile(OsFs(), node.parent)
    check.unlink(missing_ok=True)
    assert read_evidence(OsFs(), node).recovery_point is None
    check.touch()
    assert read_evidence(OsFs(), node).recovery_point == NO_ONE_KNOWS
    check.unlink()
    proof.write(Proof(is_complete=False))
    assert read_evidence(OsFs(), node).recovery_point is None
    proof.write(PROVEN)
    assert read_evidence(OsFs(), node).recovery_point == NO_ONE_KNOWS
    proof.path.write_bytes(b"nonsense")
    assert read_evidence(OsFs(), node).recovery_point == NO_ONE_KNOWS
