"""One step at a time, even if a step calls back; none before the start, none after the end.

Source: Kafka's ``KafkaRaftClient.poll``.
"""

from random import Random

from pykraft.host.host import Host
from pykraft.host.ports import ConnectionId
from pykraft.host.producers import OutcomeUnknown, ProposalOutcome, Rejected
from pykraft.protocol.api import ApiKey, encode_request
from pykraft.types import Epoch
from tests.disks import ScriptedDisk
from tests.host.cluster import Cluster
from tests.host.fakes import LISTENER, FakePorts, at, config


def test_listeners_and_producers_may_propose_from_within_their_calls() -> None:
    cluster = Cluster(voters=1)
    node = cluster[1]
    outcomes: list[ProposalOutcome] = []

    def again() -> None:
        if len(node.listener.values) < 5:
            outcomes.extend(node.propose(b"from a listener"))

    node.listener.on_each = again

    def decided(outcome: ProposalOutcome) -> None:
        outcomes.append(outcome)
        node.propose(b"from an outcome")

    node.running.propose([b"first"], epoch=Epoch(1), now=cluster.now, on_outcome=decided)
    cluster.settle()
    assert node.listener.values[0] == b"first"
    assert set(node.listener.values[1:]) == {b"from a listener", b"from an outcome"}


def test_what_arrives_before_the_start_is_answered_after_it() -> None:
    ports = FakePorts()
    host = Host.open(ScriptedDisk(), ports, config(1), rng=Random(1))
    host.on_accepted(ConnectionId(5), LISTENER, at(0))
    topics = [{"topic_name": "a-topic", "partitions": [{"partition_index": 0}]}]
    parts = encode_request(ApiKey.DESCRIBE_QUORUM, 2, 9, None, {"topics": topics})
    host.on_frame(ConnectionId(5), b"".join(bytes(part) for part in parts), at(0))
    assert ports.sent == []
    host.start(at(10))
    host.on_io(host.lane.perform(ports.jobs), at(11))
    assert [connection for connection, _ in ports.sent] == [5]


def test_after_the_end_nothing_happens_any_more() -> None:
    cluster = Cluster(voters=1)
    node = cluster[1]
    waiting = node.propose(b"a")
    node.running.shutdown(1_000, cluster.now)
    assert node.stops == [None]
    assert isinstance(waiting[0], OutcomeUnknown)
    sent, jobs = len(node.sent), len(node.jobs)
    node.running.on_tick(at(10_000))
    node.running.on_frame(ConnectionId(1), b"", at(10_000))
    (outcome,) = node.propose(b"b")
    assert isinstance(outcome, Rejected)
    node.flush()
    assert (len(node.sent), len(node.jobs), node.stops) == (sent, 0, [None])
    assert jobs > 0


def test_after_each_call_the_next_wake_up_is_what_the_core_asks_for() -> None:
    ports = FakePorts()
    host = Host.open(ScriptedDisk(), ports, config(1), rng=Random(1))
    assert ports.wake_ms is None
    host.start(at(1_000))
    first = ports.wake_ms
    assert first is not None
    assert 1_000 < first <= 3_000
    host.on_io(host.lane.perform(ports.jobs), at(1_001))
    host.on_tick(at(first))
    assert ports.wake_ms is not None
    assert ports.wake_ms > first


def test_the_core_hears_of_answers_that_move_before_it_acts_on_a_deadline() -> None:
    cluster = Cluster(voters=3)
    cluster.run_until_committed(1)
    leader = cluster.leader()
    follower = cluster.others(leader)[0]
    epoch = leader.running.status.epoch
    cluster.cut(leader)
    for number in range(1, 100):
        if cluster.is_dialed_by(follower, ConnectionId(number)):
            follower.received[ConnectionId(number)] = (500_000, 1_000_000)
    cluster.run(2_500)
    assert (follower.running.status.role, follower.running.status.epoch) == ("follower", epoch), (
        "half of the answer has come"
    )
    cluster.run(5_000)
    assert follower.running.status.epoch > epoch, "nothing more has come"
