"""Real faults, one after another, in the leader of a quorum under load; the journal outside is the oracle.

What `pykraft chaos` draws from a seed is done here on purpose, with what each fault must lead to. In the end of each
test nothing that was acknowledged is missing or doubled, and all logs are the same.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lab.chaos.faults import DESCRIPTORS_MAX, SILENT_CONNECTIONS, FaultInjector
from lab.chaos.ground import ChaosOptions, Ground, laid_out
from lab.chaos.loop_disks import power_problem
from lab.chaos.plan import Fault, FaultKind, FaultTarget
from lab.chaos.second_process import STORAGE_FAILED
from lab.nodes.cluster import JournalKeeper, PykraftNode
from pykraft.local.journal import JournalEvent, LeadershipEnded
from tests.processes.commands import assert_one_line, run
from tests.processes.wire import Wire

pytestmark = [pytest.mark.processes]

RECORDS = 200
MEMORY_BYTES_MAX = 256 * 1024 * 1024


class Trouble:
    """A quorum that works, and whose leader gets into trouble."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.cluster = ground.cluster
        self.faults = FaultInjector(ground)
        self.cluster.start()
        self.goes_on()

    @property
    def journal(self) -> JournalKeeper:
        return self.cluster.journal

    @property
    def leader(self) -> PykraftNode:
        return self.cluster.nodes[self.journal.leader_id()]

    def goes_on(self, *, without: PykraftNode | None = None, records: int = RECORDS) -> None:
        """Wait until so many more are acknowledged, by others than this node."""
        except_by = None if without is None else without.node_id
        self.journal.wait_for_acknowledged(records, since=self.journal.mark(), except_by=except_by)

    def finish(self) -> None:
        self.faults.heal()
        self.goes_on()
        self.cluster.end_load()
        end_offset = self.cluster.wait_until_caught_up()
        for (
            node
        ) in self.cluster.nodes.values():  # if all left gracefully at once, the leader would wait for a successor
            node.process.kill()
        verdict = self.cluster.check(caught_up_offset=end_offset)
        assert verdict.is_clean, verdict
        assert verdict.acknowledged >= 2 * RECORDS
        assert not [node for node in self.cluster.nodes.values() if "Traceback" in node.log_path.read_text()]


@contextmanager
def trouble(folder: Path, kind: FaultKind, *, nodes: int = 3, record_size_bytes: int = 100) -> Iterator[Trouble]:
    options = ChaosOptions(
        seed=1, seconds=1, kinds=(kind,), nodes=nodes, throughput=1_000, record_size_bytes=record_size_bytes
    )
    with laid_out(options, folder) as ground:
        yield Trouble(ground)


def of_the_leader(kind: FaultKind) -> Fault:
    return Fault(kind=kind, role=FaultTarget.LEADER, nth=0, begins_s=0.0, lasts_s=0.0)


def test_a_frozen_leader_is_succeeded_and_follows_when_it_goes_on(tmp_path: Path) -> None:
    with trouble(tmp_path, FaultKind.FREEZE) as quorum:
        leader = quorum.leader
        undo = quorum.faults.begin(of_the_leader(FaultKind.FREEZE), leader)
        quorum.goes_on(without=leader)
        mark = quorum.journal.mark()
        assert quorum.leader is not leader
        undo()

        def resigned(events: Sequence[JournalEvent]) -> bool:
            return any(isinstance(event, LeadershipEnded) and event.node == leader.node_id for event in events)

        quorum.journal.wait_for(resigned, f"node {leader.node_id} to hear of its successor", since=mark)
        quorum.finish()


def test_a_disk_that_is_full_ends_a_node_and_it_comes_back_when_there_is_room(tmp_path: Path) -> None:
    with trouble(tmp_path, FaultKind.FULL_DISK) as quorum:
        fault = of_the_leader(FaultKind.FULL_DISK)
        node = quorum.cluster.nodes[quorum.faults.target(fault).node_id]
        undo = quorum.faults.begin(fault, node)
        assert node.process.wait() == STORAGE_FAILED
        assert "No space left on device" in node.log_path.read_text().splitlines()[-1]
        quorum.goes_on(without=node)
        node.start()
        assert node.process.wait() == STORAGE_FAILED, "it started on a full disk"
        quorum.goes_on(without=node)
        quorum.faults.require_life()
        undo()
        quorum.journal.wait_for_started(node.node_id, since=node.start_mark, process=node.process)
        quorum.finish()


def test_a_slow_link_to_the_leader_keeps_nobody_from_committing(tmp_path: Path) -> None:
    """One voter is down to the end, so that every record takes the slow link."""
    with trouble(tmp_path, FaultKind.SLOW_LINK, record_size_bytes=200) as quorum:
        leader = quorum.leader
        down, _ = (node for node in quorum.cluster.nodes.values() if node is not leader)
        quorum.faults.begin(of_the_leader(FaultKind.KILL), down)
        slow = replace(of_the_leader(FaultKind.SLOW_LINK), bandwidth=150_000, latency_ms=20)
        undo = quorum.faults.begin(slow, leader)
        quorum.goes_on(records=2 * RECORDS)
        undo()
        quorum.finish()


def test_connections_that_are_reset_within_frames_double_nothing(tmp_path: Path) -> None:
    with trouble(tmp_path, FaultKind.RESETS) as quorum:
        undo = quorum.faults.begin(of_the_leader(FaultKind.RESETS), quorum.leader)
        quorum.goes_on(records=5 * RECORDS)
        undo()
        quorum.finish()


@pytest.mark.parametrize("is_inbound", [False, True])
def test_a_leader_that_is_cut_off_in_one_direction_is_succeeded(tmp_path: Path, is_inbound: bool) -> None:
    with trouble(tmp_path, FaultKind.ONE_WAY_CUT) as quorum:
        leader = quorum.leader
        quorum.faults.begin(replace(of_the_leader(FaultKind.ONE_WAY_CUT), is_inbound=is_inbound), leader)
        quorum.goes_on(without=leader)
        quorum.finish()


def test_a_node_with_few_descriptors_stands_many_connections(tmp_path: Path) -> None:
    assert SILENT_CONNECTIONS > DESCRIPTORS_MAX
    with trouble(tmp_path, FaultKind.FEW_DESCRIPTORS) as quorum:
        node = quorum.leader
        undo = quorum.faults.begin(of_the_leader(FaultKind.FEW_DESCRIPTORS), node)
        limits = Path(f"/proc/{node.process.pid}/limits").read_text(encoding="utf-8")
        assert [line.split()[3:5] for line in limits.splitlines() if "open files" in line] == [["256", "256"]]
        quorum.goes_on()
        quorum.faults.require_life()
        undo()
        with Wire(quorum.ground.ports[node.node_id]):
            quorum.goes_on()
        quorum.finish()


def test_what_is_acknowledged_outlives_a_power_cut_of_all(tmp_path: Path) -> None:
    """Where no power can be cut, as without root, the command refuses to try."""
    problem = power_problem(tmp_path)
    if problem is not None:
        refused = run("chaos", "--only", "power-cut-all", "--dir", str(tmp_path))
        assert_one_line(refused, 2, f"--only power-cut-all: power cuts need root and loop devices ({problem})")
        return
    with trouble(tmp_path, FaultKind.POWER_CUT_ALL) as quorum:
        quorum.goes_on()
        undo = quorum.faults.begin(of_the_leader(FaultKind.POWER_CUT_ALL), quorum.leader)
        undo()
        quorum.finish()
    assert not [
        path for path in Path("/sys/block").glob("loop*/loop/backing_file") if str(tmp_path) in path.read_text()
    ]


def test_readers_that_read_nothing_take_little_memory(tmp_path: Path) -> None:
    with trouble(tmp_path, FaultKind.SILENT_READER, record_size_bytes=10_000) as quorum:
        quorum.goes_on(records=1_000)
        leader = quorum.leader
        undo = quorum.faults.begin(of_the_leader(FaultKind.SILENT_READER), leader)
        quorum.goes_on(records=1_000)
        status = Path(f"/proc/{leader.process.pid}/status").read_text(encoding="utf-8")
        (peak_kib,) = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")]
        assert peak_kib * 1024 < MEMORY_BYTES_MAX
        undo()
        quorum.finish()
