"""Network faults: links that are cut, flap or are slow; connections that break; frames that come late.

`pykraft.sim.machine.network` explains loss, duplication and reordering on streams. An old Fetch lies in a buffer while
its sender goes on to a newer epoch, and arrives after that. Meanwhile the leader that it goes to is cut off from all
other nodes, so it still believes that it leads.

Source: FoundationDB's swizzle-clogging; Kafka ``RaftEventSimulationTest`` (star partition); KIP-996.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from random import Random

from pykraft.protocol.messages import ApiKey
from pykraft.sim.faults.harm import Family, Harm
from pykraft.sim.machine.network import NOT_SLOW, End, Network, Slowness
from pykraft.sim.machine.node import SimulatedNode

FLAP_US_MAX = 60_000
LINGER_US_MAX = 200_000
TRICKLE_BYTE_US = 100_000
POLL_US = 20_000
POLLS_MAX = 150
_FETCH_BYTES = ApiKey.FETCH.to_bytes(2, "big")


class NetworkFaults(Family):
    """The kinds of network faults."""

    def __init__(self, harm: Harm) -> None:
        super().__init__(harm)
        self.kinds = {
            "isolated": self._isolate,
            "one-way cut": self._cut_one_way,
            "split": self._split,
            "star": self._star,
            "flapping": self._flap,
            "flapping connections": self._break_often,
            "refused connections": self._refuse,
            "heal": self._heal,
            "slow link": partial(self._slow, "slow link"),
            "trickle": self._trickle,
            "delay": partial(self._slow, "delay"),
            "lost frames": self._lose,
            "duplicated request": self._duplicate,
            "reordered frames": self._reorder,
            "old fetch": self._make_old_fetch,
        }

    def stop(self) -> None:
        """Restore all links to their usual speed, and release what is held back."""
        self._network.calm()
        self._network.heal()

    @property
    def _network(self) -> Network:
        return self._harm.facts.network

    @property
    def _nodes(self) -> Mapping[int, SimulatedNode]:
        return self._harm.facts.nodes

    def _isolate(self) -> bool:
        victim = self._harm.any_node()
        if len(self._nodes) == 1:
            return False
        self._harm.hit("isolated", victim, "is cut off")
        self._cut_off(int(victim.node_id), self._nodes)
        return True

    def _cut_off(self, victim: int, others: Iterable[int]) -> None:
        for other in others:
            self._network.cut(victim, other)
            self._network.cut(other, victim)

    def _cut_one_way(self) -> bool:
        source, target = self._harm.any_node(), self._harm.any_node()
        if source is target:
            return False
        self._harm.hit("one-way cut", source, f"cannot reach {target.node_id}")
        self._network.cut(source.node_id, target.node_id)
        return True

    def _split(self) -> bool:
        side = [node_id for node_id in self._nodes if self._harm.rng.random() < 0.5]
        if not 0 < len(side) < len(self._nodes):
            return False
        self._harm.happened("split", *(self._nodes[node_id] for node_id in side))
        self._harm.note(None, f"{side} are split from the rest")
        for one in side:
            self._cut_off(one, [other for other in self._nodes if other not in side])
        return True

    def _star(self) -> bool:
        """Each node reaches only one hub, or one of two hubs that reach each other (Kafka's partition of five)."""
        hubs = self._harm.rng.sample(list(self._nodes), min(self._harm.rng.randint(1, 2), len(self._nodes)))
        leaves = [node_id for node_id in self._nodes if node_id not in hubs]
        if len(leaves) < 2:
            return False
        self._harm.happened("star", *(self._nodes[hub] for hub in hubs))
        self._harm.note(None, f"{leaves} reach only {hubs}")
        for leaf in leaves:
            kept = self._harm.rng.choice(hubs)
            self._cut_off(leaf, [other for other in self._nodes if other not in (leaf, kept)])
        return True

    def _flap(self) -> bool:
        source, target = self._harm.any_node(), self._harm.any_node()
        if source is target:
            return False
        self._harm.hit("flapping", source, f"reaches {target.node_id} every now and then")
        until_us = self._harm.facts.clock.now_us + self._harm.within(self._harm.pace.network_us_max)
        self._flap_on((int(source.node_id), int(target.node_id)), self._harm.rng, until_us, is_cut=False)
        return True

    def _flap_on(self, link: tuple[int, int], rng: Random, until_us: int, *, is_cut: bool) -> None:
        for one, other in (link, link[::-1]):
            (self._network.mend if is_cut else self._network.cut)(one, other)
        if self._harm.facts.clock.now_us < until_us or not is_cut:
            delay_us = rng.randint(1_000, FLAP_US_MAX)
            self._harm.later(delay_us, lambda: self._flap_on(link, rng, until_us, is_cut=not is_cut))

    def _break_often(self) -> bool:
        """Connections to a node break again and again, and can be made anew at once."""
        victim = self._listener()
        sources = self._some_others(victim)
        if not sources:
            return False
        self._harm.hit("flapping connections", victim, f"loses its connections from {sources} again and again")
        until_us = self._harm.facts.clock.now_us + self._harm.within(self._harm.pace.network_us_max)
        self._break_on(victim, sources, self._harm.rng, until_us)
        return True

    def _break_on(self, victim: SimulatedNode, sources: list[int], rng: Random, until_us: int) -> None:
        for source in sources:
            if rng.random() < 0.5:
                self._network.break_between(source, int(victim.node_id))
        if self._harm.facts.clock.now_us < until_us:
            delay_us = rng.randint(1_000, FLAP_US_MAX)
            self._harm.later(delay_us, lambda: self._break_on(victim, sources, rng, until_us))

    def _refuse(self) -> bool:
        """Some connections to a node break and cannot be made anew for a while; the process serves all others."""
        victim = self._listener()
        sources = self._some_others(victim)
        if not sources:
            return False
        self._harm.hit("refused connections", victim, f"refuses connections from {sources}")
        refused = {(source, int(victim.node_id)) for source in sources}
        self._network.refusing |= refused
        for source, target in refused:
            self._network.break_between(source, target)
        duration_us = self._harm.within(self._harm.pace.network_us_max)
        self._harm.later(duration_us, lambda: self._network.refusing.difference_update(refused))
        return True

    def _listener(self) -> SimulatedNode:
        leader = self._harm.facts.newest_leader()
        if leader is None or self._harm.rng.random() < 0.2:
            return self._harm.any_node()
        return self._nodes[leader.node_id]

    def _some_others(self, victim: SimulatedNode) -> list[int]:
        others = [node_id for node_id in self._nodes if node_id != int(victim.node_id)]
        rng = self._harm.rng
        return others if rng.random() < 0.5 else [node_id for node_id in others if rng.random() < 0.5]

    def _heal(self) -> bool:
        if not self._network.cut_links:
            return False
        self._harm.happened("heal")
        self._harm.note(None, "the network heals")
        self._network.heal()
        return True

    def _slow(self, kind: str) -> bool:
        """A delay is the same for each frame; on a slow link large frames take longer, and the next ones wait."""
        source, target = self._harm.any_node(), self._harm.any_node()
        if source is target:
            return False
        delay_us = self._harm.within(self._harm.pace.delay_us_max)
        byte_us = self._harm.rng.choice(self._harm.pace.byte_us) if kind == "slow link" else 0
        if kind == "slow link":
            delay_us //= 10
        self._harm.hit(kind, source, f"sends to {target.node_id} {delay_us / 1e3:.1f} ms slower, {byte_us} us a byte")
        direction = int(source.node_id), int(target.node_id)
        self._network.slow(*direction, Slowness(delay_us=delay_us, byte_us=byte_us))
        duration_us = self._harm.within(self._harm.pace.network_us_max)
        self._harm.later(duration_us, lambda: self._network.slow(*direction, NOT_SLOW))
        return True

    def _trickle(self) -> bool:
        """The leader's frames to one other node take very long per byte, and a frame under way stays that slow."""
        leader = self._harm.facts.newest_leader()
        target = self._harm.awake_node()
        if leader is None or target is None or leader.node_id == int(target.node_id):
            return False
        self._harm.hit("trickle", target, f"gets {1_000_000 // TRICKLE_BYTE_US} bytes a second from {leader.node_id}")
        direction = leader.node_id, int(target.node_id)
        self._network.slow(*direction, Slowness(delay_us=0, byte_us=TRICKLE_BYTE_US))
        duration_us = self._harm.within(self._harm.pace.network_us_max)
        self._harm.later(duration_us, lambda: self._network.slow(*direction, NOT_SLOW))
        return True

    def _lose(self) -> bool:
        return self._snag("lost frames", is_dialed=True)

    def _duplicate(self) -> bool:
        """The next answer is lost with its connection, so the request is sent again and processed twice."""
        return self._snag("duplicated request", is_dialed=False)

    def _snag(self, kind: str, *, is_dialed: bool) -> bool:
        def snag(end: End, _: bytes) -> bool:
            node = self._nodes.get(end.station.node_id)
            if node is None or end.is_dialed is not is_dialed:
                return False
            self._harm.hit(kind, node, f"loses a connection: {kind}")
            self._network.sever(end)
            return True

        self._network.snag(kind, snag)
        return True

    def _reorder(self) -> bool:
        """The sender loses the connection and asks on a new one; the old request arrives after that."""
        linger_us = self._harm.rng.randrange(LINGER_US_MAX)

        def snag(end: End, _: bytes) -> bool:
            node = self._nodes.get(end.station.node_id)
            if node is None or not end.is_dialed:
                return False
            self._network.abandon(end)
            self._harm.later(linger_us, lambda: self._release(end, node))
            return True

        self._network.snag("reordered frames", snag)
        return True

    def _release(self, end: End, node: SimulatedNode) -> None:
        if end.outgoing and end.peer is not None and not end.peer.is_closed:
            self._harm.hit("reordered frames", node, "has an old request arrive late")
        self._network.release(end)

    def _make_old_fetch(self) -> bool:
        """1. The next Fetch to a leader stays in a buffer; 2. it is cut off; 3. the sender gets a newer epoch."""

        def snag(end: End, frame: bytes) -> bool:
            if not end.is_dialed or end.peer is None or not frame.startswith(_FETCH_BYTES):
                return False
            sender, leader = self._nodes.get(end.station.node_id), self._nodes.get(end.peer.station.node_id)
            if sender is None or leader is None:
                return False  # One of the ends is not a node.
            if sender.status is None or leader.status is None or not leader.status.leads:
                return False
            end.is_held, epoch = True, sender.status.epoch
            self._harm.note(sender, f"has a Fetch linger on its way to {leader.node_id}, who is cut off")
            self._cut_off(int(leader.node_id), self._nodes)
            self._harm.later(POLL_US, lambda: self._let_old_fetch_go(end, sender, epoch, POLLS_MAX))
            return True

        self._network.snag("old fetch", snag)
        return True

    def _let_old_fetch_go(self, end: End, sender: SimulatedNode, epoch: int, polls: int) -> None:
        """4. Then the Fetch arrives; after POLLS_MAX polls it does anyway, and does not count as this fault."""
        is_old = self._harm.facts.platters.election(sender).epoch > epoch
        if not is_old and polls:
            self._harm.later(POLL_US, lambda: self._let_old_fetch_go(end, sender, epoch, polls - 1))
            return
        if is_old and end.outgoing and end.peer is not None and not end.peer.is_closed:
            receiver = self._nodes[end.peer.station.node_id]
            self._harm.hit("old fetch", receiver, f"is given a Fetch of {sender.node_id}, who has voted since")
        self._network.release(end)
