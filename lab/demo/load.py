"""Runs the load of the demo: reports progress, kills the leader in its second half, and ends the load.

Invariant: if a node, Spark or the stream ends, this is noticed and reported within a second.

Source: KIP-595: no acknowledged record is lost, whichever node is killed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from lab.demo.live_tables import LiveTables
from lab.demo.options import DemoOptions
from lab.demo.start import look_after
from lab.demo.story import Kill
from pykraft.client.journal import Acknowledged
from pykraft.local.cluster import Cluster
from pykraft.local.progress import ReportProgress
from pykraft.text.words import counted

POLL_S = 0.25
LATE_S_MAX = 60.0
"""The load may last this much longer than requested, so that the leader is killed while the stream runs."""


@dataclass(slots=True, kw_only=True)
class DemoLoad:
    """Stages 2 to 4 of the demo (see `lab.demo.run`); ``seconds`` is how long the load lasted."""

    cluster: Cluster
    tables: LiveTables
    options: DemoOptions
    folder: Path
    tell: ReportProgress
    kill: Kill | None = None
    seconds: float = 0.0
    begin_wall_ms: int = 0
    end_wall_ms: int = 0
    _seen: int = 0
    _acknowledged: int = 0

    def run(self) -> None:
        """Stages 2 and 3. The load lasts longer than requested by the time until the first rows are in the tables."""
        begun_s = time.monotonic()
        self.begin_wall_ms = _wall_ms()
        half_s = self.options.seconds / 2
        self._wait(half_s)
        if not self.tables.batches:
            longer = f"up to {LATE_S_MAX:g} s longer than {self.options.seconds:g} s"
            self.tell(f"waiting for {self.tables.awaited}; until then the load goes on, {longer}")
        while not self.tables.batches and time.monotonic() - begun_s < half_s + LATE_S_MAX:
            self._wait(POLL_S)
        late_s = time.monotonic() - begun_s - half_s
        if self.options.kill_leader:
            self.kill = self._kill_leader()
        self._wait(begun_s + self.options.seconds + late_s - time.monotonic())
        self.seconds = time.monotonic() - begun_s
        self.end_wall_ms = _wall_ms()

    def end(self) -> int:
        """Stage 4; returns the offset below which all replicas and tables have everything."""
        self.tell("stopping the load; waiting until all replicas and the tables hold every acknowledged record")
        self.cluster.end_load()
        end_offset = self.cluster.wait_until_caught_up()
        self.tables.wait_for(end_offset, self._watch)
        return end_offset

    def _kill_leader(self) -> Kill:
        """Kill the leader with kill -9, wait until another node acknowledges, and restart it."""
        journal = self.cluster.journal
        victim = self.cluster.nodes[journal.leader_id()]
        mark = journal.mark()
        killed_wall_ms = _wall_ms()
        victim.process.kill()
        self.tell(f"node {victim.node_id} was killed with kill -9")
        others = [node.process for node in self.cluster.nodes.values() if node is not victim]
        led = journal.wait_for_leader(since=mark, alive=others)
        elected_wall_ms = _wall_ms()
        journal.wait_for_acknowledged(1, since=mark, except_by=victim.node_id)
        first = next(said for said in journal.acknowledgements(since=mark) if said.node != victim.node_id)
        victim.start()
        kill = Kill(
            node_id=victim.node_id,
            killed_wall_ms=killed_wall_ms,
            leader_id=led.node,
            epoch=led.epoch,
            elected_wall_ms=elected_wall_ms,
            acknowledged_wall_ms=first.wall_ms,
            restarted_wall_ms=_wall_ms(),
        )
        self.tell(f"node {first.node} leads epoch {first.epoch} and acknowledges, {kill.failover_ms:,} ms later")
        self.tell(f"node {victim.node_id} is restarted")
        return kill

    def _wait(self, seconds: float) -> None:
        """Let the load run. Errors: as `_watch`."""
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            time.sleep(min(POLL_S, left_s))
            self._watch()

    def _watch(self) -> None:
        """Report the progress. Errors: LocalQuorumError or StorageError if a node, Spark or the stream has ended."""
        look_after(self.cluster, self.folder)
        self.tables.check()
        events, batches = self.cluster.journal.events(since=self._seen), self.tables.batches
        self._seen += len(events)
        self._acknowledged += sum(event.count for event in events if isinstance(event, Acknowledged))
        text = f"{counted(self._acknowledged, 'record')} acknowledged"
        if batches:
            last = batches[-1]
            text += f", {last.end_offset:,} in the tables, micro-batch {last.batch_id} took {last.duration_ms:,} ms"
        else:
            text += f", waiting for {self.tables.awaited}"
        self.tell(text, is_passing=True)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
