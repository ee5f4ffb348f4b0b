"""Compares what a client was told with what the log holds and with what a consumer read.

Invariant: the log is the judge. An acknowledged record that is not at its offset is lost; a record that is in the log
twice is doubled; a consumer must have read the log's records, all of them, in order. Values are ``segment.number``,
where a segment is what one producer wrote.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lab.nodes.logs import Stream
from pykraft.protocol.records import decode_records, scan

Place = tuple[int, str]
"""Offset and value of one record."""
EXAMPLES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Counts of records; ``examples`` tell the first of each kind."""

    acknowledged: int
    in_log: int
    lost: int
    doubled: int
    out_of_order: int
    misread: int
    examples: tuple[str, ...]


def records_of(stream: Stream) -> list[Place]:
    """The records of clients in a log, with their offsets; control batches are left out."""
    found: list[Place] = []
    for position, header in scan(stream.data):
        if header.is_control:
            continue
        records = decode_records(stream.data[position : position + header.size_bytes])
        found += [(record.offset, (record.value or b"").decode()) for record in records]
    return found


def codecs_of(stream: Stream) -> dict[str, set[str]]:
    """The codecs of the batches in a log, by the segment (or other prefix) that they hold records of."""
    found: dict[str, set[str]] = {}
    for position, header in scan(stream.data):
        if not header.is_control:
            first = decode_records(stream.data[position : position + header.size_bytes])[0]
            prefix, _, _ = (first.value or b"").decode().partition(".")
            found.setdefault(prefix, set()).add(header.compression.name.lower())
    return found


def judge(acknowledged: Mapping[str, int], log: Sequence[Place], read: Sequence[Place]) -> Verdict:
    """Compare them; ``read`` begins with the first record of the log."""
    at = dict(log)
    counts = Counter(value for _, value in log)
    lost = [f"{value} is not at offset {offset}" for value, offset in acknowledged.items() if at.get(offset) != value]
    doubled = [f"{value} is in the log {count} times" for value, count in counts.items() if count > 1]
    order = [_order(value) for _, value in log]
    backward = [
        f"{log[index + 1][1]} follows {log[index][1]}"
        for index in range(len(order) - 1)
        if order[index + 1] < order[index]
    ]
    misread = [
        f"read {mine}, the log has {its}" for mine, its in zip(read, log[: len(counts)], strict=False) if mine != its
    ]
    missing = max(0, len(counts) - len(read))
    return Verdict(
        acknowledged=len(acknowledged),
        in_log=len(log),
        lost=len(lost),
        doubled=len(doubled),
        out_of_order=len(backward),
        misread=len(misread) + missing,
        examples=tuple(story for kind in (lost, doubled, backward, misread) for story in kind[:EXAMPLES]),
    )


def _order(value: str) -> tuple[int, int]:
    segment, number = value.split(".")
    return int(segment), int(number)
