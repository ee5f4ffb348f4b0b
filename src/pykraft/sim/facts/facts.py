"""The true state of a world, for oracles, clients and faults to read; nothing here starts, stops or harms anything.

The value is frozen, but its parts change with the world. Code that has facts can read hosts and disks through `nodes`;
it cannot reach the parts that decide what happens next. An oracle that asks where an epoch or a vote comes from also
asks the `Claims`. Invariant: an epoch that a stranger claims to lead is far above every epoch of a replica, so no
replica is ever a candidate in it.

Source: ours; docs/threat-model.md says what whoever reaches the port can do.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pykraft.core.epoch_budget import DOUBLINGS_MAX
from pykraft.host.host import Host
from pykraft.sim.facts.atlas import Atlas
from pykraft.sim.facts.history import History
from pykraft.sim.facts.members import Members, VoterRequests
from pykraft.sim.facts.platter import Platters
from pykraft.sim.machine.clock import Clock
from pykraft.sim.machine.ledger import Ledger
from pykraft.sim.machine.network import Network
from pykraft.sim.machine.node import Process, SimulatedNode
from pykraft.sim.scenario.scenario import Scenario

STRANGER_ID: Final = 999
"""Node id and port of the stranger."""
FORGER_ID: Final = 998
"""Node id and port of the one that sends frames in voters' names at a rate."""


@dataclass(slots=True)
class Claims:
    """All claims in one world."""

    epochs: set[int] = field(default_factory=set)
    """Epochs that a stranger named, whether or not anybody adopted them."""
    led: set[int] = field(default_factory=set)
    """Those of them of which a stranger said who leads them."""
    candidates: set[tuple[int, int]] = field(default_factory=set)
    """Epochs in which a stranger asked for votes, with the id that it gave."""
    batches: set[tuple[int, int]] = field(default_factory=set)
    """Base offset and CRC of batches that a stranger sent; no replica may append one."""
    is_forging: bool = False
    """True while a stranger sends frames in voters' names at a rate."""
    is_moving_voters: bool = False
    """True once it has told a leader that a voter is at its own port, where it answers as a voter would."""
    has_said_goodbye: bool = False
    """True once it has ended an epoch in a leader's name: who only heard of that leader believes it."""
    is_posing: bool = False
    """True while a stranger answers Fetches under a voter's id: followers cannot tell it from that voter."""

    twin_ids: set[int] = field(default_factory=set)
    """Voters of whom a second process has run."""
    fed_twins: set[tuple[int, int, int]] = field(default_factory=set)
    """Leader, epoch and id: that leader has sent records to a second process with this static voter's id."""

    older_ids: set[int] = field(default_factory=set)
    """Nodes whose directories an older copy replaced: they have forgotten what they told others."""

    is_flipped: bool = False
    """True once a bit of a frame flipped on its way, so that a node said what it did not say."""
    misnamed: set[tuple[int, int]] = field(default_factory=set)
    """Epochs with leaders that only a flipped bit named."""
    misplaced: set[int] = field(default_factory=set)
    """Epochs in which a flipped bit changed who leads, or where that node is."""
    snapshotless_ids: set[int] = field(default_factory=set)
    """Nodes whose present process found no room for a snapshot."""

    def leads(self, epoch: int) -> None:
        """A stranger says that somebody leads this epoch."""
        self.epochs.add(epoch)
        self.led.add(epoch)

    @property
    def is_any(self) -> bool:
        """True once a stranger, or a flipped bit, has claimed anything."""
        return bool(self.epochs) or self.is_flipped


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

    def doubts_us(self, node: SimulatedNode) -> int:
        """For how long the others may not believe this voter that it is in a higher epoch than they.

        Where the newest committed voter set has it where it is not, nobody can ask it whether a request in its name is
        its own; then one is believed in each longest pause of `pykraft.core.epoch_budget`.
        """
        voter = self.members.committed.get(node.node_id)
        if voter is None or voter.listeners == node.config.advertised_listeners:
            return 0
        return (2 * self.scenario.quorum.election_timeout_ms << DOUBLINGS_MAX) * 1_000

    def newest_leader(self) -> Process | None:
        """The running leader of the highest epoch."""
        processes = (node.process for node in self.nodes.values() if node.process is not None)
        leaders = [process for process in processes if process.host.status.leads]
        return max(leaders, key=lambda process: process.host.status.epoch, default=None)
