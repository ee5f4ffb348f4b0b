"""Connections are in order and whole, or broken; a cut link holds back what is sent over it."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from pykraft.host.ports import ConnectionId
from pykraft.sim.clock import Clock
from pykraft.sim.network import Network, Weather
from pykraft.types import Endpoint

LENGTH = bytes(4)


class Recorder:
    """A process that writes down what it hears."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.heard: list[tuple[str, ConnectionId, bytes]] = []

    def accepted(self, connection: ConnectionId) -> None:
        self.heard.append(("accepted", connection, b""))

    def connected(self, connection: ConnectionId) -> None:
        self.heard.append(("connected", connection, b""))

    def closed(self, connection: ConnectionId) -> None:
        self.heard.append(("closed", connection, b""))

    def received(self, connection: ConnectionId, frame: bytes) -> None:
        self.heard.append(("received", connection, frame))

    @property
    def events(self) -> list[str]:
        return [what for what, _, _ in self.heard]

    @property
    def frames(self) -> list[bytes]:
        return [frame for what, _, frame in self.heard if what == "received"]


class Pair:
    """Two processes, the first connected to the second."""

    def __init__(self, seed: int = 1) -> None:
        self.clock = Clock()
        self.network = Network(self.clock, Random(seed), Weather())
        self.near, self.far = Recorder(1), Recorder(2)
        self.network.attach(self.near)
        self.network.attach(self.far)
        self.connection = self.network.dial(self.near, Endpoint("node-2", 2))
        self.run()

    def run(self) -> None:
        while self.clock.advance():
            pass

    def say(self, *texts: bytes) -> None:
        for text in texts:
            self.network.send(self.connection, [LENGTH, text])

    @property
    def far_connection(self) -> ConnectionId:
        return self.far.heard[0][1]


@given(st.lists(st.binary(min_size=1, max_size=3), max_size=20), st.integers(0, 2**16))
def test_frames_arrive_whole_and_in_order_in_both_directions(texts: list[bytes], seed: int) -> None:
    pair = Pair(seed)
    pair.say(*texts)
    for text in texts:
        pair.network.send(pair.far_connection, [LENGTH + text])
    assert not pair.far.frames, "nothing arrives at once"
    pair.run()
    assert pair.far.frames == texts
    assert pair.near.frames == texts


def test_both_ends_hear_of_a_connection() -> None:
    pair = Pair()
    assert (pair.near.events, pair.far.events) == (["connected"], ["accepted"])


def test_who_closes_hears_nothing_and_the_other_end_does() -> None:
    pair = Pair()
    pair.say(b"lost with the connection")
    pair.network.close(pair.connection)
    pair.network.close(pair.connection)
    pair.say(b"said too late")
    pair.run()
    assert (pair.near.events, pair.far.events) == (["connected"], ["accepted", "closed"])


def test_a_dial_to_a_process_that_is_not_there_fails() -> None:
    pair = Pair()
    connection = pair.network.dial(pair.near, Endpoint("node-3", 3))
    pair.run()
    assert pair.near.heard[-1] == ("closed", connection, b"")


def test_a_dial_over_a_cut_link_fails_whichever_direction_is_cut() -> None:
    for source, target in ((1, 2), (2, 1)):
        pair = Pair()
        pair.network.cut(source, target)
        connection = pair.network.dial(pair.near, Endpoint("node-2", 2))
        pair.run()
        assert pair.near.heard[-1] == ("closed", connection, b"")


def test_a_dial_that_was_given_up_reaches_nobody() -> None:
    pair = Pair()
    pair.network.close(pair.network.dial(pair.near, Endpoint("node-2", 2)))
    pair.run()
    assert pair.far.events == ["accepted"]


def test_the_other_end_learns_that_a_process_is_gone_and_the_gone_hears_nothing() -> None:
    pair = Pair()
    pair.network.send(pair.far_connection, [LENGTH, b"on its way"])
    pair.network.detach(pair.near)
    pair.network.send(pair.far_connection, [LENGTH, b"sent before it was known"])
    pair.run()
    assert pair.near.events == ["connected"]
    assert pair.far.events == ["accepted", "closed"]


def test_a_cut_holds_back_one_direction_only() -> None:
    pair = Pair()
    pair.network.cut(1, 2)
    assert pair.network.cut_links == 1
    pair.say(b"held")
    pair.network.send(pair.far_connection, [LENGTH, b"passes"])
    pair.run()
    assert (pair.near.frames, pair.far.frames) == ([b"passes"], [])


def test_after_the_heal_what_was_held_arrives_late_or_the_connection_breaks() -> None:
    outcomes = set()
    for seed in range(20):
        pair = Pair(seed)
        pair.network.cut(1, 2)
        pair.say(b"a", b"b")
        pair.run()
        pair.network.heal()
        assert pair.network.cut_links == 0
        pair.run()
        outcomes.add((tuple(pair.far.frames), pair.near.events[-1], pair.far.events[-1]))
    assert outcomes == {((b"a", b"b"), "connected", "received"), ((), "closed", "closed")}


def test_after_the_heal_order_is_kept_with_what_is_said_later() -> None:
    for seed in range(20):
        pair = Pair(seed)
        pair.network.cut(1, 2)
        pair.say(b"1", b"2", b"3")
        pair.network.heal()
        pair.say(b"4", b"5")
        pair.run()
        assert pair.far.frames in ([], [b"1", b"2", b"3", b"4", b"5"])
