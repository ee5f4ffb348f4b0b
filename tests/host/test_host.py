"""Three hosts, and sometimes one: elections, replication, cuts, crashes and malformed messages.

Observers with and without an id: they follow and do nothing else.

An exhausted epoch is repaired as docs/server.md says: stop all nodes, edit one file on each, start them.

The size of one Fetch answer: what the request allows, at least one batch, and whole batches only.

Source: Kafka's ``KafkaRaftClient`` and ``KafkaRaftClientDriver``; KIP-595; KIP-595 (voters and observers); Kafka's
``QuorumState`` (a replica without an id observes); ours (ADR 029); KIP-74 (the first batch comes whole); KIP-595
§Fetch.
"""

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from pykraft.core.messages import FetchRequest, FetchResponse
from pykraft.errors import BufferFullError, NotLeaderError, UsageError
from pykraft.host import producers
from pykraft.host.host import Host
from pykraft.host.ports import ConnectionId
from pykraft.host.producers import Committed, OutcomeUnknown, ProposalOutcome, Rejected
from pykraft.log.fs import write_atomically
from pykraft.log.lane import AppendBytes
from pykraft.log.small_files.quorum_state import CHECK_NAME, FILE_NAME
from pykraft.protocol.api import ApiKey, encode_request
from pykraft.protocol.batch import scan
from pykraft.rpc import codec
from pykraft.types import EPOCH_MAX, Epoch, NodeId, Offset, ReplicaKey
from tests.disks import ScriptedDisk
from tests.host.cluster import Cluster, Machine
from tests.host.fakes import CONTEXT, LISTENER, FakeListener, FakePorts, config


def committed(outcomes: list[ProposalOutcome]) -> Committed:
    (outcome,) = outcomes
    assert isinstance(outcome, Committed)
    return outcome


def values(prefix: str, count: int) -> list[bytes]:
    return [f"{prefix}{number}".encode() for number in range(count)]


def same_logs(cluster: Cluster) -> bool:
    """True when all nodes' files hold the same bytes."""
    cluster.settle()
    return len({machine.log_bytes() for machine in cluster.machines.values()}) == 1


def test_a_leader_is_elected_and_all_hear_of_it(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.run_until_committed(1)
    epoch = leader.running.status.epoch
    for machine in cluster.up:
        assert (machine.running.status.epoch, machine.running.status.leader_id) == (epoch, leader.node_id)
        assert ("leader", epoch, leader.node_id) in machine.listener.calls
        assert machine.running.status.role == ("leader" if machine is leader else "follower")
        assert machine.running.node_id == machine.node_id
        assert machine.stops == []


@pytest.mark.conformance(52)
def test_the_leaders_listener_hears_of_its_leadership_after_the_first_record_of_the_epoch(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.run_until_committed(1)
    own_leadership: tuple[str, int, int | None] = ("leader", leader.running.status.epoch, leader.node_id)
    calls = leader.listener.calls
    assert calls.index((0,)) < calls.index(own_leadership)


@pytest.mark.conformance("H40", "H49")
def test_proposals_are_committed_everywhere_in_order(cluster: Cluster) -> None:
    leader = cluster.leader()
    outcomes = [leader.propose(value) for value in values("v", 20)]
    cluster.run_until_committed(21)
    assert [committed(one).base_offset for one in outcomes] == list(range(1, 21))
    for machine in cluster.up:
        assert machine.listener.values == values("v", 20)
    assert same_logs(cluster)


@pytest.mark.conformance("H48")
def test_values_proposed_together_stay_together() -> None:
    cluster = Cluster(append_linger_ms=10)
    leader = cluster.leader()
    first, second = leader.propose(b"a", b"b"), leader.propose(b"c")
    cluster.run_until_committed(4)
    assert (committed(first).base_offset, committed(first).count) == (1, 2)
    assert (committed(second).base_offset, committed(second).count) == (3, 1)
    assert [one.end_offset - one.base_offset for one in leader.listener.batches] == [1, 3]


@pytest.mark.conformance(9)
def test_a_follower_rejects_and_names_the_leader(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.run_until_committed(1)
    (outcome,) = cluster.others(leader)[0].propose(b"a")
    assert isinstance(outcome, Rejected)
    assert isinstance(outcome.error, NotLeaderError)
    assert outcome.error.leader_id == leader.node_id


def test_a_proposal_without_values_is_refused_at_once() -> None:
    cluster = Cluster(voters=1)
    with pytest.raises(UsageError):
        cluster[1].propose()


def test_a_log_that_diverged_is_cut_back_and_its_proposals_have_no_known_outcome(cluster: Cluster) -> None:
    old = cluster.leader()
    old.propose(b"shared")
    cluster.run_until_committed(2)
    cluster.cut(old)
    lost = old.propose(b"lost 1", b"lost 2")
    cluster.settle()
    others = cluster.others(old)
    cluster.run_until(lambda: any(machine.running.status.role == "leader" for machine in others))
    new = next(machine for machine in others if machine.running.status.role == "leader")
    kept = new.propose(b"kept")
    cluster.run_until(lambda: bool(kept))
    cluster.run_until(lambda: bool(lost))
    assert lost == [OutcomeUnknown(base_offset=Offset(2), epoch=Epoch(1))]
    assert old.log_bytes() != new.log_bytes()
    cluster.heal()
    cluster.run_until_committed(committed(kept).base_offset + 1)
    for machine in cluster.up:
        assert machine.listener.values == [b"shared", b"kept"]
    assert same_logs(cluster)
    assert old.epochs_in_log() == sorted(old.epochs_in_log())


def test_connections_that_keep_breaking_lose_and_double_nothing() -> None:
    cluster = Cluster(append_linger_ms=5)
    expected: list[bytes] = []
    for number in range(40):
        cluster.leader().propose(b"v%d" % number)
        expected.append(b"v%d" % number)
        for _ in range(number % 7):
            cluster._turn()
        cluster.break_all()
    cluster.run_until(lambda: all(len(machine.listener.values) >= len(expected) for machine in cluster.up))
    for machine in cluster.up:
        assert machine.listener.values == expected
    assert same_logs(cluster)


def test_a_killed_node_comes_back_with_its_log_and_reads_it_to_its_listener(cluster: Cluster) -> None:
    leader = cluster.leader()
    for value in values("v", 30):
        leader.propose(value * 50)
    cluster.run_until_committed(31)
    victim = cluster.others(leader)[0]
    victim.crash()
    leader.propose(b"meanwhile")
    cluster.run_until_committed(32, leader)
    victim.start()
    assert victim.running.status.log_end_offset >= 31
    cluster.run_until_committed(32, victim)
    assert victim.listener.values == leader.listener.values
    assert same_logs(cluster)


def test_a_leader_whose_memory_is_empty_serves_an_empty_follower_from_its_files() -> None:
    cluster = Cluster(fetch_size_bytes_max=1_000)
    leader = cluster.leader()
    empty, other = cluster.others(leader)
    empty.crash()
    empty.fs = ScriptedDisk()
    for value in values("v", 30):
        leader.propose(value * 50)
    cluster.run_until_committed(31, leader, other)
    for machine in (leader, other):
        machine.crash()
        machine.start()
    cluster.leader()
    empty.start()
    cluster.run_until_committed(32, empty)
    assert empty.listener.values == [value * 50 for value in values("v", 30)]


def test_all_nodes_killed_keep_what_was_committed(cluster: Cluster) -> None:
    leader = cluster.leader()
    leader.propose(b"kept")
    cluster.run_until_committed(2)
    for machine in cluster.machines.values():
        machine.crash()
    for machine in cluster.machines.values():
        machine.fs.power_loss(Random(machine.node_id))
        machine.start()
    cluster.leader()
    cluster.run_until_committed(3)
    for machine in cluster.up:
        assert machine.listener.values == [b"kept"]


def test_a_vote_is_not_granted_before_it_is_on_disk(cluster: Cluster) -> None:
    for machine in cluster.up[1:]:
        machine.is_disk_stalled = True
    cluster.run(20_000)
    assert all(machine.running.status.role != "leader" for machine in cluster.up)
    for machine in cluster.up:
        machine.is_disk_stalled = False
    cluster.leader()


def test_nothing_is_committed_before_a_majority_has_it_on_disk() -> None:
    cluster = Cluster(fetch_timeout_ms=60_000)
    leader = cluster.leader()
    cluster.run_until_committed(1)
    for machine in cluster.others(leader):
        machine.is_disk_stalled = True
    outcomes = leader.propose(b"a")
    cluster.run(1_000)
    assert outcomes == []
    assert any(machine.jobs for machine in cluster.others(leader))
    cluster.others(leader)[0].is_disk_stalled = False
    cluster.run_until(lambda: bool(outcomes))
    assert committed(outcomes).base_offset == 1


def test_followers_are_sent_what_the_leader_has_not_flushed_and_may_commit_it_without_the_leaders_disk() -> None:
    cluster = Cluster(fetch_timeout_ms=60_000)
    leader = cluster.leader()
    cluster.run_until_committed(1)
    leader.is_disk_stalled = True
    outcomes = leader.propose(b"a")
    cluster.run_until(lambda: bool(outcomes))
    assert committed(outcomes).base_offset == 1
    assert leader.listener.values == [b"a"]
    assert any(isinstance(job, AppendBytes) for job in leader.jobs)


def test_one_flushed_follower_is_no_majority_without_the_leaders_own_flush() -> None:
    cluster = Cluster(fetch_timeout_ms=60_000)
    leader = cluster.leader()
    cluster.run_until_committed(1)
    leader.is_disk_stalled = cluster.others(leader)[0].is_disk_stalled = True
    outcomes = leader.propose(b"a")
    cluster.run(1_000)
    assert outcomes == []
    leader.is_disk_stalled = False
    cluster.run_until(lambda: bool(outcomes))


@pytest.mark.conformance(49)
def test_a_lonely_voter_leads_and_commits_what_it_has_flushed() -> None:
    cluster = Cluster(voters=1)
    node = cluster[1]
    assert node.running.status.role == "leader"
    outcomes = node.propose(b"a")
    assert outcomes == []
    node.flush()
    assert committed(outcomes).base_offset == 1
    assert node.listener.values == [b"a"]
    assert node.running.status.high_watermark == 2


@pytest.mark.conformance("H49")
def test_a_late_listener_is_given_everything() -> None:
    cluster = Cluster(voters=1)
    node = cluster[1]
    node.propose(b"a")
    cluster.settle()
    late = FakeListener()
    node.running.register(late)
    assert late.values == [b"a"]
    assert ("leader", 1, 1) in late.calls


@pytest.mark.conformance(52)
@pytest.mark.parametrize("role", ["resigned", "prospective", "candidate", "unattached-voted", "follower"])
def test_what_is_known_to_be_committed_is_given_in_every_state(cluster: Cluster, role: str) -> None:
    leader = cluster.leader()
    leader.propose(b"a")
    cluster.run_until_committed(2)
    cluster.settle()
    others = cluster.others(leader)
    epoch = leader.running.status.epoch
    if role == "resigned":
        cluster.cut(leader)
    elif role != "follower":
        leader.crash()
    inside = [leader] if role == "resigned" else others
    cluster.run_until(lambda: any(machine.running.status.role.startswith(role) for machine in inside))
    machine = next(machine for machine in inside if machine.running.status.role.startswith(role))
    late = FakeListener()
    machine.running.register(late)
    assert machine.running.status.role.startswith(role)
    assert late.values == [b"a"]
    known = ("leader", machine.running.status.epoch, machine.running.status.leader_id)
    assert [call for call in late.calls if call[0] == "leader"] == ([] if role == "resigned" else [known])
    assert (machine.running.status.epoch > epoch) == (role in ("candidate", "unattached-voted"))


def test_too_many_undecided_proposals_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "UNDECIDED_PROPOSALS_MAX", 1)
    node = Cluster(voters=1)[1]
    first = node.propose(b"a")
    (outcome,) = node.propose(b"b")
    assert isinstance(outcome, Rejected)
    assert isinstance(outcome.error, BufferFullError)
    assert first == []


def test_before_the_start_the_disk_says_how_things_are(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.run_until_committed(1)
    leader.crash()
    host = Host.open(leader.fs, FakePorts(), leader.config, rng=Random(1))
    assert (host.status.epoch, host.status.role, host.status.leader_id, host.status.high_watermark) == (
        1,
        "unattached",
        None,
        None,
    )
    assert (host.status.log_start_offset, host.status.log_end_offset) == (0, 1)


def test_describe_cluster_names_the_leader(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.run_until_committed(1)
    parts = encode_request(ApiKey.DESCRIBE_CLUSTER, 2, 9, None, {"endpoint_type": 2})
    machine = cluster.others(leader)[0]
    machine.running.on_accepted(ConnectionId(99), LISTENER, cluster.now)
    machine.running.on_frame(ConnectionId(99), b"".join(bytes(part) for part in parts), cluster.now)
    cluster.settle()
    [answer] = [data for connection, data in machine.sent if connection == 99]
    assert f"node{leader.node_id}".encode() in answer


def test_garbage_closes_its_connection_and_the_node_goes_on(cluster: Cluster) -> None:
    leader = cluster.leader()
    for number, raw in enumerate([b"", b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100], start=500):
        leader.running.on_accepted(ConnectionId(number), LISTENER, cluster.now)
        leader.running.on_frame(ConnectionId(number), raw, cluster.now)
    assert len([text for text in leader.reports if text.startswith("closing connection")]) == 4
    leader.propose(b"still alive")
    cluster.run_until_committed(2)


def test_a_peer_that_answers_nonsense_is_left_and_asked_again(cluster: Cluster) -> None:
    leader = cluster.leader()
    follower = cluster.others(leader)[0]
    wire = next(wire for wire in cluster._wires.values() if wire.dialer is follower and wire.accepter is leader)
    follower.running.on_frame(wire.id, b"nonsense", cluster.now)
    leader.propose(b"a")
    cluster.run_until_committed(2)
    assert any("closing the connection to peer" in text for text in follower.reports)


def test_a_request_that_no_correct_replica_sends_closes_its_connection(cluster: Cluster) -> None:
    leader = cluster.leader()
    partition = {"partition_index": 0, "leader_id": 99, "leader_epoch": leader.running.status.epoch}
    topics = [{"topic_name": "a-topic", "partitions": [partition]}]
    endpoints = [{"name": LISTENER, "host": "elsewhere", "port": 1}]
    body = {"cluster_id": None, "voter_id": -1, "topics": topics, "leader_endpoints": endpoints}
    parts = encode_request(ApiKey.BEGIN_QUORUM_EPOCH, 1, 9, None, body)
    leader.running.on_accepted(ConnectionId(500), LISTENER, cluster.now)
    leader.running.on_frame(ConnectionId(500), b"".join(bytes(part) for part in parts), cluster.now)
    assert "closing connection 500" in leader.reports[-1]
    assert leader.running.status.role == "leader"


def test_closing_gives_up_the_lock_and_keeps_the_log() -> None:
    cluster = Cluster(voters=1)
    node = cluster[1]
    node.propose(b"a")
    node.flush()
    node.leave()
    node.start()
    cluster.run_until_committed(3)
    assert node.listener.values == [b"a"]


def test_a_directory_is_used_by_one_host_at_a_time() -> None:
    node: Machine = Cluster(voters=1)[1]
    with pytest.raises(Exception, match="lock"):
        Host.open(node.fs, FakePorts(), node.config, rng=Random(1))


def test_what_recovery_found_is_reported() -> None:
    cluster = Cluster(voters=1)
    node = cluster[1]
    node.propose(b"a")
    node.flush()
    node.crash()
    segment = node.config.partition_directory / f"{0:020d}.log"
    node.fs.write(segment, node.log_bytes() + b"torn")
    node.start()
    assert any("torn tail" in text for text in node.reports)


@pytest.mark.conformance(37, 53)
@pytest.mark.parametrize("node_id", [NodeId(4), None])
def test_an_observer_with_or_without_an_id_follows_and_never_campaigns(node_id: NodeId | None) -> None:
    cluster = Cluster()
    leader = cluster.leader()
    observer = cluster.add(4, replace(config(4), node_id=node_id))
    leader.propose(b"seen")
    cluster.run_until_committed(2)
    assert observer.listener.values == [b"seen"]
    assert (observer.running.node_id, observer.running.status.role) == (node_id, "observer")
    assert same_logs(cluster)
    cluster.cut(observer)
    cluster.run(10_000)
    assert observer.running.status.epoch == leader.running.status.epoch
    assert observer.running.status.role == "observer"
    (outcome,) = observer.propose(b"not here")
    assert isinstance(outcome, Rejected)


@pytest.mark.conformance(53)
def test_an_observer_without_an_id_starts_again_where_its_log_ends(cluster: Cluster) -> None:
    cluster.leader().propose(b"first")
    observer = cluster.add(4, replace(config(4), node_id=None, directory_id=None))
    cluster.run_until_committed(2)
    cluster.settle()
    observer.crash()
    cluster.leader().propose(b"second")
    observer.start()
    assert observer.running.status.log_end_offset == 2
    cluster.run_until_committed(3)
    assert observer.listener.values == [b"first", b"second"]


ROOT = Path(__file__).parents[2]


def edit(machine: Machine, epoch: int) -> None:
    """What the page says: another epoch, nobody leads, no vote; the check file goes."""
    path = machine.config.partition_directory / FILE_NAME
    fields = json.loads(machine.fs.read(path)) | {"leaderEpoch": epoch, "leaderId": -1, "votedId": -1}
    write_atomically(machine.fs, path, json.dumps(fields).encode())
    machine.fs.remove(machine.config.partition_directory / CHECK_NAME)


def stopped_quorum() -> Cluster:
    """Three nodes that have committed something; all are down."""
    cluster = Cluster()
    cluster.leader().propose(b"kept")
    cluster.run_until_committed(2)
    cluster.settle()
    for machine in cluster.machines.values():
        machine.crash()
    return cluster


def start(cluster: Cluster) -> None:
    for machine in cluster.machines.values():
        machine.start()


def test_an_exhausted_epoch_is_lowered_with_all_nodes_down_and_nothing_is_lost() -> None:
    cluster = stopped_quorum()
    for machine in cluster.machines.values():
        edit(machine, EPOCH_MAX)
    start(cluster)
    cluster.run(20_000)
    assert {machine.running.status.role for machine in cluster.up} == {"unattached"}
    for machine in cluster.machines.values():
        machine.crash()
    last_epoch = max(epoch for machine in cluster.machines.values() for epoch in machine.epochs_in_log())
    for machine in cluster.machines.values():
        edit(machine, last_epoch + 1)
    start(cluster)
    leader = cluster.leader()
    assert leader.running.status.epoch == last_epoch + 2
    leader.propose(b"new")
    cluster.run_until_committed(4)
    assert [machine.listener.values for machine in cluster.up] == [[b"kept", b"new"]] * 3


def test_the_page_names_what_this_test_does() -> None:
    page = (ROOT / "docs" / "server.md").read_text()
    section = page.split("### An exhausted epoch")[1].split("\n## ")[0]
    for word in ('"leaderEpoch"', '"leaderId":-1', '"votedId":-1', CHECK_NAME, FILE_NAME, "dump"):
        assert word in section


CLIENT = ConnectionId(500)
FETCH_VERSION = 17
FIRST_OFFSET = 1
"""Of the batches that are asked for; the leader's own is before them."""


def leader_of_three_batches(*, in_files: bool) -> tuple[Cluster, Machine, int]:
    """A lonely leader with three batches of the same size, and that size."""
    cluster = Cluster(voters=1)
    machine = cluster[1]
    for _ in range(3):
        machine.propose(bytes(200))
        machine.flush()
    if in_files:
        machine.leave()
        machine.start()
        machine.flush()
    sizes = [header.size_bytes for _, header in scan(machine.log_bytes())]
    assert sizes[1] == sizes[2] == sizes[3]
    return cluster, machine, sizes[1]


def fetched(
    cluster: Cluster, machine: Machine, size_bytes_max: int, *, offset: int = FIRST_OFFSET, by: ReplicaKey | None = None
) -> bytes:
    """The records of the answer to a Fetch, an observer's without id unless ``by`` says whose."""
    request = FetchRequest(
        replica=by,
        epoch=machine.running.status.epoch,
        fetch_offset=Offset(offset),
        last_fetched_epoch=Epoch(1),
        wait_ms_max=0,
        size_bytes_max=size_bytes_max,
        high_watermark=None,
    )
    frame = b"".join(codec.encode_request(request, FETCH_VERSION, 7, "a-client", CONTEXT))
    machine.running.on_accepted(CLIENT, LISTENER, cluster.now)
    machine.running.on_frame(CLIENT, frame, cluster.now)
    cluster.settle()
    answer = codec.decode_answer(ApiKey.FETCH, FETCH_VERSION, machine.sent[-1][1], CONTEXT)
    assert isinstance(answer.message, FetchResponse)
    assert answer.message.error == 0
    return bytes(answer.records)


def test_fetch_within_a_batch_acknowledges_no_proposal_of_that_batch() -> None:
    cluster = Cluster(append_linger_ms=10)
    leader = cluster.leader()
    cluster.run_until_committed(1)
    cluster.cut(leader)
    first, second = leader.propose(b"a", b"b"), leader.propose(b"c")
    cluster.run(20)
    follower = ReplicaKey(NodeId(cluster.others(leader)[0].node_id))
    for offset in (3, 2):
        # The answer brings the whole batch again: the follower has nothing of it.
        assert fetched(cluster, leader, 1, offset=offset, by=follower)
        assert (first, second, leader.running.status.committed_end_offset) == ([], [], 1)
    assert fetched(cluster, leader, 1, offset=4, by=follower) == b""
    assert (committed(first).base_offset, committed(second).base_offset) == (1, 3)


@pytest.mark.conformance(143)
@pytest.mark.parametrize("in_files", [False, True])
@pytest.mark.parametrize(
    ("times", "less", "count"), [(0, -1, 1), (1, 0, 1), (1, 1, 1), (2, 0, 2), (2, 1, 1), (3, 1, 2), (3, 0, 3)]
)
def test_the_requests_limit_holds_but_for_the_first_batch(times: int, less: int, count: int, *, in_files: bool) -> None:
    cluster, machine, size_bytes = leader_of_three_batches(in_files=in_files)
    records = fetched(cluster, machine, times * size_bytes - less)
    assert len(records) == count * size_bytes
    assert [header.base_offset for _, header in scan(records)] == [FIRST_OFFSET + at for at in range(count)]
