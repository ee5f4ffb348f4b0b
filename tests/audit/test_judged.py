"""A judged log knows whether it reached further once; acknowledged records that it lost are named by file and byte.

Source: Kafka's ``ProducerStateManager``; ours.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from pykraft.audit.judged import acknowledged_end, judged, lost_in, read_acknowledged
from pykraft.audit.plan import AuditedPartition
from pykraft.errors import UsageError
from pykraft.local.journal import Acknowledged, RecordSpan
from pykraft.log.offline.verify import PartitionReport
from pykraft.log.offline.verify_log import LogSummary
from pykraft.types import Offset
from tests.audit.replicas import audited, judged_log, written
from tests.spark.logs import batch, payload, said


def test_a_segment_is_found_by_offset(tmp_path: Path) -> None:
    segments = ((Offset(10), 100), (Offset(20), 50))
    names = ("00000000000000000033.snapshot", "00000000000000000015-0000000001.checkpoint")
    partition = AuditedPartition(replica="n1", path=tmp_path, names=names, segments=segments)
    summary = LogSummary(start_offset=Offset(10), end_offset=Offset(30))
    log = judged(partition, PartitionReport(path=tmp_path, log=summary), [])
    found = [log.segment_of(Offset(offset))[1:] for offset in (0, 10, 19, 20, 99)]
    assert found == [(10, 100), (10, 100), (10, 100), (20, 50), (20, 50)]
    assert log.snapshot_ends == [15]
    assert log.missing_end == (33, "00000000000000000033.snapshot")


def test_the_file_that_says_most_is_named() -> None:
    assert judged_log("n1", end_offset=9, recovery_point=9).missing_end is None
    found = judged_log("n1", end_offset=9, recovery_point=12, producers_offset=11).missing_end
    assert found == (12, "recovery-point")


CONTENT = [batch([payload(2 * at), payload(2 * at + 1)], base_offset=2 * at) for at in range(4)]


def write_journal(path: Path, acknowledged: list[Acknowledged], end: str = "") -> Path:
    lines = [json.dumps({"event": "ack", **asdict(one), "run": one.run.hex()}) for one in acknowledged]
    path.write_text("".join(f"{line}\n" for line in lines) + end)
    return path


def span(base_offset: int, count: int, *, shift: int = 0) -> RecordSpan:
    claim = said(1).claim
    return RecordSpan(claim=claim, first_sequence=base_offset - shift, base_offset=Offset(base_offset), count=count)


def lost(spans: list[RecordSpan], start: int = 0, end: int = 100) -> list[tuple[int, int]]:
    return list(lost_in([said(10)], spans, Offset(start), Offset(end)))


def test_what_continues_is_joined_and_a_last_line_may_be_cut(tmp_path: Path) -> None:
    acknowledged = [said(2), said(3, first_sequence=2, base_offset=2), said(1, first_sequence=5, base_offset=9)]
    found = read_acknowledged([write_journal(tmp_path / "journal", acknowledged, end='{"event": "ac')])
    assert [(one.base_offset, one.count) for one in found] == [(0, 5), (9, 1)]
    with pytest.raises(UsageError, match="line 2"):
        read_acknowledged([write_journal(tmp_path / "journal", [said(2)], end="no event\n")])


def test_gaps_are_what_no_span_covers_at_its_offset() -> None:
    assert lost([span(0, 10)]) == []
    assert lost([span(0, 4), span(6, 4)]) == [(4, 2)]
    assert lost([span(3, 4)]) == [(0, 3), (7, 3)]
    assert lost([span(0, 10, shift=1)]) == [(0, 10)]
    assert lost([]) == [(0, 10)]


def test_what_lies_outside_of_a_log_is_not_lost_in_it() -> None:
    assert lost([span(3, 4)], start=3, end=7) == []
    assert lost([], start=10) == []


def test_a_lost_record_is_named_by_its_batch(tmp_path: Path) -> None:
    changed = [*CONTENT[:2], batch([payload(90), payload(91)], base_offset=4), CONTENT[3]]
    directories = [
        written(tmp_path / name, parts) for name, parts in (("n1", CONTENT), ("n2", changed), ("n3", CONTENT))
    ]
    report = audited(directories, acknowledged=[said(8)])
    (found,) = (one for one in report.damage if one.kind.value == "lost")
    assert (found.replica, found.position) == (str(directories[1]), len(b"".join(CONTENT[:2])))
    assert found.expected == "2 acknowledged records from offset 4 on"
    assert report.acknowledged == 8


def test_records_beyond_the_end_of_all_logs_are_lost(tmp_path: Path) -> None:
    directories = [written(tmp_path / name, CONTENT) for name in ("n1", "n2")]
    (found,) = audited(directories, acknowledged=[said(11)]).damage
    assert found.expected == "3 acknowledged records from offset 8 on"
    assert found.position == len(b"".join(CONTENT))
    assert audited(directories, acknowledged=[said(8)]).is_sound


def test_a_replica_that_is_behind_has_lost_nothing(tmp_path: Path) -> None:
    contents = (CONTENT, CONTENT, CONTENT[:2])
    directories = [written(tmp_path / f"n{at}", parts) for at, parts in enumerate(contents)]
    report = audited(directories, acknowledged=[said(8)])
    assert report.is_sound
    assert [note.text for note in report.notes if "before" in note.text] == [
        f"ends at offset 4, 4 records before {directories[0]}"
    ]


def test_all_below_the_end_of_what_was_acknowledged_is_committed() -> None:
    assert acknowledged_end([]) == 0
    assert acknowledged_end([said(1), said(10), said(2)]) == said(10).end_offset
