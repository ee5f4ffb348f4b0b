"""A real node joins through a snapshot under load; neither it nor the leader keeps more than a little in memory."""

from dataclasses import replace
from pathlib import Path

import pytest

from lab.benchmarks.join import Joined, failures, join, require_same
from pykraft.errors import LocalQuorumError
from pykraft.local.child import Children

SNAPSHOT_MIB = 64
LATENCY_MS = {"p50": 10.0, "p99": 20.0}
GOOD = Joined(
    snapshot_size_bytes=2**30,
    download_s=10.0,
    caught_up_s=0.5,
    joiner_memory_mib=60.0,
    leader_memory_mib=50.0,
    leader_memory_before_mib=40.0,
    before_ms=LATENCY_MS,
    during_ms=LATENCY_MS,
    acknowledged=1_000,
)


@pytest.mark.long
@pytest.mark.processes
def test_a_node_joins_through_a_snapshot_and_nobody_holds_half_of_it(tmp_path: Path) -> None:
    with Children() as children:
        joined = join(children, tmp_path, SNAPSHOT_MIB, before_s=1.0)
    assert joined.snapshot_size_bytes > SNAPSHOT_MIB * 2**20
    assert joined.acknowledged > 2_000
    most_mib = joined.leader_memory_before_mib + SNAPSHOT_MIB / 2
    assert joined.leader_memory_mib < most_mib
    assert joined.joiner_memory_mib < most_mib


def test_a_passed_limit_is_a_failure() -> None:
    assert failures(GOOD) == []
    large = replace(GOOD, joiner_memory_mib=150.0, during_ms={"p50": 10.0, "p99": 61.0})
    assert failures(large) == [
        "the new node used 150 MiB",
        "the p99 commit latency was 3.05 times as high during the download",
    ]


def test_snapshots_that_differ_are_told(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"x" * 10)
    other.write_bytes(b"x" * 9 + b"y")
    with pytest.raises(LocalQuorumError, match=r"one and .*other differ"):
        require_same(one, other)
