"""Nodes and worlds with nothing but what an invariant looks at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pykraft.sim.oracle import DurableElection


def node(node_id: int = 1, *, is_lane_idle: bool = False, **host: Any) -> Any:
    """A node; it runs if anything is said of its host."""
    made = SimpleNamespace(node_id=node_id, **{"epoch": 0, "role": "follower", "high_watermark": None, **host})
    if not host:
        return SimpleNamespace(node_id=node_id, host=None, process=None)
    return SimpleNamespace(node_id=node_id, host=made, process=SimpleNamespace(host=made, is_lane_idle=is_lane_idle))


def leader(node_id: int, *, epoch: int, high_watermark: int | None) -> Any:
    return node(node_id, role="leader", epoch=epoch, high_watermark=high_watermark)


class World:
    """What the platters of a world say."""

    def __init__(self, *, ends: dict[int, int] | None = None, **election: Any) -> None:
        self.ends = ends or {}
        self.election = DurableElection(**election)

    def voters(self) -> list[Any]:
        return [node(node_id) for node_id in self.ends]

    def durable_end_offset(self, node: Any) -> int:
        return self.ends[node.node_id]

    def durable_election(self, node: Any) -> DurableElection:
        return self.election


def world(*, ends: dict[int, int] | None = None, **election: Any) -> Any:
    return World(ends=ends, **election)
