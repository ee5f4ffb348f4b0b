"""A replica on a real directory that states at each moment what a power loss must preserve.

`Told` is what it says: before a call that changes something, both states are allowed; after the call returned, only the
new one. The jobs go through `OrderedLane`, as those of a running node do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from random import Random
from typing import TypeAlias

from pykraft.config import LogSettings, NodeConfig
from pykraft.core.effects import WriteElectionState
from pykraft.host.open import Opened, open_node
from pykraft.log.fs import Fs
from pykraft.log.lane import AppendBytes, Job
from pykraft.types import Election, Epoch, Io, NodeId, ReplicaKey
from tests.host.fakes import config
from tests.log.logs import Batch, content

Check: TypeAlias = Callable[[Opened], bool]
SMALL = LogSettings(
    segment_size_bytes=1_500, index_interval_bytes=300, index_size_bytes_max=240, scrub_bytes_per_s_max=0
)
"""Segments of a few batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """From this number of system calls on ``check`` holds of the recovered node, until ``topic`` is told anew."""

    calls_count: int
    topic: str
    what: str
    check: Check


def replica_config(top: Path) -> NodeConfig:
    """A voter of three, whose log directory has yet to be made."""
    return replace(config(1), log_dir=top / "data", log=SMALL)


@dataclass(frozen=True, slots=True)
class Holding:
    """A log that begins at ``start`` and holds the first batches of ``batches``, at least those before ``until``."""

    start: int
    batches: tuple[Batch, ...]
    until: int

    def holds(self, node: Opened) -> bool:
        """True when the recovered log is such a log."""
        found = content(node.log)
        wanted = [(header, data) for header, data in self.batches if header.base_offset >= self.start]
        least = sum(header.base_offset < self.until for header, _ in wanted)
        is_prefix = found == [data for _, data in wanted[: len(found)]]
        return node.log.start_offset == self.start and is_prefix and len(found) >= least


class Replica:
    """A node that is written to, and its promises so far."""

    def __init__(self, fs: Fs, node_config: NodeConfig, tell: Callable[[str, str, Check], None]) -> None:
        self.fs = fs
        self.config = node_config
        self.tell = tell
        self.batches: list[Batch] = []
        self.start = 0
        self._io = count(1)
        self._election: Election | None = None
        self.node = open_node(fs, node_config, Random(1))

    @property
    def partition(self) -> Path:
        """The directory of the log."""
        return self.config.partition_directory

    @property
    def end(self) -> int:
        """The log's end, as it was told."""
        return self.batches[-1][0].end_offset if self.batches else self.start

    def perform(self, *jobs: Callable[[Io], Job]) -> None:
        """Give these jobs, which take their number, to the ordered lane."""
        self.node.lane.perform([job(Io(next(self._io))) for job in jobs])

    def tell_log(self, what: str, *holdings: Holding) -> None:
        """The log is one of these."""
        self.tell("log", what, lambda node: any(each.holds(node) for each in holdings))

    def holding(self) -> Holding:
        """The log as it was told, all of it durable."""
        return Holding(self.start, tuple(self.batches), self.end)

    def append(self, *batches: Batch) -> None:
        """One group of appends."""
        before = self.end
        self.batches += batches
        self.tell_log(f"batches up to {before} and perhaps more", replace(self.holding(), until=before))
        self.perform(lambda io: AppendBytes(io=io, batches=batches))
        self.tell_log(f"batches up to {self.end}", self.holding())

    def elect(self, epoch: int, *, voted: int | None = None, leader: int | None = None) -> None:
        """Write an election."""
        before = self._election
        election = self._election = Election(
            epoch=Epoch(epoch),
            leader_id=None if leader is None else NodeId(leader),
            voted=None if voted is None else ReplicaKey(NodeId(voted)),
        )
        self.tell("election", f"{before} or {election}", lambda node: node.election in {before, election, Election()})
        voters = self.config.voters.ids
        self.perform(lambda io: WriteElectionState(io=io, election=election, voters=voters, kraft_version=0))
        self.tell("election", f"{election}", lambda node: node.election == election)

    def kill(self) -> None:
        """The process ends, and its locks with it; nothing is synced."""
        self.node.elections.close()
        self.node.directory.release()

    def start_again(self) -> None:
        """Open the node anew. What it then shows, it has made durable."""
        self.node = open_node(self.fs, self.config, Random(1))
        self._io = count(1)
        self.tell_log(f"batches up to {self.end}, which the next start showed", self.holding())

    def stop(self) -> None:
        """Close in order."""
        self.node.close()


@dataclass(slots=True)
class Promises:
    """All that was told, in order."""

    calls: Sequence[object]
    told: list[Told] = field(default_factory=list)

    def tell(self, topic: str, what: str, check: Check) -> None:
        """From the calls made so far on, this holds."""
        self.told.append(Told(calls_count=len(self.calls), topic=topic, what=what, check=check))

    def at(self, calls_count: int) -> dict[str, Told]:
        """What holds when the power goes after so many calls: of each topic what was told last."""
        return {each.topic: each for each in self.told if each.calls_count <= calls_count}
