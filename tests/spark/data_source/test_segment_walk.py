"""The walk over one segment ends where recovery would end the log, even while a node writes to it."""

from pathlib import Path

import pytest

from pykraft.errors import CorruptionError
from pykraft.log.evidence import NOTHING, read_evidence
from pykraft.log.judge import Evidence
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.epoch_checkpoint import encode_epochs
from pykraft.log.small_files.recovery_point import RecoveryPoint
from pykraft.log.tail import Expected
from pykraft.spark.data_source import segment_walk
from pykraft.spark.data_source.segment_walk import BatchSpan, WalkState, base_offset_of, batches_within, walk_segment
from pykraft.spark.data_source.walk import ReplicaLog
from pykraft.types import EPOCH_ZERO, Epoch, EpochStart, Offset
from tests.spark.logs import EPOCH, batch, three_batches, write_segment

BATCHES = three_batches()
SIZE_BYTES = len(BATCHES[0])
BROKEN = BATCHES[1][:-2] + b"!" + BATCHES[1][-1:]


def state_of(segment: Path, evidence: Evidence, *, later: tuple[Path, ...] = ()) -> WalkState:
    expected = Expected(base_offset=base_offset_of(segment), epoch=EPOCH_ZERO)
    return WalkState(fs=OsFs(), segment=segment, later=later, position=0, expected=expected, evidence=evidence)


def offsets(state: WalkState, *, tolerant: bool = False) -> list[int]:
    return [one.offset for one in walk_segment(state, tolerant=tolerant)]


def synced_to(directory: Path, offset: int) -> None:
    RecoveryPoint.create(OsFs(), directory, Offset(offset)).close()


def test_a_torn_batch_in_the_middle_of_what_was_not_synced_ends_the_log(tmp_path: Path) -> None:
    """Its header is whole, and a sound batch follows: the disk kept the pages in another order."""
    segment = write_segment(tmp_path, BATCHES[0] + BROKEN + BATCHES[2])
    later = write_segment(tmp_path, batch([b"x"], base_offset=6), base_offset=6)
    synced_to(tmp_path, 2)
    state = state_of(segment, read_evidence(OsFs(), tmp_path), later=(later,))
    assert offsets(state) == [0]
    assert (state.is_over, state.position, state.expected.base_offset) == (True, SIZE_BYTES, 2)
    assert [one.offset for one in ReplicaLog("n1", tmp_path).walk(ReplicaLog("n1", tmp_path).start())] == [0]
    assert ReplicaLog("n1", tmp_path).end() == 2
    assert ReplicaLog("n1", tmp_path).seek(Offset(6)).offset == 2


def test_damage_of_what_was_synced_is_left_to_who_reads_the_records(tmp_path: Path) -> None:
    """The walk reads headers only: a task computes the CRC."""
    segment = write_segment(tmp_path, BATCHES[0] + BROKEN + BATCHES[2])
    synced_to(tmp_path, 6)
    assert offsets(state_of(segment, read_evidence(OsFs(), tmp_path))) == [0, 2, 4]


@pytest.mark.parametrize("tolerant", [False, True])
def test_synced_batches_that_are_missing_at_the_end_are_damage(tmp_path: Path, *, tolerant: bool) -> None:
    segment = write_segment(tmp_path, BATCHES[0])
    synced_to(tmp_path, 4)
    state = state_of(segment, read_evidence(OsFs(), tmp_path))
    if tolerant:
        sound, damage = walk_segment(state, tolerant=True)
        assert (sound.damage, damage.offset, damage.position, damage.end_position) == (None, 2, SIZE_BYTES, SIZE_BYTES)
        return
    with pytest.raises(CorruptionError, match="expected offset 2, found the end of the log"):
        offsets(state)


def test_an_epoch_that_a_node_began_meanwhile_is_no_damage(tmp_path: Path) -> None:
    """quorum-state and the checkpoint were read before the node wrote them."""
    segment = write_segment(tmp_path, BATCHES[0] + batch([b"x"], base_offset=2, epoch=EPOCH + 1))
    entries = [EpochStart(epoch=Epoch(EPOCH), start_offset=Offset(0))]
    checkpoint = tmp_path / "leader-epoch-checkpoint"
    checkpoint.write_bytes(encode_epochs(entries))
    (tmp_path / "quorum-state").write_text(f'{{"leaderId":1,"leaderEpoch":{EPOCH},"votedId":-1,"data_version":1}}')
    synced_to(tmp_path, 3)
    before = read_evidence(OsFs(), tmp_path)
    with pytest.raises(CorruptionError, match="as in leader-epoch-checkpoint"):
        offsets(state_of(segment, before))
    checkpoint.write_bytes(encode_epochs([*entries, EpochStart(epoch=Epoch(EPOCH + 1), start_offset=Offset(2))]))
    assert offsets(state_of(segment, before)) == [0, 2]


def test_a_log_that_is_truncated_meanwhile_lost_nothing(tmp_path: Path) -> None:
    """A truncation lowers the recovery point first."""
    segment = write_segment(tmp_path, BATCHES[0] + BATCHES[1])
    synced_to(tmp_path, 4)
    before = read_evidence(OsFs(), tmp_path)
    synced_to(tmp_path, 2)
    write_segment(tmp_path, BATCHES[0])
    assert offsets(state_of(segment, before)) == [0]


def test_an_epoch_is_evidence_only_in_a_whole_batch(tmp_path: Path) -> None:
    broken = batch([b"one", b"two"], base_offset=2, epoch=EPOCH - 1)[:-1] + b"!"
    segment = write_segment(tmp_path, BATCHES[0] + broken)
    with pytest.raises(CorruptionError, match="expected a whole batch"):
        offsets(state_of(segment, NOTHING))


def test_an_unproven_end_is_told_as_such(tmp_path: Path) -> None:
    segment = write_segment(tmp_path, BATCHES[0] + b"!" * 80)
    with pytest.raises(CorruptionError, match="without a recovery-point file nobody knows"):
        offsets(state_of(segment, NOTHING))


def test_the_batches_of_a_span_are_all_of_it_and_no_more(tmp_path: Path) -> None:
    segment = write_segment(tmp_path, b"".join(BATCHES))
    first, second, _ = walk_segment(state_of(segment, NOTHING), tolerant=False)
    coarse = BatchSpan(
        segment=segment,
        position=0,
        last_position=SIZE_BYTES,
        end_position=2 * SIZE_BYTES,
        offset=Offset(0),
        end_offset=Offset(4),
        first=first.header,
        header=second.header,
    )
    assert list(batches_within(OsFs(), coarse)) == [first, second]


def test_a_batch_in_preallocated_space_is_looked_at_again_until_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = write_segment(tmp_path, BATCHES[0] + BATCHES[1][:-5] + bytes(4101))
    monkeypatch.setattr(
        segment_walk, "_let_it_write", lambda: write_segment(tmp_path, BATCHES[0] + BATCHES[1] + bytes(4096))
    )
    assert offsets(state_of(segment, NOTHING)) == [0, 2]
