"""The sums in a description of the quorum, computed as Kafka's tool does."""

from __future__ import annotations

from pykraft.client.remote.quorum import Quorum, Role, quorum_of
from pykraft.core.messages import DescribedReplica, DescribeQuorumResponse
from pykraft.types import Endpoint, Epoch, Listeners, NodeId, Offset, ReplicaKey, Voter

LISTENERS = Listeners((("CONTROLLER", Endpoint("localhost", 9093)),))


def row(node_id: int, end_offset: int, caught_up_ms: int) -> DescribedReplica:
    return DescribedReplica(
        key=ReplicaKey(NodeId(node_id)),
        log_end_offset=end_offset,
        last_fetch_timestamp=caught_up_ms,
        last_caught_up_timestamp=caught_up_ms,
    )


def described(*voters: DescribedReplica, leader_id: int = 2) -> Quorum:
    answer = DescribeQuorumResponse(
        error=0,
        leader_id=NodeId(leader_id),
        epoch=Epoch(7),
        high_watermark=Offset(90),
        voters=voters,
        observers=(row(8, 70, 400),),
        nodes=tuple(Voter(key=ReplicaKey(NodeId(i)), listeners=LISTENERS) for i in (1, 2, 8)),
    )
    return quorum_of("cluster", answer, NodeId(leader_id))


def test_the_leader_comes_first_then_voters_then_observers() -> None:
    found = described(row(1, 90, 900), row(2, 100, 1_000), row(3, 95, 950))
    assert [(each.key.id, each.role) for each in found.replicas] == [
        (2, Role.LEADER),
        (1, Role.FOLLOWER),
        (3, Role.FOLLOWER),
        (8, Role.OBSERVER),
    ]
    assert [found.lag(each) for each in found.replicas] == [0, 10, 5, 30]
    assert (found.cluster_id, found.epoch, found.high_watermark) == ("cluster", 7, 90)


def test_listeners_are_those_of_voters() -> None:
    found = described(row(1, 90, 900), row(2, 100, 1_000), row(3, 95, 950))
    assert [each.listeners for each in found.voters] == [LISTENERS, LISTENERS, Listeners()]
    assert found.observers[0].listeners == Listeners()


def test_followers_are_those_with_a_known_listener() -> None:
    found = described(row(1, 90, 900), row(2, 100, 1_000), row(3, 95, 950))
    assert found.followers == {1: next(iter(LISTENERS))[1]}


def test_a_leader_may_be_without_an_address() -> None:
    leader, other = row(2, 100, 1_000), row(3, 95, 950)
    assert described(leader, other).leader_endpoint == next(iter(LISTENERS))[1]
    assert described(leader, other, leader_id=3).leader_endpoint is None
    assert described(other).leader_endpoint is None


def test_the_last_voter_decides_how_far_the_quorum_is_behind() -> None:
    found = described(row(1, 90, 900), row(2, 100, 1_000), row(3, 95, 950))
    assert (found.max_follower_lag, found.max_follower_lag_ms) == (10, 100)


def test_a_voter_that_never_fetched_counts_from_minus_one() -> None:
    found = described(row(1, -1, -1), row(2, 119, 1_000))
    assert found.lag(found.voters[0]) == 120
    assert (found.max_follower_lag, found.max_follower_lag_ms) == (120, -1)


def test_with_equal_logs_the_first_voter_is_the_last_one() -> None:
    assert described(row(1, 100, 900), row(2, 100, 1_000)).max_follower_lag_ms == 100
    assert described(row(2, 100, 1_000), row(3, 100, 900)).max_follower_lag_ms == 0


def test_a_leader_that_is_no_voter_any_more_leaves_lags_unknown() -> None:
    found = described(row(1, 90, 900), leader_id=2)
    assert (found.lag(found.voters[0]), found.max_follower_lag, found.max_follower_lag_ms) == (-1, -1, -1)
    assert described(leader_id=2).max_follower_lag_ms == -1
