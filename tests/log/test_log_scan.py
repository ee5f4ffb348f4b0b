"""Torn tail or corruption: the verdict for every value of the recovery point.

Source: Kafka's ``LogLoader.recoverLog``, ``LogSegment.recover``.
"""

from __future__ import annotations

import pytest
from crc32c import crc32c

from pykraft.config import INT32_MAX
from pykraft.core.epochs import EpochCache
from pykraft.log.judge import NO_ONE_KNOWS, Evidence
from pykraft.log.log_scan import LogScan, scan_log
from pykraft.types import EPOCH_MAX, Epoch, EpochStart, Offset
from tests.disks import ScriptedDisk
from tests.log.logs import DIRECTORY, SMALL, Batch, batch, bytes_of, run_of


def scan_of(
    segments: dict[int, bytes], recovery_point: int, *, epochs: EpochCache | None = None, epoch_max: int = EPOCH_MAX
) -> LogScan:
    fs = ScriptedDisk()
    fs.prepare(DIRECTORY)
    for base_offset, content in segments.items():
        fs.write(DIRECTORY / f"{base_offset:020d}.log", content)
    before = {name: fs.read(DIRECTORY / name) for name in fs.listdir(DIRECTORY)}
    offsets = [Offset(base_offset) for base_offset in segments]
    evidence = Evidence(recovery_point=Offset(recovery_point), epochs=epochs, epoch_max=Epoch(epoch_max))
    scan = scan_log(fs, DIRECTORY, offsets, config=SMALL, evidence=evidence)
    assert {name: fs.read(DIRECTORY / name) for name in fs.listdir(DIRECTORY)} == before
    return scan


def joined(batches: list[Batch]) -> bytes:
    return b"".join(bytes_of(batches))


@pytest.mark.parametrize("recovery_point", range(8))
def test_an_invalid_batch_is_torn_above_the_recovery_point_and_corrupt_below(recovery_point: int) -> None:
    content = bytearray(joined(run_of(0, 4)))
    content[2 * len(content) // 4 + 70] ^= 1
    scan = scan_of({0: bytes(content), 4: joined(run_of(4, 2))}, recovery_point)
    assert [one.end_offset for one in scan.contents] == [2]
    assert scan.end_offset == 2
    if recovery_point <= 2:
        assert scan.corrupt == []
        assert scan.torn is not None
        assert scan.torn.position == len(content) // 2
    elif recovery_point <= 6:
        assert [(one.start_offset, one.end_offset) for one in scan.corrupt] == [(2, min(4, recovery_point))]
        assert scan.torn is None
    else:
        assert [(one.start_offset, one.end_offset) for one in scan.corrupt] == [(2, 4)]


def test_a_sound_log_has_epochs_and_no_findings() -> None:
    batches = [batch(0, epoch=1), batch(1, epoch=3), batch(2, epoch=3), batch(3, epoch=4)]
    scan = scan_of({0: joined(batches[:2]), 2: joined(batches[2:])}, 4)
    assert (scan.torn, scan.corrupt, scan.end_offset) == (None, [], 4)
    assert [(one.epoch, one.start_offset) for one in scan.epochs.entries] == [(1, 0), (3, 1), (4, 3)]
    assert isinstance(scan.epochs.latest, EpochStart)
    assert scan.scanned_bytes == len(joined(batches))


@pytest.mark.parametrize(("missing", "base_offset"), [(True, 3), (False, 1)])
def test_a_segment_that_does_not_follow_ends_the_log(base_offset: int, *, missing: bool) -> None:
    scan = scan_of({0: joined(run_of(0, 2)), base_offset: joined(run_of(base_offset, 2))}, 0)
    assert scan.end_offset == 2
    assert scan.torn is not None
    assert scan.torn.found == f"a segment that begins at offset {base_offset}"
    assert missing == (base_offset > 2)


def test_a_log_that_ends_below_its_recovery_point_is_corrupt() -> None:
    scan = scan_of({0: joined(run_of(0, 2)), 2: b""}, 5)
    (damage,) = scan.corrupt
    assert (damage.path, damage.position) == (str(DIRECTORY / f"{2:020d}.log"), 0)
    assert (damage.start_offset, damage.end_offset, damage.found) == (2, 5, "the end of the log")
    assert str(damage).endswith("(offsets from 2 up to 5)")


def test_without_its_recovery_point_a_log_may_end_anywhere_and_an_invalid_batch_is_damage() -> None:
    sound = joined(run_of(0, 2))
    whole = scan_of({0: sound}, NO_ONE_KNOWS)
    assert (whole.corrupt, whole.torn, whole.end_offset) == ([], None, 2)
    (damage,) = scan_of({0: sound + b"torn"}, NO_ONE_KNOWS).corrupt
    assert (damage.start_offset, damage.end_offset, damage.position) == (2, None, len(sound))


EPOCHS = EpochCache(
    [EpochStart(epoch=Epoch(1), start_offset=Offset(0)), EpochStart(epoch=Epoch(3), start_offset=Offset(2))]
)


@pytest.mark.parametrize(
    ("epochs", "start", "end_above"),
    [((1, 2, 3, 3), 1, 1), ((1, 3, 3, 3), 1, 1), ((1, 1, 3, 4), 3, 4), ((1, 1, 1, 3), 2, 2), ((1, 1, 4, 4), 2, 4)],
)
def test_epochs_are_those_of_the_checkpoint_unless_it_lags(epochs: tuple[int, ...], start: int, end_above: int) -> None:
    """Above the recovery point, an epoch after its last one may be missing there."""
    content = joined([batch(at, epoch=epoch) for at, epoch in enumerate(epochs)])
    (damage,) = scan_of({0: content}, 4, epochs=EPOCHS).corrupt
    assert (damage.start_offset, damage.end_offset) == (start, 4)
    assert "as in leader-epoch-checkpoint" in damage.expected
    assert scan_of({0: content}, start, epochs=EPOCHS).end_offset == end_above


OLD = EpochCache([EpochStart(epoch=Epoch(1), start_offset=Offset(0))])
BOTH = EpochCache(
    [EpochStart(epoch=Epoch(1), start_offset=Offset(0)), EpochStart(epoch=Epoch(4), start_offset=Offset(1))]
)


@pytest.mark.parametrize("recovery_point", [0, 1, 2, 3])
@pytest.mark.parametrize("epochs", [None, BOTH], ids=["no checkpoint", "in the checkpoint"])
def test_the_epoch_of_the_log_wins_over_an_older_quorum_state(epochs: EpochCache | None, recovery_point: int) -> None:
    content = joined([batch(0), batch(1, epoch=4), batch(2, epoch=4)])
    scan = scan_of({0: content}, recovery_point, epochs=epochs, epoch_max=3)
    assert (scan.end_offset, scan.corrupt, scan.torn) == (3, [], None)
    assert [entry.epoch for entry in scan.epochs.entries] == [1, 4]


@pytest.mark.parametrize("recovery_point", [0, 1, 2, 3, NO_ONE_KNOWS])
@pytest.mark.parametrize("epochs", [OLD, EpochCache()], ids=["another epoch there", "unreadable"])
def test_a_higher_epoch_than_all_other_files_have_is_damage(epochs: EpochCache, recovery_point: int) -> None:
    content = joined([batch(0), batch(1, epoch=4), batch(2, epoch=4)])
    scan = scan_of({0: content}, recovery_point, epochs=epochs, epoch_max=3)
    (damage,) = scan.corrupt
    known = damage.start_offset < recovery_point < NO_ONE_KNOWS
    assert (damage.start_offset, damage.end_offset) == (1, recovery_point if known else None)
    assert (damage.position, damage.found) == (len(batch(0)[1]), "epoch 4")
    assert damage.expected.endswith("one of at most 3, which quorum-state has")
    assert (scan.end_offset, scan.torn) == (1, None)


@pytest.mark.parametrize("recovery_point", [0, 3])
def test_a_whole_batch_of_a_smaller_epoch_is_damage_and_no_torn_tail(recovery_point: int) -> None:
    content = joined([batch(0, epoch=3), batch(1, epoch=2)])
    (damage,) = scan_of({0: content, 2: joined([batch(2, epoch=3)])}, recovery_point).corrupt
    assert (damage.start_offset, damage.end_offset) == (1, 2 if recovery_point else None)
    assert (damage.expected, damage.found) == ("an epoch of at least 3", "epoch 2")


def test_no_segments_are_an_empty_log() -> None:
    assert scan_of({}, 0).end_offset == 0
    assert scan_of({}, 0).torn is None


def test_offsets_beyond_int32_do_not_belong_to_a_segment() -> None:
    wide = bytearray(batch(1)[1])
    wide[23:27] = INT32_MAX.to_bytes(4, "big")
    wide[17:21] = crc32c(wide[21:]).to_bytes(4, "big")
    scan = scan_of({0: joined(run_of(0, 1)) + bytes(wide)}, 0)
    assert scan.end_offset == 1
    assert scan.torn is not None
    assert "less than 2^31 offsets" in scan.torn.expected
