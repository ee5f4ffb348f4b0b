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
- *replaced machine*: a new machine joins, the old one is removed, and goes for good when nothing depends on it any more
  (`_may_go`); all machines twice, one by one, while observers know the first list only (`Members.first_list_only`).
  An observer that was off while every voter of its log was replaced can find nobody: no protocol can promise more. So
  the last of them waits until the log of each observer names another one; then every observer gets everything
  (`Healing`).

A node with ``controller.quorum.auto.join.enable`` joins without an operator, and comes back after a removal.

Source: KIP-853 (``kafka-metadata-quorum add-controller``, ``remove-controller``), KIP-1186; ours (ADR 048).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from pykraft.core.messages import AddVoterRequest, ChangeVoterResponse, RemoveVoterRequest
from pykraft.errors import ErrorCode
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import frame as framed
from pykraft.rpc import codec
from pykraft.security.principal import ANONYMOUS
from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.members import VoterRequest, replace_disk
from pykraft.sim.faults.harm import Family, Harm
from pykraft.sim.invariants.watch import Watch
from pykraft.sim.machine.node import Process, SimulatedNode
from pykraft.sim.scenario.scenario import MACHINES
from pykraft.sim.scenario.settings import LISTENER, moved, rpc_context
from pykraft.types import ReplicaKey, VoterSet

_VERSIONS: Final[Mapping[type[AddVoterRequest | RemoveVoterRequest], int]] = {AddVoterRequest: 1, RemoveVoterRequest: 0}


class OperatorStation:
    """Asks the leader over the network, as any client would; it is not a node.

    No fault cuts its connections, but they break with the process at the other end. A paused process may carry one
    out when nobody waits any more. So a request is open until it is answered, or its process has ended.
    """

    node_id = 0
    port = 0

    def __init__(self, facts: Facts, watch: Watch) -> None:
        self._facts = facts
        self._watch = watch
        self._asked: dict[ConnectionId, VoterRequest] = {}
        self._context = rpc_context(next(iter(facts.nodes.values())).config)
        self.principal = ANONYMOUS
        facts.network.attach(self)

    def ask(
        self, process: Process, message: AddVoterRequest | RemoveVoterRequest, then: Callable[[VoterRequest], None]
    ) -> VoterRequest:
        """Send a request to this process; ``then`` is called with the answer, or when the connection breaks."""
        asked = VoterRequest(message=message, process=process, then=then, since=self._facts.committed.end_offset)
        endpoint = self._facts.nodes[process.node_id].config.advertised_listeners.get(LISTENER)
        assert endpoint is not None
        self._asked[self._facts.network.dial(self, endpoint)] = asked
        return asked

    def accepted(self, connection: ConnectionId) -> None:
        """Never called: nobody dials an operator."""
        raise AssertionError(f"somebody dials the operator: {connection}")

    def connected(self, connection: ConnectionId) -> None:
        asked = self._asked[connection]
        self._watch.asked(asked)
        message = asked.message
        request = codec.encode_request(message, _VERSIONS[type(message)], 1, "operator", self._context)
        self._facts.network.send(connection, framed(request))

    def closed(self, connection: ConnectionId, *, is_refused: bool = False) -> None:
        """The connection broke: nobody will know whether the request was carried out."""
        del is_refused
        asked = self._asked.pop(connection, None)
        if asked is not None:
            self._watch.answered(asked)
            asked.then(asked)

    def received(self, connection: ConnectionId, frame: bytes) -> None:
        asked = self._asked.pop(connection)
        key, version = codec.api_key_of(asked.message), _VERSIONS[type(asked.message)]
        answer = codec.decode_answer(key, version, frame, self._context).message
        assert isinstance(answer, ChangeVoterResponse), f"the operator is answered {answer}"
        asked.answer = ErrorCode(answer.error)
        self._watch.trace.absorb(frame)
        self._facts.network.close(connection)
        self._watch.answered(asked)
        asked.then(asked)


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
            status = process.host.status
            # Behind damage its log may name voters that it cannot read, so it knows a leader and not where that is.
            is_lost = status.role == "unattached" and facts.absent.issuperset(status.voters.ids)
            # Without its newest sectors an observer may wait for the leader of long ago, on a machine that is gone.
            if status.leader_id is not None and int(status.leader_id) not in facts.absent and not is_lost:
                continue
            if is_lost or not members.knows_a_voter(node):
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


ROUNDS: Final = 2
AWAY_PROBABILITY: Final = 0.2
AWAY_US: Final = (200_000, 5_000_000)


class MachineFaults(Family):
    """The one kind of this family."""

    def __init__(self, harm: Harm, membership: MembershipFaults) -> None:
        super().__init__(harm)
        self._membership = membership
        self._rounds = 0
        self._old: list[SimulatedNode] = []
        """Machines that are still to be replaced in this round."""
        self._is_busy = False
        self._away: set[int] = set()
        """Observers that are switched off."""
        (self._kind,) = MACHINES
        self.kinds = {self._kind: self._act}

    def stop(self) -> None:
        """Let observers come back that are switched off; machines that are to be replaced stay."""
        self._harm.facts.absent.difference_update(self._away)

    def _act(self) -> bool:
        is_away = self._rng.random() < AWAY_PROBABILITY
        return self._switch_off() if is_away else self._replace()

    def _switch_off(self) -> bool:
        """The observer ends in one of two ways, and does not start before it is switched on again."""
        facts = self._harm.facts
        found = [facts.nodes[node_id] for node_id in sorted(facts.members.first_list_only - self._away)]
        if not found:
            return False
        node = self._rng.choice(found)
        self._away.add(int(node.node_id))
        self._end(node, "is switched off")
        self._harm.later(self._rng.randint(*AWAY_US), lambda: self._switch_on(node))
        return True

    def _switch_on(self, node: SimulatedNode) -> None:
        self._away.discard(int(node.node_id))
        self._harm.facts.absent.discard(int(node.node_id))
        self._harm.world.restart(node)

    def _replace(self) -> bool:
        """Begin to replace a machine, one at a time; a second round replaces the machines of the first one."""
        world, facts = self._harm.world, self._harm.facts
        if self._is_busy or not facts.members.is_at_level_one:
            return False
        if not self._old and self._rounds < ROUNDS:
            if not self._rounds:
                facts.members.let_observers_know_first_list()
            self._rounds += 1
            voters = facts.voters()
            self._old = self._rng.sample(voters, len(voters))
        if not self._old:
            return False
        old, new = self._old.pop(), world.newcomer()
        self._is_busy = True
        self._harm.note(new, f"is to replace machine {old.node_id}")

        def is_voter() -> None:
            # 2. Only now, so that the quorum never has a voter less than before.
            self._membership.remove("removal", old, old.key, lambda: self._go(old))

        # 1. The leader refuses to add it before it has caught up, and is asked again.
        new.start()
        self._membership.add("new voter", new, is_voter)
        return True

    def _go(self, old: SimulatedNode) -> None:
        # 3. Until then it runs on as an observer.
        if not self._may_go(old):
            self._harm.later(RETRY_US, lambda: self._go(old))
            return
        self._harm.happened(self._kind, old)
        self._end(old, "is gone for good")
        self._is_busy = False

    def _may_go(self, old: SimulatedNode) -> bool:
        """Whether each voter set keeps its majority, and each observer somebody to ask."""
        facts = self._harm.facts
        observers = [facts.nodes[node_id] for node_id in facts.members.first_list_only]
        return facts.atlas.may_damage(old) and all(facts.members.knows_a_voter(each, without=old) for each in observers)

    def _end(self, node: SimulatedNode, text: str) -> None:
        self._harm.note(node, text)
        self._harm.facts.absent.add(int(node.node_id))
        if self._rng.random() < 1 / 2:
            node.kill()
        else:
            node.lose_power()
