"""Producers find the leader, repeat what was not answered, give up only what nobody can know; a visitor asks all."""

from dataclasses import replace

from pykraft.errors import ErrorCode
from pykraft.protocol.batch import check_crc, read_header
from pykraft.protocol.records import decode_values
from pykraft.sim.clients.others import IN_FLIGHT_MAX, SimulatedProducer, producer_batch
from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.history import IssuedId, OperationOutcome, ProducerAnswer, Visit, VisitQuestion
from pykraft.sim.invariants.clients import ProducersAreToldTheTruth, ProducersKeepOrder
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.run.world import World
from pykraft.sim.scenario.file import load
from pykraft.sim.scenario.scenario import Course, ProducerSettings, Scenario, Work
from tests.sim.worlds import SEED_OF_THREE, THREE, led, run_for, run_until


def test_producers_are_served_when_each_was_acknowledged_after_the_faults() -> None:
    scenario = replace(THREE, producers=ProducerSettings(count=(2,)), course=Course(faults_us=1_000_000))
    world, _ = led(World(SEED_OF_THREE, scenario=scenario))
    world.others.begin()
    assert len(world.others.producers) == 2
    run_until(world, lambda: all(each.acknowledged_us > 0 for each in world.others.producers))
    assert not world.others.are_served
    run_until(world, lambda: world.others.are_served)
    assert all(each.acknowledged_us > 1_000_000 for each in world.others.producers)


class Listens(Invariant):
    """Keeps all visits."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.questions: list[Visit] = []
        self.told: list[Visit] = []

    def visited(self, node: SimulatedNode, visit: Visit) -> None:
        """Keep it."""
        assert node.process is visit.process
        (self.questions if visit.is_open else self.told).append(visit)


def visited(probability: float) -> tuple[World, Listens]:
    scenario = replace(THREE, work=Work(visitor_probability=probability))
    world, _ = led(World(SEED_OF_THREE, scenario=scenario, oracles=[Listens]))
    [found] = world.watch.oracles
    assert isinstance(found, Listens)
    return world, found


def test_each_question_is_asked_and_answered() -> None:
    world, found = visited(1.0)
    world.others.visitor.begin()
    run_until(world, lambda: {each.question for each in found.told} == {*VisitQuestion})
    assert all(each.answer is not None for each in found.told)
    impossible = [each.answer for each in found.told if each.question is VisitQuestion.ADD_IMPOSSIBLE_VOTER]
    assert all(answer is not None and answer["error_code"] for answer in impossible)
    for node in world.nodes.values():
        node.kill()
    asked = len(found.questions)
    run_for(world, 300_000)
    assert len(found.questions) <= asked + 2 * 3, "a turn has one question or two"


CALM = ProducerSettings(
    count=(1,), impatience=0, restart_probability=0, bump_probability=0, sleep_probability=0, value_size_bytes_max=(60,)
)


class ListensToProducers(Invariant):
    """Keeps what producers were told."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.answers: list[ProducerAnswer] = []
        self.ids: list[int] = []

    def produced(self, answer: ProducerAnswer) -> None:
        """Keep it."""
        self.answers.append(answer)

    def id_issued(self, issued: IssuedId) -> None:
        """Keep it."""
        self.ids.append(issued.producer_id)


def producing(
    settings: ProducerSettings = CALM, scenario: Scenario = THREE
) -> tuple[World, SimulatedProducer, ListensToProducers]:
    oracles = [ListensToProducers, ProducersKeepOrder, ProducersAreToldTheTruth]
    world, _ = led(World(SEED_OF_THREE, scenario=replace(scenario, producers=settings), oracles=oracles))
    [producer] = world.others.producers
    producer.begin()
    found = world.watch.oracles[0]
    assert isinstance(found, ListensToProducers)
    return world, producer, found


def acknowledged(found: ListensToProducers) -> list[ProducerAnswer]:
    return [each for each in found.answers if each.error == ErrorCode.NONE]


def test_a_producer_gets_an_id_and_writes_numbered_batches() -> None:
    world, producer, found = producing()
    run_until(world, lambda: len(acknowledged(found)) > 20)
    assert len(found.ids) == 1
    sequences = [each.base_sequence for each in found.answers]
    assert sequences == sorted(sequences)
    assert producer.acknowledged_us > 0


def test_what_was_not_answered_is_sent_again_to_the_next_leader() -> None:
    world, producer, found = producing()
    run_until(world, lambda: bool(acknowledged(found)))
    leader = world.facts.newest_leader()
    assert leader is not None
    run_until(world, lambda: bool(producer._in_flight))
    waiting = [batch.base_sequence for batch in producer._in_flight]
    world.nodes[leader.node_id].kill()
    run_until(world, lambda: set(waiting) <= {each.base_sequence for each in acknowledged(found)})
    assert found.answers[-1].node_id != leader.node_id
    assert len(found.ids) == 1


def test_no_more_than_five_batches_wait_and_a_late_one_is_given_up() -> None:
    world, producer, found = producing()
    run_until(world, lambda: bool(acknowledged(found)))
    for node in world.nodes.values():
        for other in world.nodes.values():
            world.network.cut(int(node.node_id), int(other.node_id))
    run_until(world, lambda: len(producer._in_flight) == IN_FLIGHT_MAX)
    given_up = [batch.operation for batch in producer._in_flight]
    run_until(world, lambda: producer._producer_epoch == 1)
    assert {each.answer for each in given_up} == {OperationOutcome.UNKNOWN}
    world.network.heal()
    run_until(world, lambda: acknowledged(found)[-1].producer_epoch >= 1)


def test_a_producer_that_begins_anew_gets_another_id() -> None:
    world, producer, found = producing(replace(CALM, restart_probability=0.05))
    run_until(world, lambda: len(found.ids) > 2)
    assert len({*found.ids}) == len(found.ids)
    assert producer.acknowledged_us > 0


def test_a_sleeping_producer_sends_nothing() -> None:
    world, _, found = producing(replace(CALM, sleep_probability=1, sleep_us_max=1))
    run_for(world, 500_000)
    assert not found.answers


def test_worlds_without_producers_serve_no_clients() -> None:
    world = World(SEED_OF_THREE, scenario=THREE)
    assert world.others.producers == []
    assert {node.config.client_listeners for node in world.nodes.values()} == {()}
    world = World(SEED_OF_THREE, scenario=load(["producers"]))
    assert {node.config.client_listeners for node in world.nodes.values()} == {("CONTROLLER",)}


def test_batches_fit_where_leaders_have_small_buffers() -> None:
    """A world of all faults and producers had both: seed 21."""
    small = replace(THREE, quorum=replace(THREE.quorum, batch_size_bytes_max=2_048))
    world, _, found = producing(replace(CALM, value_size_bytes_max=(3_000,)), small)
    run_until(world, lambda: len(acknowledged(found)) == 50)
    sizes = [sum(map(len, answer.operation.values)) for answer in found.answers]
    assert max(sizes) > 1_000


def test_a_batch_has_its_producers_numbers_and_a_right_crc() -> None:
    data = producer_batch((b"a", b"b"), producer_id=2**40, producer_epoch=3, base_sequence=7, timestamp_ms=9)
    header = read_header(data)
    check_crc(data, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2**40, 3, 7)
    assert decode_values(data) == [b"a", b"b"]
