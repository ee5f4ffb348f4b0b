"""What is true of a world, as oracles, clients and faults read it; nothing of it starts, stops or harms anything.

The value is frozen: its parts stay the same for the whole life of a world, and go on with it. Whoever has facts can
read hosts and disks through `nodes`, but has no way to the parts of a world that decide what happens next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
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
from pykraft.sim.machine.node import Node, Process
from pykraft.sim.scenario.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Of one world."""

    seed: int
    scenario: Scenario
    records_between: int
    """About so many records from one snapshot of a node to the next; 0: there are no snapshots."""
    is_formatted: bool
    """Whether an operator formatted the static voters; who never starts can prove nobody."""
    absent: Collection[int]
    """Voters that never start."""
    clock: Clock
    network: Network
    nodes: Mapping[int, Node]
    platters: Platters
    committed: Ledger
    """What leaders counted as committed, each batch once."""
    members: Members
    requests: VoterRequests
    atlas: Atlas
    claims: Claims
    history: History
    counts: Counter[str]
    """How often each kind of fault happened, and what else is counted beside them."""

    def ledger(self, node: Node) -> Ledger:
        """The log of a node as its process sees it."""
        return node.ledger

    def hosts(self) -> list[Host]:
        """Hosts of all running processes, in order of their ids."""
        return [node.host for node in self.nodes.values() if node.host is not None]

    def voters(self) -> list[Node]:
        """Nodes of the newest voter set that is committed, running or not; those that have the directory id in it."""
        return self.members.nodes_of(self.members.committed)

    def newest_leader(self) -> Process | None:
        """The running leader of the highest epoch."""
        processes = (node.process for node in self.nodes.values() if node.process is not None)
        leaders = [process for process in processes if process.host.role == "leader"]
        return max(leaders, key=lambda process: process.host.epoch, default=None)
