"""A run of one episode on real nodes: its progress and its outcome.

A seed determines the faults and their order; each kind occurs once before one repeats.

Options are checked before anything starts; files on small disks survive a failure.
"""

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from lab.chaos import ground
from lab.chaos.ground import ChaosOptions, laid_out
from lab.chaos.plan import ALONE, Fault, FaultKind, FaultTarget, episodes
from lab.chaos.run import ChaosOutcome, Done, failover_ms, longest_pause_ms, run_chaos
from lab.nodes.verdict import JournalVerdict
from pykraft.config.properties import parse_properties
from pykraft.errors import UsageError
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


EVERY = tuple(FaultKind)


def first(seed: int, count: int, kinds: tuple[FaultKind, ...] = EVERY, nodes: int = 3) -> list[tuple[Fault, ...]]:
    return list(islice(episodes(seed, kinds, nodes=nodes), count))


def test_the_same_seed_is_the_same_plan() -> None:
    assert first(7, 40) == first(7, 40)
    assert first(7, 40)[:5] == first(7, 5)
    assert first(7, 5) != first(8, 5)


def test_each_kind_comes_before_one_comes_again() -> None:
    for seed in range(20):
        begun = [episode[0].kind for episode in first(seed, 2 * len(EVERY))]
        assert set(begun[: len(EVERY)]) == set(begun[len(EVERY) :]) == set(EVERY)


def test_only_the_given_kinds_are_drawn() -> None:
    kinds = (FaultKind.KILL, FaultKind.WIPE)
    assert {fault.kind for episode in first(1, 50, kinds) for fault in episode} == set(kinds)
    assert all(len(episode) == 1 for episode in first(1, 50, (FaultKind.WIPE,)))


def test_faults_overlap_but_for_those_that_no_quorum_survives_together() -> None:
    drawn = first(3, 300)
    pairs = [episode for episode in drawn if len(episode) == 2]
    assert 50 < len(pairs) < 150
    for early, late in pairs:
        assert not {early.kind, late.kind} & ALONE
        assert early.begins_s == 0.0 <= late.begins_s <= early.lasts_s
        assert late.ends_s == late.begins_s + late.lasts_s
    for fault in (fault for episode in drawn for fault in episode):
        least, most = fault.kind.lasts_s
        assert least <= fault.lasts_s <= most
        assert 0 <= fault.nth < 2


def test_a_twin_is_never_one_of_the_leader() -> None:
    drawn = [fault for episode in first(3, 300) for fault in episode if fault.kind is FaultKind.TWIN]
    assert drawn
    assert {fault.role for fault in drawn} == {FaultTarget.FOLLOWER}


def test_every_kind_has_its_meaning_and_its_time() -> None:
    assert all(kind.meaning and kind.lasts_s[0] <= kind.lasts_s[1] for kind in FaultKind)
    assert FaultKind.KILL.value == "kill"


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (
            Fault(kind=FaultKind.KILL, role=FaultTarget.LEADER, nth=1, begins_s=0, lasts_s=2),
            "kill of the leader for 2.0 s",
        ),
        (
            Fault(kind=FaultKind.PAUSE, role=FaultTarget.FOLLOWER, nth=1, begins_s=0, lasts_s=2),
            "pause of the follower 2 for 2.0 s",
        ),
        (Fault(kind=FaultKind.RESTART_ALL, role=FaultTarget.LEADER, nth=0, begins_s=0, lasts_s=0), "restart-all"),
        (
            Fault(
                kind=FaultKind.SLOW_LINK,
                role=FaultTarget.LEADER,
                nth=0,
                begins_s=0,
                lasts_s=3,
                bandwidth=250_000,
                latency_ms=9,
            ),
            "slow-link of the leader for 3.0 s, 250 kB/s, 9 ms",
        ),
        (
            Fault(kind=FaultKind.ONE_WAY_CUT, role=FaultTarget.LEADER, nth=0, begins_s=0, lasts_s=3, is_inbound=True),
            "one-way-cut of the leader for 3.0 s, inbound",
        ),
    ],
)
def test_a_fault_is_told(fault: Fault, told: str) -> None:
    assert str(fault) == told


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"nodes": 2}, "--nodes 2: give 3 to 9"),
        ({"nodes": 10}, "--nodes 10: give 3 to 9"),
        ({"seconds": 0}, "--minutes 0: give more than 0"),
        ({"kinds": ()}, "--only and --without leave no kind of fault"),
    ],
)
def test_wrong_options_are_refused(wrong: Mapping[str, Any], problem: str) -> None:
    right: dict[str, Any] = {"seed": 1, "seconds": 1, "kinds": (FaultKind.KILL,)}
    with pytest.raises(UsageError, match=problem):
        ChaosOptions(**{**right, **wrong})


def test_a_plan_ends_where_it_should() -> None:
    assert len(list(ChaosOptions(seed=1, seconds=1, kinds=tuple(FaultKind), episodes_max=7).plan())) == 7


def test_nodes_are_found_at_their_proxies(tmp_path: Path) -> None:
    with laid_out(ChaosOptions(seed=1, seconds=1, kinds=(FaultKind.KILL,)), tmp_path) as laid:
        assert laid.disks is None
        assert sorted(laid.cluster.nodes) == [1, 2, 3]
        for node_id, node in laid.cluster.nodes.items():
            told = parse_properties(node.config.read_text())
            assert told["listeners"] == f"PLAINTEXT://127.0.0.1:{laid.ports[node_id]}"
            assert told["advertised.listeners"] == f"PLAINTEXT://127.0.0.1:{node.port}"
            assert f"{node_id}@127.0.0.1:{node.port}" in told["controller.quorum.voters"]
            assert node.port != laid.ports[node_id]


@pytest.mark.parametrize(
    ("kinds", "on_disks"),
    [
        ((FaultKind.KILL,), []),
        ((FaultKind.FULL_DISK,), [1, 3]),
        ((FaultKind.FULL_DISK, FaultKind.POWER_CUT), [1, 2, 3]),
        ((FaultKind.FULL_SNAPSHOTS,), [1, 2, 3]),
    ],
)
def test_every_node_has_a_disk_if_a_fault_needs_those_of_all(kinds: tuple[FaultKind, ...], on_disks: list[int]) -> None:
    assert list(ground._on_disks(ChaosOptions(seed=1, seconds=1, kinds=kinds), [1, 2, 3])) == on_disks


@pytest.mark.processes
def test_what_is_on_small_disks_outlives_a_failure(tmp_path: Path) -> None:
    def fail() -> None:
        with laid_out(ChaosOptions(seed=1, seconds=1, kinds=(FaultKind.FULL_DISK,)), tmp_path) as laid:
            assert laid.disk_indexes == {1: 0, 3: 1}
            (laid.cluster.nodes[3].partition.parent / "file").write_text("what it wrote")
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fail()
    assert (tmp_path / "n3" / "disk" / "data" / "file").read_text() == "what it wrote"
    assert not (tmp_path / "n2" / "disk").exists()
