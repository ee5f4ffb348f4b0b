"""A pykraft quorum to measure; its latencies come from the journal, one for each acknowledged batch.

Source of the load: `pykraft.server.workload`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.bench.contender import LoadedQuorum, Task
from lab.bench.running import Running
from pykraft.client.journal import Acknowledged
from pykraft.local.child import Children
from pykraft.local.cluster import Cluster
from pykraft.server.workload import UNLIMITED
from pykraft.text.words import percentiles

SHARES: Mapping[str, float] = {"p50": 0.5, "p75": 0.75, "p99": 0.99, "p999": 0.999}
LINGER = "controller.quorum.append.linger.ms"


class PykraftQuorum(Running):
    """See `lab.bench.contender.LoadedQuorum`."""

    def __init__(self, children: Children, folder: Path, task: Task) -> None:
        self.cluster = Cluster(
            children,
            folder,
            size=task.nodes,
            throughput=UNLIMITED if task.records_per_s is None else task.records_per_s,
            record_size_bytes=task.record_size_bytes,
            properties={LINGER: str(task.linger_ms)},
        )
        """Its nodes and its journal."""
        nodes = self.cluster.nodes
        super().__init__(nodes, {node_id: node.port for node_id, node in nodes.items()})
        self._record_size_bytes = task.record_size_bytes
        self._mark = 0

    def begin_window(self) -> None:
        """See `LoadedQuorum`."""
        self._mark = self.cluster.journal.mark()

    def latency_ms(self) -> Mapping[str, float]:
        """See `LoadedQuorum`."""
        return latencies_ms(self.cluster.journal.acknowledgements(since=self._mark))

    def batch_size_bytes(self) -> float | None:
        """See `LoadedQuorum`: of the values alone."""
        said = self.cluster.journal.acknowledgements(since=self._mark)
        return sum(one.count for one in said) / len(said) * self._record_size_bytes if said else None


class Ours:
    """See `lab.bench.contender.Contender`."""

    name = "pykraft"
    breaks_when_overloaded = False

    def quorum(self, children: Children, folder: Path, task: Task) -> LoadedQuorum:
        """See `Contender`."""
        return PykraftQuorum(children, folder, task)


def latencies_ms(said: Sequence[Acknowledged]) -> dict[str, float]:
    """Latencies in ms that these shares of the records did not exceed; empty without records."""
    return percentiles(((one.latency_ms, one.count) for one in said), SHARES) if said else {}
