"""What the application may ask of its node: prepared appends, resigning, leaving.

Source: Kafka's ``RaftClient.prepareAppend``, ``schedulePreparedAppend``, ``resign`` and ``shutdown``.
"""

from dataclasses import replace

import pytest

from pykraft.errors import BufferFullError, NotLeaderError, NotRunningError, UsageError
from pykraft.host import producers
from pykraft.host.producers import Committed, ProposalOutcome, Rejected
from pykraft.types import Epoch, NodeId, Offset
from tests.host.cluster import Cluster
from tests.host.fakes import config


@pytest.mark.conformance(12)
def test_only_an_epoch_that_is_led_here_can_be_resigned_from(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.run_until_committed(1)
    epoch = leader.running.status.epoch
    follower = cluster.others(leader)[0]
    observer = cluster.add(4, replace(config(4), node_id=None))
    for machine, wrong in ((leader, epoch + 1), (leader, -1), (follower, epoch), (observer, epoch)):
        with pytest.raises(UsageError):
            machine.running.resign(Epoch(wrong), cluster.now)
    assert leader.running.status.role == "leader"
    leader.running.resign(epoch, cluster.now)
    leader.running.resign(epoch, cluster.now)


@pytest.mark.conformance(112)
def test_appends_that_are_prepared_become_visible_together() -> None:
    cluster = Cluster(voters=1)
    node = cluster[1]
    node.flush()
    accepted: list[Offset] = []
    outcomes: list[ProposalOutcome] = []
    for value in (b"a", b"b"):
        node.running.propose(
            [value, value],
            epoch=node.running.status.epoch,
            now=cluster.now,
            on_outcome=outcomes.append,
            on_accepted=accepted.append,
            is_prepared=True,
        )
    node.flush()
    assert (accepted, outcomes, node.listener.values) == ([1, 3], [], [])
    node.running.schedule_prepared(cluster.now)
    node.flush()
    assert node.listener.values == [b"a", b"a", b"b", b"b"]
    assert [outcome.base_offset for outcome in outcomes if isinstance(outcome, Committed)] == [1, 3]


@pytest.mark.conformance(112)
def test_an_append_goes_through_when_prepared_ones_fill_the_buffer() -> None:
    cluster = Cluster(voters=1, batch_size_bytes_max=1_024, accumulated_batches_max=2)
    node = cluster[1]
    node.flush()
    prepared: list[ProposalOutcome] = []
    for number in range(4):
        node.running.propose(
            [b"%d" % number * 600],
            epoch=node.running.status.epoch,
            now=cluster.now,
            on_outcome=prepared.append,
            is_prepared=True,
        )
    assert [type(outcome) for outcome in prepared] == [Rejected, Rejected]
    outcomes = node.propose(b"p" * 600)
    cluster.settle()
    node.flush()
    assert [type(outcome) for outcome in outcomes] == [Committed]
    assert [type(outcome) for outcome in prepared] == [Rejected, Rejected, Committed, Committed]
    assert node.listener.values == [b"0" * 600, b"1" * 600, b"p" * 600]


@pytest.mark.conformance(112)
def test_an_append_that_is_one_too_many_schedules_the_prepared_ones_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "UNDECIDED_PROPOSALS_MAX", 2)
    cluster = Cluster(voters=1)
    node = cluster[1]
    node.flush()
    prepared: list[ProposalOutcome] = []
    for _ in range(2):
        node.running.propose(
            [b"a"], epoch=node.running.status.epoch, now=cluster.now, on_outcome=prepared.append, is_prepared=True
        )
    (refused,) = node.propose(b"b")
    assert isinstance(refused, Rejected)
    assert isinstance(refused.error, BufferFullError)
    node.flush()
    assert [type(outcome) for outcome in prepared] == [Committed, Committed]
    outcomes = node.propose(b"b")
    node.flush()
    assert [type(outcome) for outcome in outcomes] == [Committed]


def test_a_node_that_does_not_lead_has_nothing_to_schedule(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.run_until_committed(1)
    with pytest.raises(NotLeaderError, match=f"the leader is node {leader.node_id}"):
        cluster.others(leader)[0].running.schedule_prepared(cluster.now)
    leader.running.resign(leader.running.status.epoch, cluster.now)
    with pytest.raises(NotLeaderError, match="no leader is known"):
        leader.running.schedule_prepared(cluster.now)


def test_a_leader_that_leaves_hands_over_and_stops(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.run_until_committed(1)
    leader.running.shutdown(5_000, cluster.now)
    cluster.run_until(lambda: bool(leader.stops), limit_ms=2_000)
    assert leader.stops == [None]
    assert leader.running.is_left_gracefully
    leader.leave()
    new = cluster.leader()
    assert new is not leader
    leader.start()
    new.propose(b"a")
    cluster.run_until(lambda: leader.listener.values == [b"a"])


@pytest.mark.conformance(12)
def test_a_leader_can_resign(cluster: Cluster) -> None:
    leader = cluster.leader()
    epoch = leader.running.status.epoch
    leader.running.resign(Epoch(epoch - 1), cluster.now)
    assert leader.running.status.role == "leader"
    leader.running.resign(epoch, cluster.now)
    assert leader.running.status.role == "resigned"
    cluster.run_until(lambda: cluster.leader().running.status.epoch > epoch)


def test_a_leader_can_say_who_leads_next() -> None:
    cluster = Cluster(voters=5)
    leader = cluster.leader()
    cluster.run_until_committed(1)
    target = cluster.others(leader)[2]
    told: list[Exception | None] = []
    outcomes = leader.propose(b"a")
    host = leader.running
    host.transfer_leadership(
        target.running.node_id or NodeId(0),
        epoch=host.status.epoch,
        timeout_ms=500,
        now=cluster.now,
        on_outcome=told.append,
    )
    cluster.run_until(lambda: bool(told), limit_ms=1_000)
    assert told == [None]
    assert cluster.leader() is target
    assert [type(outcome) for outcome in outcomes] == [Committed], "no outcome is in doubt because of a transfer"


def test_a_node_that_stops_transfers_nothing_any_more(cluster: Cluster) -> None:
    leader = cluster.leader()
    host = leader.running
    host.shutdown(5_000, cluster.now)
    cluster.run_until(lambda: bool(leader.stops), limit_ms=2_000)
    told: list[Exception | None] = []
    host.transfer_leadership(
        NodeId(2), epoch=host.status.epoch, timeout_ms=500, now=cluster.now, on_outcome=told.append
    )
    assert [type(error) for error in told] == [NotRunningError]


@pytest.mark.conformance(137)
def test_a_static_quorum_is_upgraded_once_its_voters_told_who_they_are(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.run_until_committed(1)
    host = leader.running
    told: list[Exception | None] = []

    def upgrade(version: int, *, validate_only: bool = False) -> Exception | None:
        host.upgrade_kraft_version(
            version, epoch=host.status.epoch, now=cluster.now, on_outcome=told.append, validate_only=validate_only
        )
        return told.pop()

    assert "has not reported its directory id to this leader yet" in str(upgrade(1))
    cluster.run_until(lambda: upgrade(1, validate_only=True) is None)
    assert (host.status.kraft_version, host.status.voters.ids) == (0, (1, 2, 3))
    assert upgrade(1) is None
    cluster.run_until(lambda: all(machine.running.status.kraft_version == 1 for machine in cluster.up))
    for machine in cluster.up:
        keys = {voter.key.directory_id for voter in machine.running.status.voters.voters}
        assert keys == {config(node_id).directory_id for node_id in (1, 2, 3)}
    assert isinstance(upgrade(0), UsageError)
    host.shutdown(5_000, cluster.now)
    cluster.run_until(lambda: bool(leader.stops), limit_ms=2_000)
    assert isinstance(upgrade(1), NotRunningError)


def test_what_reads_files_for_the_application_runs_where_files_are_read(cluster: Cluster) -> None:
    machine = cluster.leader()
    cluster.settle()
    done: list[str] = []

    def read() -> str:
        done.append("read")
        return "told"

    machine.running.read_snapshot(read, done.append)
    assert done == []
    cluster.settle()
    assert done == ["read", "told"]


def test_a_commit_that_a_follower_hears_of_reaches_its_listener_before_the_next_fetch(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.run_until_committed(1)
    follower = cluster.others(leader)[0]
    host, epoch = follower.running, leader.running.status.epoch
    leader.propose(b"a")
    end_offset = leader.running.status.log_end_offset
    cluster.run_until(lambda: leader.running.status.high_watermark == end_offset)
    assert (host.status.log_end_offset, host.status.high_watermark) == (end_offset, end_offset - 1)
    host.note_commit(epoch, Offset(-1), cluster.now)
    assert follower.listener.values == []
    host.note_commit(epoch, end_offset, cluster.now)
    assert (host.status.high_watermark, follower.listener.values) == (end_offset, [b"a"])
    follower.crash()
    host.note_commit(epoch, Offset(end_offset + 1), cluster.now)
    assert host.status.high_watermark == end_offset
