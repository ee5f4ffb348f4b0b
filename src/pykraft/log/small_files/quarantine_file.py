"""The file ``quarantine``: this replica lost part of its log and must not vote.

Ours alone (Java ignores it). One slot of `pykraft.log.small_files.slots`, whose payload is JSON of `Quarantine`: the
epoch, the offset up to which the log was acknowledged if that is known, and the damaged ranges for whoever repairs the
disk.

Invariant: the file appears by a rename and disappears by a removal, durable when the call returns. It is written before
any part of the log is removed, and removed after the last lost record is durable again. An unreadable file still means
quarantine; only the details are lost.

Source: rules of ours.
"""

import json
from pathlib import Path
from typing import Final

from pykraft.core.quarantine import Quarantine
from pykraft.errors import CorruptionError
from pykraft.log.fs import Fs
from pykraft.log.small_files.slots import SlotFile, parse_slots
from pykraft.types import EPOCH_MAX, Damage, Epoch, Offset

FILE_NAME: Final = "quarantine"
_OFFSET_MAX: Final = 2**63 - 1
REPAIR: Final = (
    f"the node writes it again; remove {FILE_NAME} only while the node is stopped, and only if you "
    "replaced the damaged log with an intact copy"
)


class QuarantineFile:
    """The file of one partition directory. One writer, one thread."""

    def __init__(self, fs: Fs, directory: Path) -> None:
        self._fs = fs
        self._path = directory / FILE_NAME

    def exists(self) -> bool:
        """True when the file exists, readable or not."""
        return self._fs.exists(self._path)

    def read(self) -> Quarantine:
        """The quarantine in the file. ``is_cut`` is always True here: only the log's own files can tell.

        Errors: CorruptionError when it cannot be read; the quarantine holds all the same.
        """
        return parse_quarantine(self._path, self._fs.read(self._path))

    def write(self, quarantine: Quarantine) -> None:
        """Replace the file; durable when it returns."""
        SlotFile.create(self._fs, self._path, encode_quarantine(quarantine)).close()

    def remove(self) -> None:
        """Remove the file, which ends the quarantine; durable when it returns."""
        self._fs.remove(self._path)
        self._fs.sync_dir(self._path.parent)


def encode_quarantine(quarantine: Quarantine) -> bytes:
    places = [
        {
            "file": damage.path,
            "position": damage.position,
            "startOffset": damage.start_offset,
            "endOffset": damage.end_offset,
            "expected": damage.expected,
            "found": damage.found,
        }
        for damage in quarantine.damages
    ]
    fields = {"epoch": quarantine.epoch, "untilOffset": quarantine.until_offset, "damages": places}
    return json.dumps(fields, separators=(",", ":")).encode()


def parse_quarantine(path: Path, content: bytes) -> Quarantine:
    """The quarantine in these bytes. Errors: CorruptionError."""
    slots = parse_slots(content)
    try:
        fields = json.loads(slots[-1].payload)
        return Quarantine(
            epoch=Epoch(_number(fields["epoch"], EPOCH_MAX)),
            until_offset=_offset(fields["untilOffset"]),
            damages=tuple(
                Damage(
                    path=str(place["file"]),
                    position=_number(place["position"], _OFFSET_MAX),
                    start_offset=Offset(_number(place["startOffset"], _OFFSET_MAX)),
                    end_offset=_offset(place["endOffset"]),
                    expected=str(place["expected"]),
                    found=str(place["found"]),
                )
                for place in fields["damages"]
            ),
            is_cut=True,
        )
    except (IndexError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise CorruptionError(
            path, position=0, expected="a slot with a quarantine", found=repr(content[:80]), repair=REPAIR
        ) from error


def _offset(value: object) -> Offset | None:
    return None if value is None else Offset(_number(value, _OFFSET_MAX))


def _number(value: object, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        # JSON also has 1e999, which is infinite: ``int`` would refuse it with OverflowError. A bool is an int in
        # Python.
        raise ValueError(f"{value!r} is not a number from 0 to {most}")
    return value
