"""What a node needs of its world, and the observer that it tells what happens to it.

An observer is called at the moment that its method names, and changes nothing in the node unless the method says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pykraft.config import NodeConfig
from pykraft.core.effects import Report
from pykraft.errors import StorageError
from pykraft.log.lane import Job
from pykraft.sim.machine.clock import Clock
from pykraft.sim.machine.disk import Interrupted
from pykraft.sim.machine.network import Network
from pykraft.sim.machine.spoken import Spoken
from pykraft.sim.machine.trace import Trace
from pykraft.sim.scenario.scenario import Storage

N_contra = TypeVar("N_contra", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all nodes of a world share."""

    clock: Clock
    network: Network
    trace: Trace
    storage: Storage
    """How disks behave and how long they take."""
    bulk_factor: int
    """How many times as long a turn of the bulk lane takes as one of the ordered lane."""


class NodeObserver(Protocol[N_contra]):
    """Called for everything that happens to a node; the type parameter is the node's own class."""

    def touch(self, node: N_contra) -> None:
        """The present event concerns this node."""

    def starting(self, node: N_contra) -> None:
        """The program is about to start, from what the disk holds."""

    def configured(self, node: N_contra) -> NodeConfig:
        """The configuration for its next process."""

    def started(self, node: N_contra) -> None:
        """A process begins, after its recovery and before its first step; the observer sets the node's ledger."""

    def power_goes(self, node: N_contra) -> None:
        """The node is about to lose power: from now on its files are what the platter holds."""

    def process_ended(self, node: N_contra) -> None:
        """A process ended, or did not get through its recovery."""

    def interrupted(self, node: N_contra, interruption: Interrupted) -> None:
        """A process ended in the middle of an operation on its disk."""

    def disk_failed(self, node: N_contra, error: StorageError) -> None:
        """A program ended with this storage error; the disk may be replaced now."""

    def durable_epoch(self, node: N_contra) -> int:
        """The epoch that a power loss now would leave on this node."""

    def performs(self, node: N_contra, jobs: Sequence[Job]) -> None:
        """The ordered lane is about to carry out these jobs; it may be interrupted in the middle."""

    def stopped(self, node: N_contra, error: Exception | None) -> None:
        """A program stopped, with an error or (None) after a shutdown."""

    def woken(self, node: N_contra) -> None:
        """The timer that the host set rings."""

    def dialed(self, node: N_contra, target_id: int) -> None:
        """The node dials another one."""

    def before_send(self, node: N_contra, spoken: Spoken) -> None:
        """A frame of the quorum is about to leave."""

    def submitted(self, node: N_contra, job: Job) -> None:
        """The host submits a storage job; the node's ledger does not hold it yet."""

    def persisted(self, node: N_contra) -> None:
        """Every storage job is done."""

    def reported(self, node: N_contra, report: Report) -> None:
        """The host reports something to its operator."""
