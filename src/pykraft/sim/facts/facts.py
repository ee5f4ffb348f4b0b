"""The true state of a world, for oracles, clients and faults to read; nothing here starts, stops or harms anything.

The value is frozen, but its parts change with the world. Code that has facts can read hosts and disks through `nodes`;
it cannot reach the parts that decide what happens next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from pykraft.host.host import Host
from pykraft.sim.facts.atlas import Atlas
from pykraft.sim.facts.claims import Claims
from pykraft.sim.facts.history import History
from pykraft.sim.facts.members import Members
from pykraft.sim.facts.platters import Platters
from pykraft.sim.facts.voter_requests import VoterRequests
from pykraft.sim.machine.clock import Clock
from pykraft.sim.machine.ledger import Ledger
from pykraft.sim.machine.network import Network
from pykraft.sim.machine.node import Process, SimulatedNode
from pykraft.sim.scenario.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts of one world."""

    seed: int
    scenario: Scenario
    records_between: int
    """Roughly how many records a node appends between two of its snapshots; 0: no snapshots."""
    is_formatted: bool
    """True when an operator formatted the static voters; always with absent ones, which cannot vouch for the others."""
    absent: set[int]
    """Voters that never start, and machines that are switched off, for a while or for good."""
    clock: Clock
    network: Network
    nodes: Mapping[int, SimulatedNode]
    platters: Platters
    committed: Ledger
    """Batches that leaders counted as committed, each once."""
    members: Members
    requests: VoterRequests
    atlas: Atlas
    claims: Claims
    history: History
    counts: Counter[str]
    """How often each kind of fault happened, and other counts for the report."""

    def ledger(self, node: SimulatedNode) -> Ledger:
        """The log of a node as its process sees it."""
        return node.ledger

    def hosts(self) -> list[Host]:
        """Hosts of all running processes, in order of their ids."""
        return [node.host for node in self.nodes.values() if node.host is not None]

    def voters(self) -> list[SimulatedNode]:
        """Nodes of the newest committed voter set, running or not, whose directory id matches it."""
        return self.members.nodes_of(self.members.committed)

    def newest_leader(self) -> Process | None:
        """The running leader of the highest epoch."""
        processes = (node.process for node in self.nodes.values() if node.process is not None)
        leaders = [process for process in processes if process.host.status.leads]
        return max(leaders, key=lambda process: process.host.status.epoch, default=None)
