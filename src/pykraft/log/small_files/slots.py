r"""A small file of ours that survives a torn write: two slots, written in turn.

| position | content |
|---|---|
| 0 | slot of the odd generations |
| SLOT_SIZE_BYTES | slot of the even generations |

A slot is one line of text, ``pykraft 0 <generation> <payload bytes> <CRC-32C, 8 hex digits>\n``, and the payload. The
CRC covers generation and payload. Bytes after the payload are left over and have no meaning.

This module decides which slot is the newest whole one. Invariant: the slot being overwritten never holds the newest
synced payload. So a write that a crash tears, or that never reaches the disk, leaves the previous payload readable. The
file itself appears by rename, with one slot synced, so a file without a readable slot is damaged, not just interrupted.
One small write and one fdatasync replace create, fsync, rename and directory sync.

Source: the ping-pong meta pages of LMDB; rules of ours (no Kafka file).
"""

from __future__ import annotations

from pathlib import Path

from crc32c import crc32c

from pykraft.errors import CorruptionError, StorageError
from pykraft.log.fs import File, Fs, write_atomically
from pykraft.value import value

SLOT_SIZE_BYTES = 64 * 1024
"""Distance between the slots: no page, and no erase block of a simple disk, contains parts of both."""
_MAGIC = b"pykraft"
_FORMAT = b"0"
_HEAD_SIZE_BYTES_MAX = 64


@value(frozen=True, slots=True, kw_only=True)
class Slot:
    """One whole slot; the one with the higher generation is newer."""

    generation: int
    payload: bytes


class SlotFile:
    """The two slots of one open file. One writer, one thread."""

    def __init__(self, path: Path, file: File, slots: tuple[Slot, ...]) -> None:
        self.path = path
        self._file = file
        self._slots = slots
        self._is_synced = True

    @classmethod
    def create(cls, fs: Fs, path: Path, payload: bytes) -> SlotFile:
        """Create the file, durably, with a first payload; replaces any older file with this name."""
        slot = Slot(generation=1, payload=payload)
        write_atomically(fs, path, _encode(slot))
        return cls(path, fs.open(path, write=True), (slot,))

    @classmethod
    def open(cls, fs: Fs, path: Path, *, repair: str) -> SlotFile:
        """Read the slots, write the newest one again and sync it: it is durable when this returns.

        Errors: CorruptionError, with this ``repair``, when neither slot is whole.
        """
        file = fs.open(path, write=True)
        slots = parse_slots(file.pread(2 * SLOT_SIZE_BYTES, 0))
        if not slots:
            file.close()
            raise CorruptionError(
                path, position=0, expected="a slot with a valid CRC", found="neither of two", repair=repair
            )
        # Write it again: a killed process may have left it in the page cache only, in a page that the kernel treats as
        # clean because a sync of it failed.
        file.pwrite([_encode(slots[-1])], _index(slots[-1].generation) * SLOT_SIZE_BYTES)
        file.sync()
        return cls(path, file, slots)

    @property
    def newest(self) -> Slot:
        return self._slots[-1]

    @property
    def previous(self) -> Slot | None:
        """The generation just before `newest`, if its slot is whole."""
        older = self._slots[0]
        return older if older.generation == self.newest.generation - 1 else None

    def write(self, payload: bytes) -> None:
        """Put the payload into the slot of the older generation; durable after `sync`."""
        # Sync the previous write first: otherwise a crash could lose it while this write tears its predecessor.
        self.sync()
        self._put(self.newest, Slot(generation=self.newest.generation + 1, payload=payload))

    def rewrite(self, payload: bytes) -> None:
        """As `write`, but it replaces the last write if that is not durable yet, and so never syncs."""
        if self._is_synced:
            self.write(payload)
        else:
            # The other slot is durable, so this write may be torn, too.
            self._put(self._slots[0], Slot(generation=self.newest.generation, payload=payload))

    def _put(self, other: Slot, slot: Slot) -> None:
        data = _encode(slot)
        if len(data) > SLOT_SIZE_BYTES:
            raise StorageError(self.path, f"{len(data)} bytes do not fit into a slot of {SLOT_SIZE_BYTES}")
        self._file.pwrite([data], _index(slot.generation) * SLOT_SIZE_BYTES)
        self._slots = (other, slot)
        self._is_synced = False

    def sync(self) -> None:
        """Make the last write durable unless it is already."""
        if not self._is_synced:
            self._file.sync()
            self._is_synced = True

    def close(self) -> None:
        """Close without syncing."""
        self._file.close()


def parse_slots(content: bytes) -> tuple[Slot, ...]:
    """The whole slots in a file's bytes, older first; also for code that only reads."""
    found = (_decode(content[index * SLOT_SIZE_BYTES : (index + 1) * SLOT_SIZE_BYTES], index) for index in range(2))
    return tuple(sorted((slot for slot in found if slot), key=lambda slot: slot.generation))


def _index(generation: int) -> int:
    return (generation + 1) % 2


def _crc(slot: Slot) -> int:
    return crc32c(slot.payload, crc32c(b"%d" % slot.generation))


def _encode(slot: Slot) -> bytes:
    head = b"%s %s %d %d %08x\n" % (_MAGIC, _FORMAT, slot.generation, len(slot.payload), _crc(slot))
    return head + slot.payload


def _decode(data: bytes, index: int) -> Slot | None:
    """The slot in these bytes; None when it is not whole, was never written, or is in the wrong place."""
    head, newline, _ = data[:_HEAD_SIZE_BYTES_MAX].partition(b"\n")
    fields = head.split(b" ")
    if not newline or len(fields) != 5 or fields[:2] != [_MAGIC, _FORMAT]:
        return None
    if not all(field.isdigit() for field in fields[2:4]):
        return None
    generation, size_bytes = int(fields[2]), int(fields[3])
    start = len(head) + 1
    # A slot in the wrong place was not written by this module.
    if start + size_bytes > len(data) or _index(generation) != index:
        return None
    slot = Slot(generation=generation, payload=data[start : start + size_bytes])
    return slot if fields[4] == b"%08x" % _crc(slot) else None
