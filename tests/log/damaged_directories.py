"""Directories of a replica with every kind of damage, each with the verdict that follows from it.

``node`` is the partition directory that `tests.log.data_directory.make_node` writes: records 0 to 59, a batch each, in
three segments and two epochs, all of them synced. Kafka's directories have no recovery point.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

from pykraft.core.quarantine import Quarantine
from pykraft.log.judge import Verdict
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.quarantine_file import FILE_NAME as QUARANTINE
from pykraft.log.small_files.quarantine_file import QuarantineFile
from pykraft.log.small_files.recovery_point import RecoveryPoint
from pykraft.types import Damage, Epoch, Offset
from tests.log.data_directory import batch_size, flip, segments
from tests.log.logs import batch

RECORDS = 60
SECOND_EPOCH = 30
IMPOSSIBLE = "impossible"

Case = Callable[[Path], None]


# What is done to a directory.


def at_offset(node: Path, offset: int) -> tuple[Path, int]:
    """Segment and position of a batch."""
    segment = [path for path in segments(node) if int(path.stem) <= offset][-1]
    return segment, (offset - int(segment.stem)) * batch_size(segment)


def synced_to(offset: int) -> Case:
    """Only what is below this offset was synced."""
    return lambda node: RecoveryPoint.create(OsFs(), node, Offset(offset)).close()


def without(*names: str) -> Case:
    """These files are gone."""

    def remove(node: Path) -> None:
        for name in names:
            (node / name).unlink(missing_ok=True)

    return remove


def file(name: str, content: bytes) -> Case:
    """A file with this content."""

    def write(node: Path) -> None:
        (node / name).write_bytes(content)

    return write


def edited(offset: int, change: Callable[[bytes, int, int], bytes]) -> Case:
    """The segment that holds this batch has other bytes: ``change`` gets them, and the batch's position and size."""

    def write(node: Path) -> None:
        segment, position = at_offset(node, offset)
        segment.write_bytes(change(segment.read_bytes(), position, batch_size(segment)))

    return write


def cut_at(offset: int, *, more: int) -> Case:
    """The segment ends so many bytes behind the beginning of this batch."""
    return edited(offset, lambda data, start, _: data[: start + more])


def zeros_from(offset: int, *, more: int = 0, behind: int = 0) -> Case:
    """From this batch on the segment holds only zeros."""
    return edited(offset, lambda data, start, _: data[: start + more] + bytes(len(data) - start - more + behind))


def zeros_in(offset: int) -> Case:
    """This batch is zeros, and those after it are whole."""
    return edited(offset, lambda data, start, size: data[:start] + bytes(size) + data[start + size :])


def flip_in(offset: int, at: int) -> Case:
    """One bit of this batch changes."""

    def change(node: Path) -> None:
        segment, position = at_offset(node, offset)
        flip(segment, position + at)

    return change


def epoch_of(offset: int, epoch: int, *, until: int | None = None) -> Case:
    """No CRC covers the epoch."""

    def change(node: Path) -> None:
        for each in range(offset, until or offset + 1):
            segment, position = at_offset(node, each)
            data = bytearray(segment.read_bytes())
            data[position + 12 : position + 16] = struct.pack(">i", epoch)
            segment.write_bytes(data)

    return change


def without_batch(offset: int) -> Case:
    """The bytes of a batch are missing."""
    return edited(offset, lambda data, start, size: data[:start] + data[start + size :])


def without_segment(index: int) -> Case:
    """The files of a segment are missing."""

    def remove(node: Path) -> None:
        for path in node.glob(f"{segments(node)[index].stem}.*"):
            path.unlink()

    return remove


def retired(index: int) -> Case:
    """The segment is renamed, as a cleaning does it."""

    def rename(node: Path) -> None:
        path = segments(node)[index]
        path.rename(f"{path}.deleted")

    return rename


def append(*batches: bytes) -> Case:
    """These bytes follow in the last segment."""

    def write(node: Path) -> None:
        segment = segments(node)[-1]
        segment.write_bytes(segment.read_bytes() + b"".join(batches))

    return write


def empty_segment(offset: int) -> Case:
    """A segment begins at this offset and holds nothing."""
    return file(f"{offset:020d}.log", b"")


def elected(epoch: int) -> Case:
    """An operator restored an older quorum-state."""

    def write(node: Path) -> None:
        (node / "quorum-state.check").unlink()
        path = node / "quorum-state"
        path.write_bytes(path.read_bytes().replace(b'"leaderEpoch":2', b'"leaderEpoch":%d' % epoch))

    return write


def wide_batch(base_offset: int) -> bytes:
    """A whole batch with more offsets than a segment may have."""
    wide = bytearray(batch(base_offset, epoch=2)[1])
    wide[23:27] = (2**31 - 1).to_bytes(4, "big")
    wide[17:21] = crc32c(wide[21:]).to_bytes(4, "big")
    return bytes(wide)


def noted(offset: int, *, epoch: int) -> Case:
    """The node has noted that it found this batch with this epoch, which is wrong."""

    def write(node: Path) -> None:
        segment, position = at_offset(node, offset)
        damage = Damage(
            path=str(segment),
            position=position,
            start_offset=Offset(offset),
            expected="epoch 1",
            found=f"epoch {epoch}",
        )
        note = Quarantine(epoch=Epoch(2), until_offset=None, damages=(damage,), is_cut=False)
        QuarantineFile(OsFs(), node).write(note)

    return write


MISSING_POINT, LOST_POINT = without("recovery-point"), file("recovery-point", b"nonsense")
NO_POINT = without("recovery-point", "quorum-state.check")
"""As in a directory of Kafka's, which has neither."""
EPOCHS = "leader-epoch-checkpoint"
NEXT, AFTER = (batch(offset, epoch=2, size_bytes=100)[1] for offset in (RECORDS, RECORDS + 1))
BROKEN = NEXT[:80] + b"!" + NEXT[81:]
SNAPSHOT = f"{SECOND_EPOCH:020d}-0000000001.checkpoint"
SNAPSHOT_OF_ALL = f"{RECORDS:020d}-0000000002.checkpoint"
LAST = RECORDS - 1
SOUND, TORN, UNPROVEN, DAMAGED = Verdict.SOUND, Verdict.TORN, Verdict.UNPROVEN, Verdict.DAMAGED
S1, S2 = 23, 46
"""Base offsets of the second and the third segment."""


@dataclass(frozen=True)
class Row:
    """What is done, and which verdict follows at which offset."""

    name: str
    cases: tuple[Case, ...]
    verdict: Verdict | str
    offset: int


def row(name: str, *cases: Case, verdict: Verdict | str, offset: int = RECORDS) -> Row:
    """One row of the table."""
    return Row(name, cases, verdict, offset)


TABLE = [
    row("nothing", verdict=SOUND),
    row("sound batches above the recovery point", append(NEXT, AFTER), verdict=SOUND, offset=62),
    # A tail that a crash tears.
    row("a cut batch above the recovery point", append(NEXT[:-1]), verdict=TORN),
    row("a cut header above it", append(NEXT[:20]), verdict=TORN),
    row("a cut batch below it", cut_at(LAST, more=90), verdict=DAMAGED, offset=LAST),
    row("a log that ends below it, between two batches", cut_at(LAST, more=0), verdict=DAMAGED, offset=LAST),
    row("zeros above it", append(bytes(4_000)), verdict=TORN),
    row("zeros below it", zeros_from(50, behind=4_000), verdict=DAMAGED, offset=50),
    row("a batch without a page, above it", synced_to(50), zeros_from(52, more=30), verdict=TORN, offset=52),
    row("a cut batch in an older segment, above it", synced_to(20), cut_at(22, more=9), verdict=TORN, offset=22),
    row("a cut batch in an older segment, below it", cut_at(22, more=9), verdict=DAMAGED, offset=22),
    row("a missing recovery point of ours", MISSING_POINT, verdict=SOUND),
    row("a missing recovery point of ours, a cut batch", MISSING_POINT, append(NEXT[:-1]), verdict=DAMAGED),
    row("a missing recovery point of ours, a cut log", MISSING_POINT, cut_at(55, more=0), verdict=SOUND, offset=55),
    row("a missing recovery point of ours, a changed byte", MISSING_POINT, flip_in(40, 90), verdict=DAMAGED, offset=40),
    row("an unreadable recovery point", LOST_POINT, verdict=SOUND),
    row("an unreadable recovery point, a cut batch", LOST_POINT, append(NEXT[:-1]), verdict=DAMAGED),
    row("an unreadable recovery point, a cut log", LOST_POINT, cut_at(55, more=0), verdict=SOUND, offset=55),
    # Bytes that change.
    row("a changed byte of a body below the recovery point", flip_in(40, 90), verdict=DAMAGED, offset=40),
    row("a changed base offset below it", flip_in(40, 7), verdict=DAMAGED, offset=40),
    row("a changed length below it", flip_in(40, 10), verdict=DAMAGED, offset=40),
    row("a changed magic below it", flip_in(40, 16), verdict=DAMAGED, offset=40),
    row("a changed CRC below it", flip_in(40, 18), verdict=DAMAGED, offset=40),
    row("a changed byte in an older segment", flip_in(10, 90), verdict=DAMAGED, offset=10),
    row("a wrong CRC above it, then a sound batch", append(BROKEN, AFTER), verdict=TORN),
    row("a wrong CRC above it in an older segment", synced_to(20), flip_in(22, 90), verdict=TORN, offset=22),
    row("a changed base offset above it", synced_to(50), flip_in(52, 7), verdict=TORN, offset=52),
    # Batches that do not follow each other.
    row("a missing batch below the recovery point", without_batch(40), verdict=DAMAGED, offset=40),
    row("a missing batch above it", synced_to(40), without_batch(50), verdict=TORN, offset=50),
    row("a missing segment below it", without_segment(1), verdict=DAMAGED, offset=S1),
    row("a missing segment above it", synced_to(20), without_segment(1), verdict=TORN, offset=S1),
    row("the last segment is missing", without_segment(2), verdict=DAMAGED, offset=S2),
    row("more offsets than a segment has, above it", append(wide_batch(RECORDS)), verdict=TORN),
    row("an empty last segment", empty_segment(RECORDS), verdict=SOUND),
    row("an empty last segment that leaves a gap, above it", empty_segment(RECORDS + 5), verdict=TORN),
    # Epochs, which no CRC covers: a whole batch is never a torn tail.
    row("an epoch that steps back below the recovery point", epoch_of(40, 1), verdict=DAMAGED, offset=40),
    row("an epoch that steps back above it", append(batch(60, epoch=1)[1]), verdict=DAMAGED),
    row("an epoch that the checkpoint contradicts", epoch_of(10, 2), verdict=DAMAGED, offset=10),
    row("the first epoch, which the checkpoint contradicts", epoch_of(0, 0), verdict=DAMAGED, offset=0),
    row(
        "epoch 0, in which nobody leads, above the recovery point",
        synced_to(0),
        epoch_of(0, 0),
        verdict=DAMAGED,
        offset=0,
    ),
    row("the same without a checkpoint", synced_to(0), without(EPOCHS), epoch_of(0, 0), verdict=DAMAGED, offset=0),
    row("the same, as in the checkpoint", epoch_of(0, 0, until=30), file(EPOCHS, b"0\n2\n0 0\n2 30\n"), verdict=SOUND),
    row("the next epoch, too early, above it", synced_to(0), epoch_of(29, 2), verdict=DAMAGED, offset=29),
    row("the epoch before, too late, above it", synced_to(0), epoch_of(30, 1), verdict=DAMAGED, offset=30),
    row("the same without a recovery point", NO_POINT, epoch_of(30, 1), verdict=SOUND),
    row(
        "an epoch between two, above it",
        synced_to(0),
        epoch_of(30, 4, until=60),
        file(EPOCHS, b"0\n2\n1 0\n4 30\n"),
        epoch_of(28, 2, until=30),
        verdict=DAMAGED,
        offset=28,
    ),
    row("an epoch that nobody knows, above it", append(batch(60, epoch=9)[1]), verdict=DAMAGED),
    row("an epoch that nobody knows, below it", epoch_of(LAST, 9), verdict=DAMAGED, offset=LAST),
    row("the same with a wrong CRC", append(batch(60, epoch=9)[1][:-1] + b"!"), verdict=TORN),
    row("a checkpoint that ends too early", file(EPOCHS, b"0\n1\n1 0\n"), verdict=DAMAGED, offset=SECOND_EPOCH),
    row("the same above the recovery point", synced_to(30), file(EPOCHS, b"0\n1\n1 0\n"), verdict=SOUND),
    row("an older quorum-state, and the checkpoint knows the epoch", elected(1), verdict=SOUND),
    row("an older quorum-state and no checkpoint", elected(1), without(EPOCHS), verdict=SOUND),
    row(
        "an older quorum-state, no checkpoint, no recovery point", elected(1), without(EPOCHS), NO_POINT, verdict=SOUND
    ),
    row(
        "an older quorum-state, and the checkpoint does not know the epoch",
        elected(1),
        file(EPOCHS, b"0\n1\n1 0\n"),
        synced_to(30),
        verdict=DAMAGED,
        offset=SECOND_EPOCH,
    ),
    row(
        "the same without a recovery point",
        elected(1),
        file(EPOCHS, b"0\n1\n1 0\n"),
        NO_POINT,
        verdict=DAMAGED,
        offset=SECOND_EPOCH,
    ),
    row(
        "an older quorum-state and an unreadable checkpoint",
        elected(1),
        file(EPOCHS, b"nonsense"),
        verdict=DAMAGED,
        offset=SECOND_EPOCH,
    ),
    row("no quorum-state", without("quorum-state", "quorum-state.check"), verdict=SOUND),
    row("an unreadable checkpoint", file(EPOCHS, b"nonsense"), verdict=SOUND),
    row("no checkpoint", without(EPOCHS), verdict=SOUND),
    # A wrong epoch that the node has noted, while it still had a checkpoint or knew the epochs of its log.
    row(
        "a noted epoch and an unreadable checkpoint",
        epoch_of(29, 2),
        noted(29, epoch=2),
        file(EPOCHS, b"nonsense"),
        verdict=DAMAGED,
        offset=29,
    ),
    row(
        "a noted epoch among others that nobody noted, and no checkpoint",
        epoch_of(27, 2, until=30),
        noted(28, epoch=2),
        without(EPOCHS),
        verdict=DAMAGED,
        offset=28,
    ),
    row(
        "a noted epoch above the recovery point",
        synced_to(0),
        epoch_of(29, 2),
        noted(29, epoch=2),
        verdict=DAMAGED,
        offset=29,
    ),
    row("a noted epoch that was mended", noted(29, epoch=2), without(EPOCHS), verdict=SOUND),
    row("a noted epoch that the checkpoint confirms", noted(29, epoch=1), verdict=SOUND),
    row("an unreadable note and no checkpoint", file(QUARANTINE, b"nonsense"), without(EPOCHS), verdict=SOUND),
    # Files that say nothing about the log.
    row("no index", without(f"{0:020d}.index", f"{0:020d}.timeindex"), verdict=SOUND),
    row("an index of nonsense", file(f"{0:020d}.index", b"nonsense" * 20), verdict=SOUND),
    row("damage, and an empty index", flip_in(10, 90), file(f"{0:020d}.index", b""), verdict=DAMAGED, offset=10),
    row("a damaged snapshot", file(SNAPSHOT, b"nonsense"), verdict=SOUND),
    # A log that lacks its beginning.
    row("no first segment", without_segment(0), verdict=IMPOSSIBLE, offset=0),
    row("no first segment, but a snapshot", without_segment(0), file(SNAPSHOT, b""), verdict=SOUND),
    row(
        "a snapshot that does not reach the log start",
        without_segment(0),
        without_segment(0),
        file(SNAPSHOT, b""),
        verdict=IMPOSSIBLE,
        offset=0,
    ),
    row("a segment in the midst of a swap", file(f"{0:020d}.log.swap", b""), verdict=IMPOSSIBLE, offset=0),
    row("a cleaning that a power loss interrupted", retired(1), file(SNAPSHOT_OF_ALL, b""), verdict=SOUND),
    row("a segment retired, and no snapshot", retired(1), verdict=DAMAGED, offset=S1),
]


KAFKAS = [
    row("no recovery point", NO_POINT, verdict=SOUND),
    row("no point, a cut batch", NO_POINT, append(NEXT[:-1]), verdict=TORN),
    row("no point, zeros", NO_POINT, append(bytes(4_000)), verdict=TORN),
    row("no point, a cut log", NO_POINT, cut_at(55, more=0), verdict=SOUND, offset=55),
    row("no point, a cut batch in an older segment", NO_POINT, cut_at(22, more=9), verdict=DAMAGED, offset=22),
    row("no point, a cut batch, then an empty segment", NO_POINT, append(NEXT[:-1]), empty_segment(61), verdict=TORN),
    row("no point, a changed byte", NO_POINT, flip_in(40, 90), verdict=DAMAGED, offset=40),
    row("no point, a changed byte in an older segment", NO_POINT, flip_in(10, 90), verdict=DAMAGED, offset=10),
    row(
        "no point, a changed byte, then a cut batch",
        NO_POINT,
        flip_in(40, 90),
        cut_at(LAST, more=9),
        verdict=DAMAGED,
        offset=40,
    ),
    row("no point, a lost page, then whole batches", NO_POINT, zeros_in(40), verdict=DAMAGED, offset=40),
    row("no point, a changed base offset", NO_POINT, flip_in(40, 7), verdict=DAMAGED, offset=40),
    row("no point, a missing batch", NO_POINT, without_batch(40), verdict=DAMAGED, offset=40),
    row("no point, zeros to the end of an older segment", NO_POINT, zeros_from(20), verdict=DAMAGED, offset=20),
    row(
        "no point, two changed last batches", NO_POINT, flip_in(58, 90), flip_in(LAST, 90), verdict=UNPROVEN, offset=58
    ),
    row(
        "no point, a changed byte, then a batch that cannot follow",
        NO_POINT,
        flip_in(LAST, 90),
        append(batch(40, epoch=2)[1]),
        verdict=UNPROVEN,
        offset=LAST,
    ),
    row("no point, a changed length", NO_POINT, flip_in(50, 10), verdict=DAMAGED, offset=50),
    row("no point, a missing segment", NO_POINT, without_segment(1), verdict=DAMAGED, offset=S1),
    row("no point, an epoch that steps back", NO_POINT, epoch_of(40, 1), verdict=DAMAGED, offset=40),
]
