"""Parts of a log, checked one by one and joined, in the order of the log.

Source: ours.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.log.offline.verify_findings import Findings
from pykraft.log.offline.verify_log import LogCheck
from pykraft.log.offline.verify_parts import CheckedPart, LogPart, LogSummary
from pykraft.log.os_fs import OsFs
from pykraft.protocol.batch import scan
from pykraft.types import Offset
from tests.log.data_directory import flip, make_node, segments


@pytest.fixture
def node(tmp_path: Path) -> Path:
    return make_node(tmp_path)


def parts_of(node: Path, batches_a_part: int = 5) -> list[LogPart]:
    found: list[LogPart] = []
    for path in segments(node):
        batches = list(scan(path.read_bytes()))
        starts = batches[::batches_a_part]
        ends = [position for position, _ in starts[1:]] + [path.stat().st_size]
        found += [
            LogPart(base_offset=Offset(int(path.stem)), start=position, end=end, offset=header.base_offset)
            for (position, header), end in zip(starts, ends, strict=True)
        ]
    return found


def checked(node: Path, part: LogPart) -> CheckedPart:
    later = [path for path in segments(node) if int(path.stem) > part.base_offset]
    return LogCheck(OsFs(), node, Findings(), on_progress=lambda _: None).run_part(part, later)


def joined(node: Path, parts: list[CheckedPart]) -> tuple[LogSummary, list[tuple[str, int]]]:
    findings = Findings()
    names = OsFs().listdir(node)
    summary = LogCheck(OsFs(), node, findings, on_progress=lambda _: None).join(names, parts)
    return summary, [(one.path.name, one.position) for one in findings.damage]


def test_sound_parts_are_the_whole_log(node: Path) -> None:
    whole = LogCheck(OsFs(), node, Findings(), on_progress=lambda _: None)
    names = OsFs().listdir(node)
    wanted = whole.run(names, [Offset(int(path.stem)) for path in segments(node)])
    parts = parts_of(node)
    assert len(parts) > len(segments(node))
    assert joined(node, [checked(node, part) for part in parts]) == (wanted, [])
    assert {checked(node, part).max_timestamp for part in parts} > {1_000_004, 1_000_059}


def test_a_part_that_does_not_continue_the_one_before_is_damage(node: Path) -> None:
    parts = parts_of(node)
    results = [checked(node, part) for part in parts if part != parts[2]]
    _, damage = joined(node, results)
    assert (segments(node)[0].name, parts[3].start) in damage


def test_an_epoch_that_goes_back_between_two_parts_is_damage(node: Path) -> None:
    parts = parts_of(node)
    (node / "leader-epoch-checkpoint").unlink()
    first = next(at for at, part in enumerate(parts) if part.offset > 30 and part.start > 0)
    path = node / f"{parts[first].base_offset:020d}.log"
    content = bytearray(path.read_bytes())
    for position, header in scan(bytes(content)):
        if header.base_offset >= parts[first].offset:
            content[position + 12 : position + 16] = (1).to_bytes(4, "big")
    path.write_bytes(content)
    _, damage = joined(node, [checked(node, part) for part in parts])
    assert (path.name, parts[first].start) in damage


def test_what_parts_say_twice_is_told_once(node: Path) -> None:
    flip(segments(node)[0].with_suffix(".index"), 3)
    _, damage = joined(node, [checked(node, part) for part in parts_of(node)])
    assert len(damage) == len(set(damage)) > 0


def test_a_low_entry_of_the_time_index_is_noticed_where_parts_meet(node: Path) -> None:
    path = segments(node)[0]
    parts = [part for part in parts_of(node) if part.base_offset == 0]
    results = [checked(node, part) for part in parts]
    assert results[1].first_time_entry is not None
    low = CheckedPart(
        part=results[1].part,
        summary=results[1].summary,
        findings=results[1].findings,
        is_offset_known=True,
        is_over=False,
        epoch=results[1].epoch,
        max_timestamp=results[1].max_timestamp,
        first_time_entry=(12, 7),
    )
    rest = [checked(node, part) for part in parts_of(node)[len(parts) :]]
    _, damage = joined(node, [results[0], low, *results[2:], *rest])
    assert damage == [(path.with_suffix(".timeindex").name, 12)]
