"""The result of the demo, as problems in words and as JSON."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.demo.live_tables import MicroBatch
from lab.demo.result import DemoOptions, ReplicaComparison, Result, batch_latencies_ms, commit_latencies_ms, compare
from pykraft.errors import UsageError
from pykraft.local.journal import Acknowledged
from pykraft.protocol.records import HEADER_SIZE_BYTES
from pykraft.types import Epoch, NodeId, Offset
from tests.lab.demo.audits import clean_audit
from tests.lab.demo.stories import KILL
from tests.spark.logs import EPOCH, batch, payload, write_segment
from tests.spark.logs import said as ack

pytestmark = pytest.mark.spark

CLEAN = Result(
    audit=replace(clean_audit(95, leader_epochs=2), acknowledged=90),
    comparison=ReplicaComparison(are_identical=True, problems=(), furthest=None),
    failover_ms=800,
    seconds=4.0,
    commit_latency_ms={"p50": 3.0, "p99": 9.0},
    batch_latency_ms={"p50": 900.0, "p99": 1500.0},
)

PROBLEMS: list[tuple[dict[str, Any], str]] = [
    ({"acknowledged": 0}, "no record was acknowledged"),
    ({"duplicates": 2}, "2 records duplicated in the tables"),
    ({"missing": 3}, "3 acknowledged records missing from the tables"),
    ({"out_of_order": 1}, "1 record out of order in the tables"),
    ({"strays": 4}, "4 records in the tables that are not so in the log"),
    ({"spark_rows": 94}, "the tables hold 94 records, the log 95"),
    ({"tables_agree": False}, "the tables do not hold the same records"),
    ({"leader_epochs": 1}, "the leader was killed, but no other node led"),
]


@pytest.mark.parametrize(("change", "problem"), PROBLEMS)
def test_each_fault_is_a_problem(change: dict[str, Any], problem: str) -> None:
    assert CLEAN.problems == []
    assert replace(CLEAN, audit=replace(CLEAN.audit, **change)).problems == [problem]


def test_problems_found_without_spark_are_problems() -> None:
    comparison = ReplicaComparison(are_identical=False, problems=("a step back",), furthest=None)
    assert replace(CLEAN, comparison=comparison).problems == ["a step back"]


def said(count: int, *, latency_ms: float = 1.0, base_offset: int = 0, wall_ms: int = 0) -> Acknowledged:
    return Acknowledged(
        node=NodeId(1),
        run=bytes(8),
        epoch=Epoch(1),
        first_sequence=0,
        count=count,
        base_offset=Offset(base_offset),
        wall_ms=wall_ms,
        latency_ms=latency_ms,
    )


def micro_batch(end_offset: int, ended_wall_ms: int) -> MicroBatch:
    return MicroBatch(batch_id=0, end_offset=end_offset, ended_wall_ms=ended_wall_ms, duration_ms=1)


def test_commit_latencies_count_records_and_not_acknowledgements() -> None:
    given = [said(1, latency_ms=9.0), said(98, latency_ms=2.0), said(1, latency_ms=30.0)]
    assert commit_latencies_ms(given) == {"p50": 2.0, "p99": 9.0}
    assert commit_latencies_ms([]) == {"p50": 0.0, "p99": 0.0}


def test_a_record_is_in_the_tables_when_the_micro_batch_of_its_last_offset_has_ended() -> None:
    batches = [micro_batch(10, 1_000), micro_batch(20, 2_000), micro_batch(30, 3_000)]
    given = [
        said(9, base_offset=11, wall_ms=1_100),  # up to 20: the second
        said(1, base_offset=20, wall_ms=1_900),  # up to 21: the third
    ]
    assert batch_latencies_ms(given, batches) == {"p50": 900.0, "p99": 1_100.0}


def test_what_waited_for_spark_or_never_came_does_not_count() -> None:
    batches = [micro_batch(10, 1_000), micro_batch(20, 2_000)]
    before, after = said(5, wall_ms=999), said(5, base_offset=20, wall_ms=2_500)
    early = said(3, base_offset=10, wall_ms=2_010)  # the clock of a node may be ahead
    assert batch_latencies_ms([before, after], batches) is None
    assert batch_latencies_ms([early], batches) == {"p50": 0.0, "p99": 0.0}
    assert batch_latencies_ms([before], []) is None


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"seconds": 1.5}, r"--seconds 1.5: give 2 to 86400"),
    ({"seconds": float("nan")}, r"--seconds nan: give 2 to 86400"),
    ({"seconds": float("inf")}, r"--seconds inf: give 2 to 86400"),
    ({"nodes": 0}, r"--nodes 0: give 1 to 9"),
    ({"nodes": 10}, r"--nodes 10: give 1 to 9"),
    ({"nodes": 2, "kill_leader": True}, r"--kill-leader needs --nodes 3 or more"),
    ({"throughput": 0}, r"--throughput 0"),
    ({"record_size_bytes": 19}, r"--record-size 19: "),
]


@pytest.mark.parametrize(("options", "problem"), WRONG)
def test_wrong_options_are_refused_by_name(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        DemoOptions(**options)


def test_a_disk_that_is_too_full_is_refused_with_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=5 << 20))
    with pytest.raises(UsageError, match=r"5 MiB are free, the demo needs \d+ MiB; use --data DIR"):
        DemoOptions().check_disk(tmp_path)


def test_a_fail_over_lasts_from_the_kill_to_the_first_acknowledgement_by_another_node() -> None:
    assert KILL.failover_ms == 1_515


COUNT = 6
SAID = ack(COUNT)
BATCHES = [batch([payload(at), payload(at + 1)], base_offset=at) for at in range(0, COUNT, 2)]


@pytest.fixture
def replicas(tmp_path: Path) -> dict[str, Path]:
    """Three alike."""
    return {name: write_segment(tmp_path / name, b"".join(BATCHES)).parent for name in ("node 1", "node 2", "node 3")}


def flip(partition: Path, position: int) -> None:
    (segment,) = partition.glob("*.log")
    data = bytearray(segment.read_bytes())
    data[position] ^= 1
    segment.write_bytes(data)


def test_replicas_that_are_alike_have_no_problem(replicas: dict[str, Path]) -> None:
    write_segment(replicas["node 3"], b"".join(BATCHES) + batch([payload(COUNT)], base_offset=COUNT))
    found = compare(replicas, [SAID], end_offset=COUNT)
    assert (found.are_identical, found.problems, found.furthest) == (True, (), replicas["node 3"])


def test_a_flipped_byte_of_a_record_is_damage_with_its_replica(replicas: dict[str, Path]) -> None:
    flip(replicas["node 1"], len(BATCHES[0]) + HEADER_SIZE_BYTES + 30)
    found = compare(replicas, [SAID], end_offset=COUNT)
    assert not found.are_identical
    (problem,) = found.problems
    assert problem.startswith("the log of node 1 is damaged: ")
    assert problem.endswith(f"({replicas['node 1']})")
    assert found.furthest in {replicas["node 2"], replicas["node 3"]}


def test_a_flipped_byte_that_no_crc_covers_is_a_difference(replicas: dict[str, Path]) -> None:
    epoch_position = 15
    flip(replicas["node 2"], len(BATCHES[0]) + len(BATCHES[1]) + epoch_position)
    found = compare(replicas, [SAID], end_offset=COUNT)
    assert not found.are_identical
    assert found.problems
    assert not any("\n" in problem for problem in found.problems)


def test_a_replica_that_ends_early_is_a_difference(replicas: dict[str, Path]) -> None:
    write_segment(replicas["node 2"], BATCHES[0])
    found = compare(replicas, [SAID], end_offset=COUNT)
    assert (found.are_identical, found.problems) == (False, ("node 2 ends at 2, before 6",))


def test_what_the_log_lacks_is_a_problem_of_identical_replicas(replicas: dict[str, Path]) -> None:
    for partition in replicas.values():
        write_segment(partition, BATCHES[0])
    found = compare(replicas, [SAID], end_offset=2)
    assert found.are_identical
    assert found.problems


def test_a_record_of_another_epoch_than_its_batch_is_a_problem(tmp_path: Path) -> None:
    partition = write_segment(tmp_path / "n1", batch([payload(0, epoch=EPOCH + 1)], base_offset=0)).parent
    found = compare({"node 1": partition}, [], end_offset=1)
    assert found.are_identical
    (problem,) = found.problems
    assert problem.startswith("the log of node 1: offset 0 holds a record of epoch")


def test_no_sound_replica_is_no_log(replicas: dict[str, Path]) -> None:
    for partition in replicas.values():
        flip(partition, HEADER_SIZE_BYTES + 30)
    found = compare(replicas, [SAID], end_offset=COUNT)
    assert (found.are_identical, len(found.problems), found.furthest) == (False, 3, None)
