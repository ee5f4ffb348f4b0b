"""A judged log knows its segments, and whether it reached further once.

Source: Kafka's ``ProducerStateManager``.
"""

from __future__ import annotations

from pathlib import Path

from pykraft.audit.judged import judged
from pykraft.audit.plan import AuditedPartition
from pykraft.log.offline.verify import PartitionReport
from pykraft.log.offline.verify_parts import LogSummary
from pykraft.types import Offset
from tests.audit.judged_logs import judged_log


def test_a_segment_is_found_by_offset(tmp_path: Path) -> None:
    segments = ((Offset(10), 100), (Offset(20), 50))
    names = ("00000000000000000033.snapshot", "00000000000000000015-0000000001.checkpoint")
    partition = AuditedPartition(replica="n1", path=tmp_path, names=names, segments=segments)
    summary = LogSummary(start_offset=Offset(10), end_offset=Offset(30))
    log = judged(partition, PartitionReport(path=tmp_path, log=summary, recovery_point=None), [])
    found = [log.segment_of(Offset(offset))[1:] for offset in (0, 10, 19, 20, 99)]
    assert found == [(10, 100), (10, 100), (10, 100), (20, 50), (20, 50)]
    assert log.snapshot_ends == [15]
    assert log.missing_end == (33, "00000000000000000033.snapshot")


def test_the_file_that_says_most_is_named() -> None:
    assert judged_log("n1", end_offset=9, recovery_point=9).missing_end is None
    found = judged_log("n1", end_offset=9, recovery_point=12, producers_offset=11).missing_end
    assert found == (12, "recovery-point")
