"""A run of one episode on real nodes: its progress and its outcome."""

from pathlib import Path

import pytest

from lab.chaos.ground import ChaosOptions
from lab.chaos.plan import FaultKind
from lab.chaos.run import ChaosOutcome, Done, failover_ms, longest_pause_ms, run_chaos
from lab.nodes.verdict import JournalVerdict
from pykraft.local.journal import Acknowledged
from pykraft.types import Epoch, NodeId, Offset


class Heard:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.faults: list[Done] = []

    def passing(self, text: str, elapsed_s: float) -> None:
        assert elapsed_s >= 0
        self.passed.append(text)

    def done(self, fault: Done) -> None:
        self.faults.append(fault)


@pytest.mark.processes
def test_an_episode_is_done_told_and_checked(tmp_path: Path) -> None:
    heard = Heard()
    outcome = run_chaos(ChaosOptions(seed=2, seconds=60, kinds=(FaultKind.KILL,), episodes_max=1), tmp_path, heard)
    assert outcome.episodes == 1
    assert outcome.verdict.is_clean
    assert outcome.verdict.acknowledged >= 200
    assert list(outcome.faults) == heard.faults
    assert {fault.kind for fault in heard.faults} == {"kill"}
    assert all(0 < fault.pause_ms < 60_000 for fault in heard.faults)
    assert heard.passed[0] == "starting the nodes"
    assert heard.passed[-2:] == ["ending all faults", "stopping the load, comparing the logs"]
    assert outcome.elections >= 1
    assert outcome.memory_max_bytes > 10_000_000


def said(node: int, wall_ms: int) -> Acknowledged:
    return Acknowledged(
        node=NodeId(node),
        run=bytes(8),
        epoch=Epoch(1),
        first_sequence=0,
        count=1,
        base_offset=Offset(0),
        wall_ms=wall_ms,
        latency_ms=1.0,
    )


def done(kind: str = "kill", *, failover_ms: int | None = None, pause_ms: int = 5, hit_leader: bool = True) -> Done:
    return Done(
        at_s=1.0,
        kind=kind,
        told=kind,
        node_id=1,
        hit_leader=hit_leader,
        lasted_s=2.0,
        pause_ms=pause_ms,
        failover_ms=failover_ms,
    )


def test_the_longest_pause_counts_from_begin_to_end() -> None:
    all_said = [said(1, 130), said(2, 110), said(1, 900)]
    assert longest_pause_ms(all_said, begin_ms=100, end_ms=150) == 20
    assert longest_pause_ms(all_said, begin_ms=100, end_ms=400) == 270
    assert longest_pause_ms([], begin_ms=100, end_ms=400) == 300


def test_a_failover_ends_with_another_node() -> None:
    assert failover_ms([said(1, 120), said(2, 150), said(3, 140)], begin_ms=100, former_leader=1) == 40
    assert failover_ms([said(1, 120), said(2, 90)], begin_ms=100, former_leader=1) is None


def test_an_outcome_is_json_with_its_kinds() -> None:
    outcome = ChaosOutcome(
        seed=1,
        nodes=3,
        is_dynamic=False,
        seconds=2.0,
        episodes=1,
        elections=2,
        memory_max_bytes=3,
        left_out={"power-cut": "no root"},
        faults=(done(failover_ms=100),),
        verdict=JournalVerdict(acknowledged=5, found=5),
    )
    document = outcome.as_json()
    assert document["kinds"][0]["failover_max_ms"] == 100
    assert document["verdict"]["found"] == 5
    assert document["left_out"] == {"power-cut": "no root"}
