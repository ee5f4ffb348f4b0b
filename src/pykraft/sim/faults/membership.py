"""Membership faults: voters join, leave, move, or get another disk, as an operator of a dynamic quorum arranges it.

Each change takes a while, because leaders come and go, and because a leader rejects a change while another one is under
way. The operator repeats the request until it is done or the faults end, and requests several changes at a time, which
a leader has to reject. It asks the atlas first, so that it never leaves the quorum without a majority of intact voters
that can be reached.

- *new voter*: a node with an empty disk, formatted without initial controllers, starts, catches up, and is added.
- *promotion*: an observer is added.
- *removal*, *leader removal*: a voter becomes an observer, and may come back.
- *replaced disk*: a voter comes back with nothing but another directory id, as an observer; the old one is removed,
  the new one added.
- *moved voter*: a voter starts at another address, and tells its leader.
- *cut after voters*: a leader is cut off right after it has appended a voter set.
- *upgrade*: kraft.version goes from 0 to 1, and the configured voters into the log.

A node with ``controller.quorum.auto.join.enable`` joins without an operator, and comes back after a removal.

Source: KIP-853, KIP-1186; Kafka's ``RaftEventSimulationTest`` has none of this.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from pykraft.core.messages import AddVoterRequest, RemoveVoterRequest
from pykraft.errors import ErrorCode
from pykraft.sim.clients.admin import OperatorStation
from pykraft.sim.facts.members import VoterRequest, replace_disk
from pykraft.sim.faults.harm import Family, Harm
from pykraft.sim.machine.node import Process, SimulatedNode
from pykraft.sim.scenario.settings import moved
from pykraft.types import ReplicaKey, VoterSet

RETRY_US: Final = 150_000
CORRECTION_US: Final = 1_000_000
TIMEOUT_MS: Final = 500
UPGRADED: Final = 1


class MembershipFaults(Family):
    """The kinds of membership faults."""

    def __init__(self, harm: Harm) -> None:
        super().__init__(harm)
        self._admin: OperatorStation | None = None
        self._newcomers = 0
        self._requests = harm.facts.requests
        self.kinds = {
            "new voter": self._come,
            "promotion": self._promote,
            "removal": partial(self._leave, "removal", leads=False),
            "leader removal": partial(self._leave, "leader removal", leads=True),
            "cut after voters": self._await_voters,
            "replaced disk": self._replace,
            "moved voter": self._move,
            "upgrade": self._upgrade,
        }
        self._cuts_after_voters = False

    def stop(self) -> None:
        """Stop all requests."""
        self._requests.stop()
        self._cuts_after_voters = False
        if self._harm.facts.members.may_change:
            self._harm.facts.clock.after(CORRECTION_US, self._correct_addresses)

    def _correct_addresses(self) -> None:
        """Restart nodes that find no leader because they were started with addresses that are out of date.

        An observer that shall do with the first list gets another one if all voters that its log names are gone.
        """
        facts, members = self._harm.facts, self._harm.facts.members
        for node in facts.nodes.values():
            process = node.process
            if process is None:
                continue
            # Without its newest sectors an observer may wait for the leader of long ago, on a machine that is gone.
            leader_id = process.host.status.leader_id
            if leader_id is not None and int(leader_id) not in facts.absent:
                continue
            if not members.knows_a_voter(node):
                members.first_list_only.discard(int(node.node_id))
            if process.bootstrap != members.with_bootstrap(node.config).bootstrap_servers:
                self._harm.note(node, "is started anew with the present addresses")
                node.kill()
        facts.clock.after(CORRECTION_US, self._correct_addresses)

    def voters_appended(self, leader: SimulatedNode) -> None:
        """If ``cut after voters`` is planned, cut off this leader, which has just appended a voter set."""
        if not self._cuts_after_voters:
            return
        self._cuts_after_voters = False
        self._harm.hit("cut after voters", leader, "is cut off with a voter set that nobody else has")
        for other in self._harm.facts.nodes:
            self._harm.facts.network.cut(int(leader.node_id), other)
            self._harm.facts.network.cut(other, int(leader.node_id))

    def voters_committed(self, was: VoterSet, now: VoterSet) -> None:
        """Count new voters that nobody asked to add: they joined by themselves."""
        nodes = self._harm.facts.nodes
        for voter in now.voters:
            node = nodes[int(voter.key.id)]
            if not was.is_voter(voter.key) and was.get(voter.key.id) is None and node not in self._requests.joining:
                self._harm.happened("auto join", node)

    def _await_voters(self) -> bool:
        is_news = not self._cuts_after_voters and self._harm.facts.members.may_change
        self._cuts_after_voters |= is_news
        return is_news

    def _come(self) -> bool:
        world = self._harm.world
        if self._newcomers >= world.facts.scenario.membership.newcomers_max:
            return False
        self._newcomers += 1
        node = world.newcomer()
        self._harm.note(node, "is a new node")
        node.start()
        self.add("new voter", node)
        return True

    def _promote(self) -> bool:
        facts = self._harm.facts
        voting = facts.voters()
        others = [node for node in facts.nodes.values() if node not in voting and node not in self._requests.joining]
        if not others or not facts.members.may_change:
            return False
        self.add("promotion", self._harm.rng.choice(others))
        return True

    def _leave(self, kind: str, *, leads: bool) -> bool:
        facts, leader = self._harm.facts, self._harm.facts.newest_leader()
        choice = [
            node for node in facts.voters() if (node.process is leader) is leads and node not in self._requests.leaving
        ]
        if not choice or leader is None or not facts.members.may_change:
            return False
        node = self._harm.rng.choice(choice)
        if not facts.atlas.may_leave(node):
            return False
        self.remove(kind, node, node.key)
        return True

    def _replace(self) -> bool:
        """1. An empty disk; 2. the old directory id is removed; 3. the new one is added."""
        node = self._any_known_voter()
        if node is None:
            return False
        key = node.key
        self._harm.note(node, "is given an empty disk, and another directory id")
        self._harm.happened("replaced disk", node)
        replace_disk(node)
        if node.key != key:
            self._harm.world.watch.wiped(node)
        if not node.config.raft.auto_join:
            self.remove("removal", node, key, lambda: self.add("promotion", node))
        return True

    def _move(self) -> bool:
        """The node tells its leader its new address; until then the atlas counts it as unreachable."""
        node = self._any_known_voter()
        if node is None:
            return False
        self._harm.happened("moved voter", node)
        node.config = moved(node.config)
        self._harm.note(node, f"moves to {node.config.advertised_listeners.entries[0][1]}")
        if node.process is not None:
            node.kill()
        return True

    def _upgrade(self) -> bool:
        if self._harm.facts.members.electorate.records:
            return False
        self._ask_for_upgrade()
        return True

    def _ask_for_upgrade(self) -> None:
        world, leader = self._harm.world, self._harm.facts.newest_leader()
        if world.facts.members.committed_record is not None:
            return
        self._harm.later(RETRY_US, self._ask_for_upgrade)
        if leader is None or leader.is_paused:
            return
        node = world.facts.nodes[leader.node_id]

        def answered(error: Exception | None) -> None:
            self._harm.note(node, f"is asked for kraft.version 1: {error or 'it is in the log'}")
            if error is None and leader.host.status.kraft_version == UPGRADED:
                self._harm.happened("upgrade", node)

        world.watch.touch(node)
        if leader.host.status.kraft_version < UPGRADED:
            leader.host.upgrade_kraft_version(
                UPGRADED, epoch=leader.host.status.epoch, now=node.clock.instant, on_outcome=answered
            )

    def add(self, kind: str, node: SimulatedNode, done: Callable[[], None] = lambda: None) -> None:
        """Ask until the node is a voter; ``done`` is called then, unless the faults are over."""
        self._requests.adding[node] += 1
        self._add(kind, node, done)

    def _add(self, kind: str, node: SimulatedNode, done: Callable[[], None]) -> None:
        facts = self._harm.facts
        leader = facts.newest_leader()
        if leader is None or node.key.directory_id is None or not facts.atlas.may_join(node):
            self._harm.later(RETRY_US, lambda: self._add(kind, node, done))
            return
        message = AddVoterRequest(
            voter=node.key, listeners=node.config.advertised_listeners, timeout_ms=TIMEOUT_MS, ack_when_committed=True
        )

        def then(asked: VoterRequest) -> None:
            if asked.answer not in {ErrorCode.NONE, ErrorCode.DUPLICATE_VOTER}:
                self._harm.later(RETRY_US, lambda: self._add(kind, node, done))
                return
            self._requests.adding[node] -= 1
            if asked.answer == ErrorCode.NONE:
                self._harm.happened(kind, node)
            done()

        self._ask(leader, node, message, then)

    def remove(self, kind: str, node: SimulatedNode, key: ReplicaKey, done: Callable[[], None] = lambda: None) -> None:
        """Ask until the node is no longer a voter; ``done`` is called then, unless the faults are over."""
        self._requests.removing[node] += 1
        self._remove(kind, node, key, done)

    def _remove(self, kind: str, node: SimulatedNode, key: ReplicaKey, done: Callable[[], None]) -> None:
        facts = self._harm.facts
        leader = facts.newest_leader()
        if leader is None or not facts.atlas.may_leave(node):
            self._harm.later(RETRY_US, lambda: self._remove(kind, node, key, done))
            return

        def then(asked: VoterRequest) -> None:
            if asked.answer not in {ErrorCode.NONE, ErrorCode.VOTER_NOT_FOUND}:
                self._harm.later(RETRY_US, lambda: self._remove(kind, node, key, done))
                return
            self._requests.removing[node] -= 1
            if asked.answer == ErrorCode.NONE:
                self._harm.happened(kind, node)
            done()

        self._ask(leader, node, RemoveVoterRequest(voter=key), then)

    def _ask(
        self,
        leader: Process,
        node: SimulatedNode,
        message: AddVoterRequest | RemoveVoterRequest,
        then: Callable[[VoterRequest], None],
    ) -> None:
        if self._admin is None:
            self._admin = OperatorStation(self._harm.facts, self._harm.world.watch)

        def answered(asked: VoterRequest) -> None:
            what = "be a voter" if asked.adds else "be no voter any more"
            outcome = asked.answer.name if asked.answer is not None else "nobody knows"
            self._harm.note(node, f"is to {what}, says the operator to {leader.node_id}: {outcome}")
            if not self._harm.is_over:
                then(asked)

        self._requests.sent(node, self._admin.ask(leader, message, answered))

    def _any_known_voter(self) -> SimulatedNode | None:
        facts = self._harm.facts
        choice = [node for node in facts.voters() if self._is_known_by_key(node) and facts.atlas.may_damage(node)]
        return self._harm.rng.choice(choice) if choice else None

    def _is_known_by_key(self, node: SimulatedNode) -> bool:
        """True when every voter set that counts either knows the directory id of this node or lacks the node."""
        entries = (voters.get(node.node_id) for voters in self._harm.facts.members.in_force())
        return all(entry is None or entry.key.directory_id is not None for entry in entries)
