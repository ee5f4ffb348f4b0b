"""A damaged log: its files stay unchanged until they are truncated, and then all of the damage is removed.

Source: ours (ADR 012).
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from pykraft.core.quarantine import Quarantine
from pykraft.log.log import Log
from pykraft.log.recovery import Recovery
from pykraft.log.scrub import find_damage
from pykraft.log.small_files.epoch_checkpoint import FILE_NAME as EPOCHS
from pykraft.log.small_files.quarantine_file import QuarantineFile
from pykraft.sim.faults.disk import LAST_BYTE_OF_EPOCH
from pykraft.sim.machine.disk import Interrupted
from pykraft.types import Epoch, Offset
from tests.disks import ScriptedDisk
from tests.log.logs import DIRECTORY, bytes_of, content, fill, open_log, run_of


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
        fs.remove(DIRECTORY / EPOCHS)
    else:
        fs.write(DIRECTORY / EPOCHS, b"nonsense")
    log, recovery = open_log(fs)
    assert [(one.start_offset, one.expected, one.found) for one in recovery.corrupt] == [(4, "epoch 2", "epoch 3")]
    assert content(log) == bytes_of(batches[:4])
    log.truncate_to(Offset(4))
    fill(log, batches[4:])
    log.close()
    fs.remove(DIRECTORY / EPOCHS)
    log, recovery = open_log(fs)
    assert (recovery.corrupt, content(log)) == ((), bytes_of(batches))
