"""Torn tail or corruption, for every recovery point; damaged files stay until they are truncated, then all of it goes.

Source: Kafka's ``LogLoader.recoverLog``, ``LogSegment.recover``; ours (ADR 012).
"""

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from crc32c import crc32c

from pykraft.config import INT32_MAX
from pykraft.core.epochs import EpochCache
from pykraft.core.quarantine import Quarantine
from pykraft.log.judge import NO_ONE_KNOWS, Evidence
from pykraft.log.log import Log
from pykraft.log.log_scan import LogScan, scan_log
from pykraft.log.recovery import Recovery
from pykraft.log.scrub import find_damage
from pykraft.log.small_files.epoch_checkpoint import FILE_NAME as EPOCHS_NAME
from pykraft.log.small_files.quarantine_file import QuarantineFile
from pykraft.protocol.batch import IMAGE_BEGIN_BIT, IMAGE_BIT, IMAGE_END_BIT, place_batch
from pykraft.protocol.records import encode_group_batch
from pykraft.sim.faults.disk import LAST_BYTE_OF_EPOCH
from pykraft.sim.machine.disk import Interrupted
from pykraft.types import EPOCH_MAX, Epoch, EpochStart, Offset
from tests.disks import ScriptedDisk
from tests.log.logs import DIRECTORY, SMALL, Batch, batch, bytes_of, content, fill, open_log, run_of


def scan_of(
    segments: dict[int, bytes], recovery_point: int, *, epochs: EpochCache | None = None, epoch_max: int = EPOCH_MAX
) -> LogScan:
    fs = ScriptedDisk()
    fs.prepare(DIRECTORY)
    for base_offset, data in segments.items():
        fs.write(DIRECTORY / f"{base_offset:020d}.log", data)
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


def damaged_log(fs: ScriptedDisk, *, hit: int = 9) -> tuple[Log, Recovery]:
    """A log of some segments, opened after a byte of the batch at this offset has changed."""
    log, _ = open_log(fs)
    fill(log, run_of(0, 60))
    log.close()
    path = DIRECTORY / f"{0:020d}.log"
    content_before = bytearray(fs.read(path))
    content_before[hit * len(run_of(0, 1)[0][1]) + 70] ^= 1
    fs.write(path, bytes(content_before))
    return open_log(fs)


def test_damage_is_cut_off_as_a_whole_when_the_log_is_truncated_where_it_is_sound() -> None:
    fs = ScriptedDisk()
    log, recovery = damaged_log(fs)
    assert [one.start_offset for one in recovery.corrupt] == [9]
    names = fs.listdir(DIRECTORY)
    log.truncate_to(Offset(9))
    assert len(fs.listdir(DIRECTORY)) < len(names)
    fill(log, run_of(9, 40, fill=3))
    fs.power_loss(Random(1))
    again, found = open_log(fs)
    assert (found.corrupt, again.end_offset) == ((), 49)
    assert content(again) == bytes_of(run_of(0, 9) + run_of(9, 40, fill=3))


def test_damage_can_be_cut_off_together_with_what_is_sound() -> None:
    fs = ScriptedDisk()
    log, _ = damaged_log(fs)
    log.truncate_to(Offset(4))
    assert content(log) == bytes_of(run_of(0, 4))
    log.close()
    assert open_log(fs)[1].corrupt == ()


class TwoLanes(ScriptedDisk):
    """The bulk lane removes what lingers as soon as the ordered lane has looked into the directory."""

    def listdir(self, path: Path) -> list[str]:
        names = super().listdir(path)
        for name in names:
            if name.endswith(".deleted"):
                super().remove(path / name)
        return names


def test_the_bulk_lane_may_remove_what_lingers_at_the_same_time() -> None:
    fs = TwoLanes()
    log, _ = damaged_log(fs)
    fs.write(DIRECTORY / f"{7:020d}.log.deleted", b"")
    log.truncate_to(Offset(9))
    assert content(log) == bytes_of(run_of(0, 9))


@pytest.mark.parametrize("seed", range(40))
def test_power_loss_while_damage_is_cut_off_leaves_it_or_what_is_sound(seed: int) -> None:
    fs = ScriptedDisk()
    log, _ = damaged_log(fs)
    operations = [seed]

    def fails(_operation: str, _path: Path) -> bool:
        operations[0] -= 1
        if operations[0] < 0:
            raise Interrupted(loses_power=True)
        return False

    fs.fail = fails
    with suppress(Interrupted):
        log.truncate_to(Offset(9))
    fs.fail = lambda _operation, _path: False
    fs.power_loss(Random(seed))
    again, recovery = open_log(fs)
    assert content(again) == bytes_of(run_of(0, 9))
    again.truncate_to(Offset(9))
    fill(again, run_of(9, 2))
    assert content(again) == bytes_of(run_of(0, 11))
    assert [one.start_offset for one in recovery.corrupt] in ([], [9])


def test_without_its_recovery_point_a_damaged_log_gets_a_new_one_when_it_is_cut() -> None:
    fs = ScriptedDisk()
    damaged_log(fs)[0].close()
    fs.write(DIRECTORY / "recovery-point", b"nonsense")
    log, recovery = open_log(fs)
    assert [one.start_offset for one in recovery.corrupt] == [9]
    assert any("recovery-point cannot be read" in note for note in recovery.notes)
    log.settle()
    log.flush()
    assert fs.read(DIRECTORY / "recovery-point") == b"nonsense"
    log.truncate_to(Offset(9))
    fill(log, run_of(9, 2))
    log.close()
    assert open_log(fs)[1].corrupt == ()


def test_without_its_recovery_point_a_sound_log_gets_a_new_one_at_once() -> None:
    fs = ScriptedDisk()
    log, _ = open_log(fs)
    fill(log, run_of(0, 5))
    log.close()
    fs.write(DIRECTORY / "recovery-point", b"nonsense")
    _, recovery = open_log(fs)
    assert (recovery.corrupt, recovery.recovery_point) == ((), None)
    assert open_log(fs)[1].recovery_point == 5


def test_a_damaged_log_without_recovery_point_is_closed_as_it_is() -> None:
    fs = ScriptedDisk()
    damaged_log(fs)[0].close()
    fs.write(DIRECTORY / "recovery-point", b"nonsense")
    open_log(fs)[0].close()
    assert fs.read(DIRECTORY / "recovery-point") == b"nonsense"


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_wrong_epoch_that_was_noted_stays_damage_without_a_checkpoint(*, is_gone: bool) -> None:
    """A node finds it while it runs, knows it after a restart, and forgets it once the batch is right again."""
    fs = ScriptedDisk()
    log, _ = open_log(fs)
    batches = [*run_of(0, 5, epoch=2), *run_of(5, 5, epoch=3)]
    fill(log, batches)
    path, position = DIRECTORY / f"{0:020d}.log", 4 * len(batches[0][1])
    changed = bytearray(fs.read(path))
    changed[position + LAST_BYTE_OF_EPOCH] ^= 1
    fs.write(path, bytes(changed))
    damage = find_damage(log, Offset(4))
    assert damage is not None
    assert (damage.expected, damage.found) == ("epoch 2", "epoch 3")
    QuarantineFile(fs, DIRECTORY).write(
        Quarantine(epoch=Epoch(3), until_offset=Offset(10), damages=(damage,), is_cut=False)
    )
    # A kill, and the only other file that knows the epochs is lost.
    if is_gone:
        fs.remove(DIRECTORY / EPOCHS_NAME)
    else:
        fs.write(DIRECTORY / EPOCHS_NAME, b"nonsense")
    log, recovery = open_log(fs)
    assert [(one.start_offset, one.expected, one.found) for one in recovery.corrupt] == [(4, "epoch 2", "epoch 3")]
    assert content(log) == bytes_of(batches[:4])
    log.truncate_to(Offset(4))
    fill(log, batches[4:])
    log.close()
    fs.remove(DIRECTORY / EPOCHS_NAME)
    log, recovery = open_log(fs)
    assert (recovery.corrupt, content(log)) == ((), bytes_of(batches))


def groups_in(*bits: int) -> tuple[Offset | None, tuple[Offset, Offset] | None]:
    """Batches of one record each at 0, 1, ...; bits of -1: an application's."""
    batches = []
    for at, bit in enumerate(bits):
        made = batch(at) if bit < 0 else encode_group_batch([b""], timestamp_ms=1, image_bits=bit)
        placed = made if bit < 0 else place_batch(*made, base_offset=Offset(at), epoch=Epoch(1))
        batches.append(bytes(placed[1]))
    scan = scan_of({0: b"".join(batches)}, 0)
    assert (scan.end_offset, scan.control_offsets) == (len(bits), [])
    return scan.groups.first_offset, scan.groups.image


def test_a_scan_notes_where_the_state_of_groups_is() -> None:
    begin, end = IMAGE_BIT | IMAGE_BEGIN_BIT, IMAGE_BIT | IMAGE_END_BIT
    assert groups_in(-1, -1) == (None, None)
    assert groups_in(-1, 0, 0) == (1, None)
    assert groups_in(0, begin | end, -1) == (0, (1, 2))
    assert groups_in(begin, IMAGE_BIT, -1, end, 0, begin) == (0, (0, 4))
    assert groups_in(begin, 0, end) == groups_in(end, 0) == (0, None)
