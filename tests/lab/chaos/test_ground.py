"""Options are checked before anything starts; files on small disks survive a failure."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.chaos import ground
from lab.chaos.ground import ChaosOptions, laid_out
from lab.chaos.plan import FaultKind
from pykraft.config.properties import parse_properties
from pykraft.errors import UsageError


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
