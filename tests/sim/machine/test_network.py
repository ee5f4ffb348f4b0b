"""Connections are in order and whole, or broken; a cut link holds frames back.

The weather of a world is drawn from its links.
"""

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from pykraft.host.ports import ConnectionId
from pykraft.security.principal import Principal
from pykraft.sim.machine.clock import Clock
from pykraft.sim.machine.network import End, Network, Slowness, Weather
from pykraft.sim.scenario.scenario import LinkSettings
from pykraft.sim.scenario.settings import SizeLimits
from pykraft.types import Endpoint

LENGTH = bytes(4)


class Recorder:
    """A process that writes down what it hears."""

    def __init__(self, node_id: int) -> None:
        self.node_id = self.port = node_id
        self.principal = Principal(f"CN=node-{node_id}")
        self.heard: list[tuple[str, ConnectionId, bytes]] = []

    def accepted(self, connection: ConnectionId) -> None:
        self.heard.append(("accepted", connection, b""))

    def connected(self, connection: ConnectionId) -> None:
        self.heard.append(("connected", connection, b""))

    def closed(self, connection: ConnectionId, *, is_refused: bool = False) -> None:
        self.heard.append(("refused" if is_refused else "closed", connection, b""))

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
    assert pair.near.heard[-1] == ("refused", connection, b"")


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


def test_what_was_sent_before_an_end_closed_may_arrive_and_then_the_other_end_learns_of_it() -> None:
    heard = set()
    for seed in range(20):
        pair = Pair(seed)
        pair.say(b"last", b"words")
        pair.network.close(pair.connection)
        pair.run()
        assert "closed" not in pair.near.events, "who closes hears nothing"
        assert pair.far.events[-1] == "closed"
        heard.add(tuple(pair.far.frames))
    assert heard == {(), (b"last", b"words")}


def test_a_process_that_is_killed_has_sent_what_it_sent_and_one_without_power_has_not() -> None:
    for is_silent in (False, True):
        pair = Pair()
        pair.say(b"last")
        pair.network.detach(pair.near, is_silent=is_silent)
        pair.run()
        assert pair.far.frames == ([] if is_silent else [b"last"])
        assert pair.far.events[-1] == "closed"


def test_a_cut_link_keeps_back_the_end_of_a_connection_too() -> None:
    pair = Pair()
    pair.network.cut(1, 2)
    pair.network.close(pair.connection)
    pair.run()
    assert "closed" not in pair.far.events
    pair.network.heal()
    pair.run()
    assert pair.far.events[-1] == "closed"


def test_one_direction_can_be_mended_alone() -> None:
    pair = Pair()
    for source, target in ((1, 2), (2, 1)):
        pair.network.cut(source, target)
    pair.network.mend(1, 2)
    assert pair.network.cut_links == 1
    pair.say(b"through")
    pair.run()
    assert pair.far.frames == [b"through"]


def test_a_slow_direction_takes_its_time_for_each_frame_and_each_byte() -> None:
    pair = Pair()
    pair.network.slow(1, 2, Slowness(delay_us=50_000, byte_us=100))
    begin_us = pair.clock.now_us
    pair.say(b"x" * 100, b"y" * 100)
    pair.run()
    assert pair.clock.now_us - begin_us >= 50_000 + 2 * 100 * 100
    pair.network.calm()
    begin_us = pair.clock.now_us
    pair.say(b"z" * 100)
    pair.run()
    assert pair.clock.now_us - begin_us < 50_000
    assert pair.far.frames == [b"x" * 100, b"y" * 100, b"z" * 100]


def test_a_severed_connection_loses_what_is_under_way_in_both_directions() -> None:
    pair = Pair()

    def sever(end: End, _: bytes) -> bool:
        pair.network.sever(end)
        return True

    pair.network.snag("loss", sever)
    pair.network.send(pair.far_connection, [LENGTH, b"answer"])
    pair.say(b"request")
    pair.run()
    assert pair.near.events[-1] == pair.far.events[-1] == "closed"
    assert pair.near.frames == pair.far.frames == []


def test_a_snag_is_used_up_by_the_first_frame_that_it_takes() -> None:
    pair = Pair()
    seen: list[tuple[bool, bytes]] = []

    def snag(end: End, frame: bytes) -> bool:
        seen.append((end.is_dialed, frame))
        return frame == b"that"

    pair.network.snag("look", snag)
    pair.say(b"this", b"that", b"more")
    assert seen == [(True, b"this"), (True, b"that")]


def held_back(pair: Pair, text: bytes) -> End:
    """Say something, and get hold of the end that said it."""
    held: list[End] = []

    def hold(end: End, _: bytes) -> bool:
        held.append(end)
        return True

    pair.network.snag("hold", hold)
    pair.say(text)
    return held[0]


def test_what_an_abandoned_connection_holds_arrives_when_it_is_released() -> None:
    pair = Pair()
    held = held_back(pair, b"old")
    pair.network.abandon(held)
    pair.run()
    assert pair.near.events[-1] == "closed"
    assert pair.far.frames == []
    pair.network.cut(1, 2)
    pair.network.release(held)
    pair.run()
    assert pair.far.frames == [b"old"], "it is beyond the link"
    assert pair.far.events[-1] == "closed"


def test_who_closes_an_abandoned_connection_first_does_not_hear_of_it() -> None:
    pair = Pair()
    held = held_back(pair, b"old")
    pair.network.abandon(held)
    pair.network.close(pair.connection)
    pair.run()
    assert "closed" not in pair.near.events


def test_in_the_end_nothing_is_held_back() -> None:
    pair = Pair()
    held = held_back(pair, b"old")
    held.is_held = True
    pair.run()
    assert pair.far.frames == []
    pair.network.calm()
    pair.run()
    assert pair.far.frames == [b"old"]


def slow_pair(byte_us: int) -> Pair:
    pair = Pair()
    pair.network.slow(1, 2, Slowness(delay_us=0, byte_us=byte_us))
    assert not pair.network.is_usual
    return pair


def test_how_much_of_a_frame_is_through_is_known_at_both_ends() -> None:
    pair = slow_pair(1_000)
    assert pair.network.received_size_bytes(pair.far_connection) == (0, 0)
    assert pair.network.received_size_bytes(ConnectionId(99)) == (0, 0)
    assert pair.network.unsent_size_bytes(ConnectionId(99)) == 0
    pair.say(b"x" * 100)
    sent_us = pair.clock.now_us
    assert pair.network.received_size_bytes(pair.far_connection) == (0, 0), "nothing has come yet"
    pair.clock.after(60_000, lambda: None)
    while pair.clock.now_us < sent_us + 60_000:
        pair.clock.advance()
    arrived_bytes, size_bytes = pair.network.received_size_bytes(pair.far_connection)
    assert size_bytes == 100
    assert 30 < arrived_bytes <= 60
    assert pair.network.unsent_size_bytes(pair.connection) == 100 - arrived_bytes
    assert pair.network.unsent_between(1, 2) == 0, "what was dialed carries no answers"
    pair.network.cut(1, 2)
    assert pair.network.received_size_bytes(pair.far_connection) == (0, 0)
    assert not pair.network.is_usual
    pair.network.mend(1, 2)
    pair.run()
    assert pair.far.frames in ([], [b"x" * 100])


def test_answers_that_are_not_through_add_up() -> None:
    pair = Pair()
    pair.network.slow(2, 1, Slowness(delay_us=0, byte_us=1_000))
    for _ in range(2):
        pair.network.send(pair.far_connection, [LENGTH + b"y" * 50])
    assert pair.network.unsent_between(2, 1) == 100
    pair.run()
    assert pair.network.unsent_between(2, 1) == 0
    pair.network.calm()
    assert pair.network.is_usual


def test_all_links_of_a_world_may_have_a_bandwidth() -> None:
    weather = Weather.draw(LinkSettings(byte_us=(1_000,)), Random(1))
    clock = Clock()
    network = Network(clock, Random(1), weather)
    near, far = Recorder(1), Recorder(2)
    network.attach(near)
    network.attach(far)
    connection = network.dial(near, Endpoint("node-2", 2))
    while clock.advance():
        pass
    before_us = clock.now_us
    network.send(connection, [LENGTH, b"z" * 1_000])
    while clock.advance():
        pass
    assert far.frames == [b"z" * 1_000]
    assert clock.now_us - before_us >= 1_000_000


def test_a_frame_that_is_too_long_for_its_reader_costs_the_connection() -> None:
    for size_bytes, is_read in ((50, True), (51, False)):
        pair = Pair()
        pair.network.size_limits[2] = SizeLimits(request_bytes=50, answer_bytes=10)
        pair.network.send(pair.connection, [LENGTH + b"q" * size_bytes])
        pair.run()
        assert bool(pair.far.frames) is is_read
        assert ("closed" in pair.near.events) is not is_read
    pair = Pair()
    pair.network.size_limits[1] = SizeLimits(request_bytes=10, answer_bytes=50)
    pair.network.send(pair.far_connection, [LENGTH + b"a" * 50])
    pair.run()
    assert pair.near.frames == [b"a" * 50]


def test_a_process_that_listens_may_refuse_a_dial_and_serve_the_others() -> None:
    pair = Pair()
    pair.network.refusing.add((1, 2))
    assert not pair.network.is_usual
    pair.network.break_between(2, 1)
    pair.run()
    assert "closed" not in pair.near.events, "nobody dialed in that direction"
    pair.network.break_between(1, 2)
    pair.run()
    assert (pair.near.events[-1], pair.far.events[-1]) == ("closed", "closed")
    pair.network.dial(pair.near, Endpoint("node-2", 2))
    pair.run()
    assert pair.near.events[-1] == "refused"
    pair.network.dial(pair.far, Endpoint("node-1", 1))
    pair.run()
    assert pair.far.events[-1] == "connected"
    pair.network.calm()
    assert pair.network.is_usual
    pair.network.dial(pair.near, Endpoint("node-2", 2))
    pair.run()
    assert pair.near.events[-1] == "connected"


def test_each_part_is_one_of_the_choices() -> None:
    links = LinkSettings(latency_us_max=(5, 7), byte_us=(1, 2), unanswered_probability=0.5, half_open_probability=0.25)
    drawn = [Weather.draw(links, Random(seed)) for seed in range(40)]
    assert {(each.latency_us_max, each.byte_us) for each in drawn} == {(5, 1), (5, 2), (7, 1), (7, 2)}
    assert {(each.unanswered_probability, each.half_open_probability) for each in drawn} == {(0.5, 0.25)}
    assert len({each.dice for each in drawn}) == len(drawn)


def test_narrow_links_are_drawn_apart_from_all_else() -> None:
    links = LinkSettings(narrow_byte_us=(7,))
    wide = [Weather.draw(links, Random(seed)) for seed in range(40)]
    drawn = [Weather.draw(replace(links, narrow_probability=0.5), Random(seed)) for seed in range(40)]
    assert {each.byte_us for each in wide} == {0}
    assert {each.byte_us for each in drawn} == {0, 7}
    assert [replace(each, byte_us=0) for each in drawn] == wide
