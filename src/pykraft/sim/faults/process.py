"""Process faults: processes that are killed, pause, crash repeatedly or leave; and power losses.

A kill keeps the page cache, a power loss does not; one may follow the other before anything was synced. Both can happen
at any time, also in the middle of a disk operation, during recovery or while the node closes its files.

Source: TigerBeetle's VOPR; KIP-595 §Graceful shutdown; Kafka ``RaftEventSimulationTest``.
"""

from __future__ import annotations

from functools import partial
from random import Random

from pykraft.sim.faults.harm import RECOVERING, Act, Harm
from pykraft.sim.machine.disk import Interrupted
from pykraft.sim.machine.node import SimulatedNode

STORM_US_MAX = 60_000
CHAIN_US_MAX = 30_000


class ProcessFaults:
    """The kinds of process faults."""

    def __init__(self, harm: Harm) -> None:
        self._harm = harm
        self._waits_for_commit = False
        self.kinds: dict[str, Act] = {
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
        """Cancel what was planned."""
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
        """Kill the node at each start, again and again."""
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
        """Transfer the leadership to any other voter; counted when that voter leads. ``is_dead`` kills the target."""
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

        def told(error: Exception | None) -> None:
            self._harm.note(node, f"is asked to let {target.node_id} lead: {error or 'it does'}")
            if error is None:
                self._harm.happened("transfer", target)

        world.watch.touch(node)
        leader.host.transfer_leadership(
            target.node_id,
            epoch=leader.host.status.epoch,
            timeout_ms=self._harm.pace.shutdown_ms,
            now=node.clock.instant,
            on_outcome=told,
        )
        return True

    def _running(self, kind: str, text: str) -> SimulatedNode | None:
        """A random node, if it runs; counts the fault for it."""
        node = self._harm.any_node()
        if node.process is None:
            return None
        self._harm.hit(kind, node, text)
        return node
