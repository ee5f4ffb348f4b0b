"""Names of the files in a partition directory.

A segment's file is named by its base offset in twenty digits and a suffix, a snapshot by its end offset and epoch.
Source: Kafka's ``LogFileUtils``, ``Snapshots``; KIP-630.
"""

import re
from collections.abc import Iterable
from typing import Final

from pykraft.types import Epoch, Offset, OffsetAndEpoch

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
SEGMENT_SUFFIXES: Final = (LOG, OFFSET_INDEX, TIME_INDEX)
DELETED: Final = ".deleted"
"""Added to the name of a file that no longer counts; the file is removed later, when nothing waits for the disk."""
_OFFSET_MAX: Final = 2**63 - 1

_SEGMENT_FILE: Final = re.compile(r"([0-9]{20})(\.log|\.index|\.timeindex)")
_LEFTOVER: Final = re.compile(r"[0-9]{20}\.(?:log|index|timeindex|txnindex|snapshot)\.(deleted|cleaned|swap)")
_CHECKPOINT: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")


def segment_file(base_offset: Offset, suffix: str) -> str:
    """Name of a segment's file; ``suffix`` is one of SEGMENT_SUFFIXES."""
    return f"{base_offset:020d}{suffix}"


def parse_segment_file(name: str) -> tuple[Offset, str] | None:
    """Base offset and suffix of a segment's file; None for any other name."""
    match = _SEGMENT_FILE.fullmatch(name)
    if match is None or int(match[1]) > _OFFSET_MAX:
        return None
    return Offset(int(match[1])), match[2]


def base_offsets_in(names: Iterable[str]) -> list[Offset]:
    """The base offsets of the segments among these names, ascending."""
    return sorted(found[0] for found in map(parse_segment_file, names) if found is not None and found[1] == LOG)


def leftover_kind(name: str) -> str | None:
    """Why a segment's file was left behind: deleted, or Kafka's cleaned or swap; None for any other name."""
    match = _LEFTOVER.fullmatch(name)
    return match[1] if match else None


def parse_checkpoint(name: str) -> OffsetAndEpoch | None:
    """End offset and epoch of a complete snapshot; None for any other name."""
    match = _CHECKPOINT.fullmatch(name)
    return OffsetAndEpoch(Offset(int(match[1])), Epoch(int(match[2]))) if match else None


def snapshot_ids_in(names: Iterable[str]) -> list[OffsetAndEpoch]:
    """The complete snapshots among these names."""
    return [found for found in map(parse_checkpoint, names) if found is not None]
