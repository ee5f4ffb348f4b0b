"""A virtual machine: it starts, is killed, loses power, leaves, and restarts with what its disk kept."""

import pytest

from pykraft.protocol.api import frame
from pykraft.protocol.messages import ApiKey
from pykraft.rpc.connection import DialedConnection
from pykraft.sim.facts.members import replace_disk
from pykraft.sim.invariants import ViolationError
from pykraft.sim.machine.disk import SYNC_ERROR, Interrupted
from pykraft.sim.machine.node import Process, SimulatedNode
from pykraft.sim.machine.spoken import Spoken
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import ClusterSettings, Scenario
from pykraft.sim.scenario.settings import LISTENER
from pykraft.snapshot.writer import membership_in_snapshot
from pykraft.types import Endpoint, KRaftVoters, Offset, VoterSet
from tests.sim.invariants.fakes import operation
from tests.sim.worlds import calm_world, dynamic_world, led_world, run_for, run_until, started, started_world


def test_a_node_runs_one_process_at_a_time() -> None:
    world = calm_world()
    node = world.nodes[1]
    assert node.host is None
    node.start()
    assert node.host is not None
    with pytest.raises(AssertionError):
        node.start()


@pytest.mark.conformance("H55")
@pytest.mark.parametrize("is_kill", [True, False])
def test_a_kill_keeps_what_was_written_and_a_power_loss_what_was_synced(is_kill: bool) -> None:
    world, leader = led_world()
    node = world.nodes[leader.node_id]
    run_until(world, lambda: world.facts.platters.end_offset(node) >= 1)
    end_offset, epoch = world.facts.platters.end_offset(node), leader.host.status.epoch
    (node.kill if is_kill else node.lose_power)()
    assert node.process is None
    assert world.facts.platters.end_offset(node) == end_offset
    node.start()
    assert node.host is not None
    assert (node.host.status.log_end_offset, node.host.status.epoch) == (end_offset, epoch)


def test_what_was_planned_for_a_process_does_not_happen_to_the_next() -> None:
    world, leader = led_world()
    node = world.nodes[leader.node_id]
    former = node.process
    assert former is not None
    node.kill()
    node.start()
    run_for(world, 100_000)
    assert not former.is_running
    with pytest.raises(AssertionError, match="dead"):
        former.host.close()


@pytest.mark.parametrize("loses_power", [False, True])
def test_a_process_may_end_in_the_middle_of_writing(loses_power: bool) -> None:
    world, leader = led_world()
    node = world.nodes[leader.node_id]
    node.disk.interrupt_within(1, loses_power=loses_power)
    propose(world, leader, b"000000000001w")
    run_until(world, lambda: node.process is None)
    assert any("while writing" in line for line in world.trace.lines)
    run_until(world, lambda: node.process is not None)


def test_a_process_may_end_while_it_recovers_and_is_started_again() -> None:
    world = calm_world()
    node = world.nodes[1]
    node.disk.interrupt_within(3, loses_power=True)
    node.start()
    assert node.process is None
    run_until(world, lambda: node.process is not None)
    assert any("power lost while recovering" in line for line in world.trace.lines)


def test_a_node_that_leaves_closes_its_files_and_is_gone() -> None:
    world, leader = led_world()
    node = world.nodes[leader.node_id]
    leader.host.shutdown(300, world.clock.instant)
    run_until(world, lambda: node.process is None)
    assert any("stops: gracefully" in line for line in world.trace.lines)


def test_a_node_may_end_while_it_closes_its_files() -> None:
    world = started_world()
    run_for(world, 20_000)
    node = world.nodes[1]
    node.disk.interrupt_within(0, loses_power=False)
    node.stopped(None)
    run_until(world, lambda: node.process is None)
    assert any("killed while closing" in line for line in world.trace.lines)


def test_a_host_that_gives_up_fails_the_world() -> None:
    world = started_world()
    with pytest.raises(ViolationError, match="NodesStayUp: node 2 stopped: no more"):
        world.nodes[2].stopped(OSError("no more"))


def test_the_lane_is_slow_now_and_then_and_never_at_once() -> None:
    process = started_world().nodes[1].process
    assert process is not None
    delays = [process.lane_delay_us() for _ in range(1_000)]
    assert min(delays) >= 100
    assert 5_000 < max(delays) <= 60_000


def test_jobs_that_come_while_the_lane_is_busy_wait_for_its_next_turn() -> None:
    world, leader = led_world()
    node = world.nodes[leader.node_id]
    process = node.process
    assert process is not None
    run_until(world, lambda: process.ordered.is_idle)
    ends = []
    for value in (b"000000000001w", b"000000000002w"):
        propose(world, leader, value)
        ends.append(leader.host.status.log_end_offset)
    assert ends[0] < ends[1], "this world has no linger"
    run_until(world, lambda: world.facts.platters.end_offset(node) >= ends[0])
    assert world.facts.platters.end_offset(node) == ends[0]
    assert not process.ordered.is_idle


def test_oracles_hear_requests_and_votes_before_the_network_does(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[int, Spoken]] = []
    world = calm_world()
    tell_oracles = world.watch.before_send

    def before_send(node: SimulatedNode, spoken: Spoken) -> None:
        heard.append((int(node.node_id), spoken))
        tell_oracles(node, spoken)

    monkeypatch.setattr(world.watch, "before_send", before_send)
    for node in world.nodes.values():
        node.start()
    run_until(world, lambda: world.facts.newest_leader() is not None)
    leader = world.facts.newest_leader()
    assert leader is not None
    votes = [(node_id, spoken) for node_id, spoken in heard if spoken.epoch == leader.host.status.epoch]
    voters = {node_id for node_id, spoken in votes if spoken.candidate_id == leader.node_id}
    assert leader.node_id in voters
    assert len(voters) >= 2


def test_an_interruption_says_how_it_ended() -> None:
    assert str(Interrupted(loses_power=True)) == "power lost"
    assert str(Interrupted(loses_power=False)) == "killed"


def test_an_alarm_rings_at_the_time_that_the_host_asked_for_last(monkeypatch: pytest.MonkeyPatch) -> None:
    world, leader = led_world()
    process = world.nodes[leader.node_id].process
    assert process is not None
    rung: list[int] = []
    monkeypatch.setattr(process.host, "on_tick", lambda now: rung.append(now.mono_ms))
    process.wake_at(None)
    start_ms = world.clock.instant.mono_ms
    for later_ms in (5, 3, 9):
        process.wake_at(start_ms + later_ms)
    monkeypatch.setattr(process, "wake_at", lambda mono_ms: None)
    run_for(world, 20_000)
    assert rung == [start_ms + 9]


def test_a_host_that_asks_for_nothing_is_not_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    world, leader = led_world()
    process = world.nodes[leader.node_id].process
    assert process is not None
    monkeypatch.setattr(process.host, "on_tick", lambda now: pytest.fail("it is woken"))
    process.wake_at(None)
    monkeypatch.setattr(process, "wake_at", lambda mono_ms: None)
    run_for(world, 20_000)


def test_an_only_voter_that_starts_again_does_not_hear_that_it_leads_the_epoch_it_resigned_from() -> None:
    world = World(1, scenario=Scenario(cluster=ClusterSettings(voters=(1,), observers=(0,)), faults={}))
    node = world.nodes[1]
    for _ in range(2):
        node.start()
        run_for(world, 100_000)
        node.kill()
    assert [line.partition("hears of ")[2] for line in world.trace.lines if "hears of" in line] == [
        "epoch 1",
        "leader 1 of epoch 1",
        "epoch 2",
        "leader 1 of epoch 2",
    ]


def propose(world: World, leader: Process, value: bytes) -> None:
    """Propose as a client does that no oracle knows."""
    world.watch.proposed(operation(1, value))
    leader.host.propose([value], epoch=leader.host.status.epoch, now=world.clock.instant, on_outcome=lambda _: None)


def test_what_comes_during_a_pause_is_taken_afterwards_one_by_one() -> None:
    world, leader = led_world()
    node = next(node for node in world.nodes.values() if node.node_id != leader.node_id)
    process = node.process
    assert process is not None
    world.users.begin()
    process.pause(100_000)
    high_watermark = process.host.status.high_watermark
    with pytest.raises(AssertionError, match="already"):
        process.pause(1)
    until_us = world.clock.now_us + 100_000
    run_until(world, lambda: (leader.host.status.high_watermark or 0) > (high_watermark or 0) + 5)
    assert world.clock.now_us < until_us
    assert process.host.status.high_watermark == high_watermark
    run_until(world, lambda: not process.is_paused)
    assert world.clock.now_us >= until_us
    run_until(world, lambda: (process.host.status.high_watermark or 0) > (high_watermark or 0) + 5)


def test_a_process_that_is_killed_in_its_pause_takes_nothing_any_more() -> None:
    world, leader = led_world()
    node = world.nodes[leader.node_id]
    leader.pause(10_000)
    node.kill()
    run_for(world, 500_000)
    assert not leader.is_running


def test_a_disk_error_while_recovering_ends_the_process_and_it_is_tried_again() -> None:
    world = started_world()
    run_for(world, 50_000)
    node = world.nodes[1]
    node.kill()
    node.disk.io_errors.plan(SYNC_ERROR, 0)
    run_until(world, lambda: any("cannot sync" in line for line in world.trace.lines))
    assert node.process is None
    node.disk.io_errors.mend()
    run_until(world, lambda: node.process is not None)


def test_what_only_the_page_cache_has_after_a_failed_sync_is_durable_once_the_node_runs_again() -> None:
    """1. A sync fails, its pages are clean and not on disk; 2. the next start reads them; 3. the power goes."""
    for seed in range(8):
        world, leader = led_world(seed)
        node = world.nodes[leader.node_id]
        world.users.begin()
        node.disk.io_errors.plan(SYNC_ERROR, 0)
        run_until(world, lambda node=node: node.process is None)  # type: ignore[misc]
        node.disk.io_errors.mend()
        run_until(world, lambda node=node: node.process is not None)  # type: ignore[misc]
        assert node.host is not None
        assert world.facts.platters.end_offset(node) == node.host.status.log_end_offset


class Story:
    """Notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def connected(self) -> None:
        self.heard.append("connected")

    def closed(self) -> None:
        self.heard.append("closed")

    def received(self, frame: bytes) -> None:
        self.heard.append(frame)


def test_a_guest_asks_another_node_and_hears_of_its_end() -> None:
    world, story, wire = started_world(), Story(), DialedConnection("guest")
    process = world.nodes[1].process
    assert process is not None
    endpoint = world.nodes[2].config.advertised_listeners.get(LISTENER)
    assert endpoint is not None
    connection = process.guests.dial(story, endpoint)
    run_until(world, lambda: story.heard == ["connected"])
    process.guests.send(connection, wire.negotiate())
    run_until(world, lambda: len(story.heard) == 2)
    answer = story.heard[1]
    assert isinstance(answer, bytes)
    wire.negotiated(answer)
    assert wire.offers_key(ApiKey.FETCH)
    world.nodes[2].kill()
    run_until(world, lambda: story.heard[-1] == "closed")


def test_a_guest_that_closes_hears_nothing_more() -> None:
    world, story = started_world(), Story()
    process = world.nodes[1].process
    assert process is not None
    connection = process.guests.dial(story, Endpoint("nowhere", 1_002))
    process.guests.close(connection)
    process.guests.close(connection)
    process.guests.send(connection, frame([b"late"]))
    run_for(world, 200_000)
    assert story.heard == []
    process.guests.dial(story, Endpoint("nowhere", 1_002))
    run_until(world, lambda: story.heard == ["closed"])


def test_voters_of_a_dynamic_world_are_on_the_disks_of_the_voters_alone() -> None:
    world = dynamic_world(observers=1)
    voters = world.facts.members.electorate.initial
    assert voters.ids == (1, 2, 3)
    for node in world.nodes.values():
        node.disk.lose_power()
        _, records = membership_in_snapshot(node.disk, node.config.partition_directory, Offset(0))
        assert (KRaftVoters(voters) in records) is (node.node_id in voters.ids)
        entry = voters.get(node.node_id)
        assert entry is None or entry.key == node.key


def test_a_replaced_disk_knows_nobody_and_has_another_directory_id() -> None:
    world = started(dynamic_world())
    node = world.nodes[1]
    key = node.key
    replace_disk(node)
    assert node.process is None
    assert node.key != key
    assert node.first_voters == VoterSet()
    node.start()
    assert node.host is not None
    assert node.host.directory_id == node.key.directory_id
    assert node.host.status.role == "unattached"


def test_what_is_asked_for_is_done_and_told_in_order_and_the_doing_comes_first() -> None:
    world, leader = led_world()
    seen: list[str] = []
    for number in range(20):
        ask(leader, seen, number)
    assert not leader.is_idle
    run_until(world, lambda: len(seen) == 40)
    for what in ("did", "told"):
        assert [each for each in seen if each.startswith(what)] == [f"{what} {number}" for number in range(20)]
    assert all(seen.index(f"did {number}") < seen.index(f"told {number}") for number in range(20))


def test_a_disk_that_stalls_holds_it_up() -> None:
    world, leader = led_world()
    node = world.nodes[leader.node_id]
    node.disk.io_errors.stalled_until_us = world.clock.now_us + 300_000
    seen: list[str] = []
    for number in range(3):
        ask(leader, seen, number)
    run_for(world, 90_000)
    assert seen == []
    run_until(world, lambda: len(seen) == 6)


def test_a_process_may_end_in_the_middle_of_it() -> None:
    world, leader = led_world()
    node = world.nodes[leader.node_id]
    node.disk.interrupt_within(0, loses_power=True)
    path = node.config.log_dir / "new"
    told: list[object] = []
    leader.submit_read(lambda: node.disk.open(path, create=True), told.append)
    run_until(world, lambda: not leader.is_running)
    assert node.disk.exists(path) is False
    assert told == []


def ask(process: Process, seen: list[str], number: int) -> None:
    process.submit_read(lambda: seen.append(f"did {number}"), lambda _: seen.append(f"told {number}"))
