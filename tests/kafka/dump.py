"""Kafka's DumpLogSegments: runs it once over many files, and returns what it printed as values.

Invariant: nothing that the tool prints is lost. A line that is not a batch, a record, an index entry or a success
message counts as a complaint, and so does everything on standard error, because the tool exits with 0 even when an
index points to the wrong batch. The tests compare the values.

Lines, as Kafka 4.3.1 prints them:

    Dumping <path>
    Log starting offset: <n>              or, of a checkpoint: Snapshot end offset: <n>, epoch: <n>
    baseOffset: <n> lastOffset: <n> ... partitionLeaderEpoch: <n> ... position: <n> ... crc: <n> isvalid: true|false
    | offset: <n> ...                     a record of the batch before, with --deep-iteration
    offset: <n> position: <n>             an entry of an offset index
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from lab.kafka.java import Finished, Kafka, Main

_INDEX_ENTRY = re.compile(r"(?:offset: (?P<key>\d+) position|timestamp: (?P<time>-?\d+) offset): (?P<value>\d+)")
_HEADINGS = ("Log starting offset: ", "Snapshot end offset: ")
_GAPS = "Non-consecutive offsets in "
_PAIR = re.compile(r"(\w+): (\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedBatch:
    """One batch as Kafka sees it. Units: position and size in bytes, timestamp in wall ms, offsets inclusive."""

    base_offset: int
    last_offset: int
    records_count: int
    epoch: int
    is_control: bool
    position: int
    max_timestamp: int
    size_bytes: int
    crc: int
    is_valid: bool


@dataclass(slots=True, kw_only=True)
class DumpedFile:
    """What the tool found in one file; an index has entries, a log has batches."""

    batches: list[DumpedBatch] = field(default_factory=list)
    records_count: int = 0
    entries: list[tuple[int, int]] = field(default_factory=list)
    """(offset, position) of an offset index, (timestamp, offset) of a time index."""
    is_sane: bool = False
    """The tool said that it passed the sanity check."""


@dataclass(slots=True, kw_only=True)
class Dump:
    """What one run found in all its files, and what it had to complain about."""

    files: dict[Path, DumpedFile] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)


def dump_log(kafka: Kafka, files: Sequence[Path], *flags: str) -> Dump:
    """Run the tool once over logs and indexes; an index needs its log beside it."""
    names = ",".join(str(path) for path in files)
    return parse_dump(kafka.run(Main.DUMP_LOG, *flags, "--files", names))


def parse_dump(finished: Finished) -> Dump:
    """Values from the tool's output."""
    dump = Dump()
    if finished.status != 0:
        dump.complaints.append(f"exit status {finished.status}")
    dump.complaints += _complaints(finished.stderr)
    current = DumpedFile()
    for line in finished.stdout.splitlines():
        if line.startswith("Dumping "):
            current = dump.files.setdefault(Path(line.removeprefix("Dumping ")), DumpedFile())
        elif not _take(current, line):
            dump.complaints.append(line)
    return dump


def _take(file: DumpedFile, line: str) -> bool:
    """Add what the line says to the file; False when it is a complaint."""
    if line.startswith("| offset: "):
        file.records_count += 1
    elif line.startswith("baseOffset: "):
        batch = _batch(line)
        file.batches.append(batch)
        return batch.is_valid
    elif entry := _INDEX_ENTRY.fullmatch(line):
        file.entries.append((int(entry["key"] or entry["time"]), int(entry["value"])))
    elif line.endswith(" passed sanity check."):
        file.is_sane = True
    else:
        return line.startswith(_HEADINGS) or line.endswith(".index is empty.")
    return True


def _complaints(stderr: str) -> list[str]:
    lines: list[str] = []
    start = ""
    for line in stderr.splitlines():
        if line.startswith(_GAPS):
            start = f"  -1 is followed by {int(Path(line).stem)}"
        if line not in ("", start):
            lines.append(line)
    pairs = zip_longest(lines, lines[1:], fillvalue="")
    return [line for line, after in pairs if not line.startswith(_GAPS) or after.startswith("  ")]


def _batch(line: str) -> DumpedBatch:
    pairs = dict(_PAIR.findall(line))
    return DumpedBatch(
        base_offset=int(pairs["baseOffset"]),
        last_offset=int(pairs["lastOffset"]),
        records_count=int(pairs["count"]),
        epoch=int(pairs["partitionLeaderEpoch"]),
        is_control=pairs["isControl"] == "true",
        position=int(pairs["position"]),
        max_timestamp=int(pairs["CreateTime"]),
        size_bytes=int(pairs["size"]),
        crc=int(pairs["crc"]),
        is_valid=pairs["isvalid"] == "true",
    )
