"""Faults of processes: killed, paused, without power, of an older release, or with a wrong clock.

A kill keeps the page cache, a power loss does not; one may follow the other before anything was synced. Both can happen
at any time, also in the middle of a disk operation, during recovery or while the node closes its files. Moments that a
random crash rarely hits have kinds of their own:

- While snapshots change the disk: the fault waits for the first operation on a file of the kind, or for the turn of the
  ordered lane that removes the log before a snapshot. A few operations later the process ends.
- In the first start: what a start creates must be durable before anything relies on it, also for the next start, which
  cannot know whether what it finds was synced. The power is taken later, and nothing syncs it by chance meanwhile.

Monotonic clocks run fast or slow, and never go back; wall clocks jump.

Source: TigerBeetle's VOPR; Kafka ``RaftEventSimulationTest``; KIP-595 §Graceful shutdown; ALICE (OSDI 2014); Jepsen's
clock nemesis; for older releases KIP-996 (Vote version 2), KIP-853 and KIP-595 (former versions).
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from pykraft.core.effects import InstallSnapshot, MoveLogStart
from pykraft.log.lane import Job
from pykraft.sim.facts.facts import Facts
from pykraft.sim.faults.harm import RECOVERING, Family, Harm
from pykraft.sim.invariants.watch import Watch
from pykraft.sim.machine.clock import TRUE_RATE_PPM
from pykraft.sim.machine.dialect import KAFKA_3_8, KAFKA_3_9
from pykraft.sim.machine.disk import Interrupted
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.scenario.scenario import SNAPSHOT
from pykraft.snapshot.files import FileKind, parse_snapshot_file

TAKING, DOWNLOAD, INSTALL, CLEANING = SNAPSHOT
SNAPSHOT_OPERATIONS_MAX: Final = {TAKING: 6, DOWNLOAD: 12, INSTALL: 16, CLEANING: 8}


class SnapshotFaults(Family):
    """The kinds of faults around snapshots."""

    def __init__(self, harm: Harm) -> None:
        super().__init__(harm)
        self._planned: dict[int, dict[str, tuple[int, bool]]] = {}
        """By node and kind: after how many operations, and whether by a power loss."""
        self.kinds = {kind: partial(self._plan, kind) for kind in SNAPSHOT}

    def stop(self) -> None:
        self._planned.clear()
        for node in self._harm.facts.nodes.values():
            node.disk.on_operation = None

    def performs(self, node: SimulatedNode, jobs: Sequence[Job]) -> None:
        """The ordered lane of a node is about to carry out these jobs."""
        for job in jobs:
            if isinstance(job, InstallSnapshot):
                self._harm.happened("snapshot installed", node)
                self._reached(node, INSTALL)
            elif isinstance(job, MoveLogStart):
                self._harm.happened("log cleaned", node)
                self._reached(node, CLEANING)

    def _plan(self, kind: str) -> bool:
        rng, node = self._harm.rng, self._harm.any_node()
        if not self._harm.facts.records_between:
            return False
        planned = self._planned.setdefault(int(node.node_id), {})
        planned[kind] = (rng.randrange(SNAPSHOT_OPERATIONS_MAX[kind]), rng.random() < 0.5)
        node.disk.on_operation = partial(self._operates, node)
        return True

    def _operates(self, node: SimulatedNode, path: Path) -> None:
        file = parse_snapshot_file(path.name)
        if file is None:
            return
        if file.kind is not FileKind.PART:
            self._reached(node, CLEANING)
        else:
            self._reached(node, TAKING if file.leader_epoch is None else DOWNLOAD)

    def _reached(self, node: SimulatedNode, kind: str) -> None:
        planned = self._planned.get(int(node.node_id), {}).pop(kind, None)
        if planned is not None:
            operations, loses_power = planned
            node.disk.interrupt_within(operations, loses_power=loses_power, kind=kind)


class ClockFaults(Family):
    """The kinds of clock faults."""

    def __init__(self, harm: Harm) -> None:
        super().__init__(harm)
        self.kinds = {"clock skew": self._skew, "clock jump": self._jump}

    def stop(self) -> None:
        for node in self._harm.facts.nodes.values():
            node.clock.set_right()

    def _skew(self) -> bool:
        node, most = self._harm.any_node(), int(self._harm.pace.skew_max * TRUE_RATE_PPM)
        off_ppm = self._harm.rng.randint(-most, most)
        self._harm.hit("clock skew", node, f"has a clock that is {off_ppm / 1e4:+.1f} % off")
        node.clock.go_at(TRUE_RATE_PPM + off_ppm)
        return True

    def _jump(self) -> bool:
        node = self._harm.any_node()
        jump_ms = self._harm.within(self._harm.pace.wall_jump_ms_max) * self._harm.rng.choice((-1, 1))
        self._harm.hit("clock jump", node, f"has its wall clock set by {jump_ms:+} ms")
        node.clock.jump(jump_ms)
        return True


class VersionFaults(Family):
    """The one kind of this family."""

    def __init__(self, harm: Harm) -> None:
        super().__init__(harm)
        self.kinds = {"old version": self._exchange}

    def _exchange(self) -> bool:
        node, facts = self._harm.any_node(), self._harm.facts
        if not facts.is_formatted and not facts.members.is_dynamic and not facts.committed.end_offset:
            return False  # a release without pre-votes proves nobody (ADR 022): its operator formats all directories
        facts.members.has_pre_votes = False
        if node.dialect is None:
            node.dialect = self._harm.rng.choice((KAFKA_3_8, KAFKA_3_9))
            if self._harm.facts.members.may_change:
                node.dialect = KAFKA_3_9  # the first release that can have voters in the log
            self._harm.hit("old version", node, f"is replaced by a program that speaks like {node.dialect.name}")
        else:
            self._harm.note(node, "is upgraded")
            node.dialect = None
        if node.process is not None:
            node.kill()
        return True


FIRST_OPERATIONS_MAX: Final = 10
LATER_US_MAX: Final = 1_500_000


def plan_first_kills(facts: Facts, watch: Watch, dice: Random) -> None:
    """Draw the nodes that this happens to."""
    for node in facts.nodes.values():
        if dice.random() < facts.scenario.course.first_kill_probability and int(node.node_id) not in facts.absent:
            kill_first_start(watch, node, dice, facts.clock.after)


def kill_first_start(
    watch: Watch, node: SimulatedNode, dice: Random, later: Callable[[int, Callable[[], None]], object]
) -> None:
    """Kill the next start of this node, whose disk is empty, in the middle; ``later`` plans its power loss."""
    node.disk.interrupt_within(dice.randrange(FIRST_OPERATIONS_MAX), loses_power=False)
    later(dice.randrange(LATER_US_MAX), partial(_lose_power, watch, node))


def _lose_power(watch: Watch, node: SimulatedNode) -> None:
    watch.happened("kill then power loss", node)
    watch.trace.note(node.node_id, "loses power after it was killed in its first start")
    node.lose_power()


STORM_US_MAX = 60_000
CHAIN_US_MAX = 30_000


class ProcessFaults(Family):
    """The kinds of process faults."""

    def __init__(self, harm: Harm) -> None:
        super().__init__(harm)
        self._waits_for_commit = False
        self.kinds = {
            "kill": self._kill,
            "kill while writing": partial(self._interrupt, loses_power=False),
            "power loss": self._lose_power,
            "power loss while writing": partial(self._interrupt, loses_power=True),
            "kill then power loss": self._chain,
            "restart storm": self._storm,
            "pause": self._pause,
            "all down": partial(self._end_all, "all down", loses_power=True),
            "all killed": partial(self._end_all, "all killed", loses_power=False),
            "all down after a commit": self._await_commit,
            "resign": self._resign,
            "shutdown": self._shut_down,
            "transfer": self._transfer,
            "transfer to the dead": partial(self._transfer, is_dead=True),
        }

    def stop(self) -> None:
        self._waits_for_commit = False
        for node in self._harm.facts.nodes.values():
            node.disk.let_be()

    def committed(self) -> None:
        """A node learned of a commit: carry out a power loss of all nodes that waited for this."""
        if self._waits_for_commit:
            self._waits_for_commit = False
            self._harm.later(0, partial(self._end_all, "all down after a commit", loses_power=True))

    def interrupted(self, node: SimulatedNode, interruption: Interrupted) -> None:
        """Count a process that ended in the middle of an operation on its disk."""
        kind = "power loss while writing" if interruption.loses_power else "kill while writing"
        self._harm.happened(interruption.kind or kind, node, role=None if node.process is not None else RECOVERING)

    def _kill(self) -> bool:
        node = self._running("kill", "is killed")
        if node is not None:
            node.kill()
        return node is not None

    def _lose_power(self) -> bool:
        node = self._running("power loss", "loses power")
        if node is not None:
            node.lose_power()
        return node is not None

    def _interrupt(self, *, loses_power: bool) -> bool:
        operations = self._harm.rng.randrange(self._harm.pace.operations_max)
        self._harm.any_node().disk.interrupt_within(operations, loses_power=loses_power)
        return True

    def _chain(self) -> bool:
        """Kill the node, then take its power before or soon after the next start: only then the page cache is lost."""
        node = self._harm.any_node()
        if node.process is None:
            return False
        self._harm.note(node, "is killed, and will lose power")
        node.kill()
        self._harm.later(self._harm.rng.randrange(CHAIN_US_MAX), lambda: self._start(node))
        self._harm.later(self._harm.rng.randrange(CHAIN_US_MAX), lambda: self._end_chain(node))
        return True

    def _end_chain(self, node: SimulatedNode) -> None:
        self._harm.hit("kill then power loss", node, "loses power after a kill")
        node.lose_power()

    def _storm(self) -> bool:
        node = self._running("restart storm", "is restarted again and again")
        if node is not None:
            rng = self._harm.rng
            self._storm_on(node, rng, rng.randint(2, max(2, self._harm.pace.storm_restarts_max)))
        return node is not None

    def _storm_on(self, node: SimulatedNode, rng: Random, restarts: int) -> None:
        if node.process is not None:
            node.kill()
        self._harm.later(0, lambda: self._start(node))
        if restarts:
            self._harm.later(rng.randrange(STORM_US_MAX), lambda: self._storm_on(node, rng, restarts - 1))

    def _start(self, node: SimulatedNode) -> None:
        self._harm.world.restart(node)

    def _pause(self) -> bool:
        node = self._harm.awake_node()
        if node is None:
            return False
        assert node.process is not None
        duration_us = self._harm.within(self._harm.pace.pause_us_max)
        self._harm.hit("pause", node, f"stands still for {duration_us / 1e3:.0f} ms")
        node.process.pause(duration_us)
        return True

    def _await_commit(self) -> bool:
        is_news = not self._waits_for_commit
        self._waits_for_commit = True
        return is_news

    def _end_all(self, kind: str, *, loses_power: bool) -> bool:
        running = [node for node in self._harm.facts.nodes.values() if node.process is not None]
        if not running:
            return False
        self._harm.happened(kind, *running)
        self._harm.note(None, "the power of all nodes goes" if loses_power else "all nodes are killed")
        for node in running:
            (node.lose_power if loses_power else node.kill)()
        return True

    def _resign(self) -> bool:
        leader = self._harm.facts.newest_leader()
        if leader is None or leader.is_paused:
            return False
        node = self._harm.facts.nodes[leader.node_id]
        self._harm.happened("resign", node)
        self._harm.world.watch.touch(node)
        leader.host.resign(leader.host.status.epoch, node.clock.instant)
        return True

    def _shut_down(self) -> bool:
        node = self._harm.awake_node()
        if node is None:
            return False
        assert node.process is not None
        self._harm.hit("shutdown", node, "is asked to leave")
        self._harm.world.watch.touch(node)
        node.process.is_leaving = True
        node.process.host.shutdown(self._harm.pace.shutdown_ms, node.clock.instant)
        return True

    def _transfer(self, *, is_dead: bool = False) -> bool:
        world, leader = self._harm.world, self._harm.facts.newest_leader()
        if leader is None or leader.is_paused:
            return False
        node = world.facts.nodes[leader.node_id]
        others = [node_id for node_id in leader.host.status.voters.ids if node_id != leader.node_id]
        if not others:
            return False
        target = world.facts.nodes[int(self._harm.rng.choice(others))]
        if is_dead:
            if target.process is None:
                return False
            # Killed right before the request, so that its last Fetch is recent and the leader does not refuse at once.
            self._harm.happened("transfer to the dead", target)
            target.kill()

        def answered(error: Exception | None) -> None:
            self._harm.note(node, f"is asked to let {target.node_id} lead: {error or 'it does'}")
            if error is None:
                self._harm.happened("transfer", target)

        world.watch.touch(node)
        leader.host.transfer_leadership(
            target.node_id,
            epoch=leader.host.status.epoch,
            timeout_ms=self._harm.pace.shutdown_ms,
            now=node.clock.instant,
            on_outcome=answered,
        )
        return True

    def _running(self, kind: str, text: str) -> SimulatedNode | None:
        node = self._harm.any_node()
        if node.process is None:
            return None
        self._harm.hit(kind, node, text)
        return node
