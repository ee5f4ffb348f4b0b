"""The sums in a description of the quorum, computed as Kafka's tool does, and the verdict on it."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from pykraft.client.remote.quorum import (
    Health,
    Quorum,
    ReplicaState,
    Role,
    VoterProblem,
    age,
    follows,
    quorum_of,
    verdict_on,
)
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


def test_voters_are_asked_at_their_first_listener_if_one_is_known() -> None:
    found = described(row(1, 90, 900), row(2, 100, 1_000), row(3, 95, 950))
    assert found.endpoints == dict.fromkeys((1, 2), next(iter(LISTENERS))[1])


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


NOW_MS = 1_000_000
LEADER = (100, NOW_MS, NOW_MS)
Row = tuple[int, int, int]
"""Log end offset, wall ms of the last fetch, wall ms at which it was last caught up."""


def quorum(voters: Mapping[int, Row], *, high_watermark: int | None = 100, **asked: VoterProblem) -> Quorum:
    """A quorum led by node 1; ``asked`` has the problems of voters, such as v2."""
    rows = tuple(
        DescribedReplica(
            key=ReplicaKey(NodeId(voter_id)),
            log_end_offset=end_offset,
            last_fetch_timestamp=fetched_ms,
            last_caught_up_timestamp=caught_up_ms,
        )
        for voter_id, (end_offset, fetched_ms, caught_up_ms) in voters.items()
    )
    answer = DescribeQuorumResponse(
        error=0,
        leader_id=NodeId(1),
        epoch=Epoch(4),
        high_watermark=None if high_watermark is None else Offset(high_watermark),
        voters=rows,
    )
    problems = {NodeId(int(name[1:])): problem for name, problem in asked.items()}
    return replace(quorum_of("cluster", answer, NodeId(1)), problems=problems)


def ago(seconds: float) -> int:
    return NOW_MS - round(seconds * 1_000)


GOOD: Row = (98, ago(0.2), ago(0.6))
REFUSED = VoterProblem(text="n3:9: connection refused", is_refused=True)
FAR = VoterProblem(text="n3:9: nothing accepted a connection within 1 s")
UNPROVEN = VoterProblem(text="its directory is unproven", is_own=True)
VERDICTS: dict[str, tuple[Quorum, str]] = {
    "healthy": (quorum({1: LEADER, 2: GOOD, 3: GOOD}), "healthy: 3 of 3 voters follow leader 1 in epoch 4"),
    "alone": (quorum({1: LEADER}), "healthy: 1 of 1 voter follows leader 1 in epoch 4"),
    "a leader that removes itself": (quorum({2: GOOD, 3: GOOD}), "healthy: 2 of 2 voters follow leader 1 in epoch 4"),
    "no voters at all": (quorum({}), "healthy: 0 of 0 voters follow leader 1 in epoch 4"),
    "behind": (
        quorum({1: (12_104, NOW_MS, NOW_MS), 2: GOOD, 3: (100, ago(0.1), ago(40))}),
        "at risk: voter 3 is 12,004 records behind, last caught up 40 s ago; 3 of 3 voters follow leader 1 in epoch 4",
    ),
    "silent": (
        quorum({1: LEADER, 2: GOOD, 3: (99, ago(300), ago(300))}),
        (
            "at risk: voter 3 last fetched 5 min ago and is 1 record behind; 2 of 3 voters follow leader 1 in epoch 4, "
            "just a majority: if one more fails, nothing commits"
        ),
    ),
    "silent with a whole log": (
        quorum({1: LEADER, 2: GOOD, 3: GOOD, 4: GOOD, 5: (100, ago(9), ago(9))}),
        "at risk: voter 5 last fetched 9 s ago; 4 of 5 voters follow leader 1 in epoch 4",
    ),
    "never heard of": (
        quorum({1: LEADER, 2: (-1, -1, -1), 3: (40, ago(0.1), -1)}, high_watermark=None),
        (
            "at risk: voter 2 has not fetched from leader 1 yet; voter 3 is 60 records behind and has not caught up "
            "yet; leader 1 has not committed a record of its epoch yet; 2 of 3 voters follow leader 1 in epoch 4, just "
            "a majority: if one more fails, nothing commits"
        ),
    ),
    "both followers died a moment ago": (
        quorum({1: LEADER, 2: (100, ago(1.6), ago(1.6)), 3: (100, ago(1.7), ago(1.7))}),
        (
            "at risk: voter 2 last fetched 1 s ago; voter 3 last fetched 1 s ago; 1 of 3 voters follows leader 1 in "
            "epoch 4, fewer than the majority of 2: nothing commits"
        ),
    ),
    "its machine says at once that one died": (
        quorum({1: LEADER, 2: GOOD, 3: (100, ago(0.3), ago(0.3))}, v3=REFUSED),
        (
            "at risk: voter 3 last fetched 300 ms ago (n3:9: connection refused); 2 of 3 voters follow leader 1 in "
            "epoch 4, just a majority: if one more fails, nothing commits"
        ),
    ),
    "the leader reaches a voter that we do not": (
        quorum({1: LEADER, 2: GOOD, 3: GOOD}, v3=FAR),
        "healthy: 3 of 3 voters follow leader 1 in epoch 4",
    ),
    "nobody reaches a voter": (
        quorum({1: LEADER, 2: GOOD, 3: (100, ago(4), ago(4))}, v3=FAR),
        (
            "at risk: voter 3 last fetched 4 s ago (n3:9: nothing accepted a connection within 1 s); 2 of 3 voters "
            "follow leader 1 in epoch 4, just a majority: if one more fails, nothing commits"
        ),
    ),
    "it follows but cannot vote": (
        quorum({1: LEADER, 2: GOOD, 3: GOOD}, v3=VoterProblem(text="it is in quarantine", is_own=True)),
        "at risk: voter 3: it is in quarantine; 3 of 3 voters follow leader 1 in epoch 4",
    ),
    "it does not follow, and says why": (
        quorum({1: LEADER, 2: GOOD, 3: (-1, -1, -1)}, v3=UNPROVEN),
        (
            "at risk: voter 3 has not fetched from leader 1 yet (its directory is unproven); 2 of 3 voters follow "
            "leader 1 in epoch 4, just a majority: if one more fails, nothing commits"
        ),
    ),
    "without a majority": (
        quorum({1: LEADER, 2: (-1, -1, -1), 3: (100, ago(6), ago(6))}),
        (
            "at risk: voter 2 has not fetched from leader 1 yet; voter 3 last fetched 6 s ago; 1 of 3 voters follows "
            "leader 1 in epoch 4, fewer than the majority of 2: nothing commits"
        ),
    ),
}


@pytest.mark.parametrize(("found", "told"), VERDICTS.values(), ids=VERDICTS)
def test_verdicts(found: Quorum, told: str) -> None:
    assert str(verdict_on(found)) == told


def test_voters_of_one_address_are_told() -> None:
    found = quorum({1: LEADER, 2: GOOD, 3: GOOD})
    at = Listeners((("CONTROLLER", Endpoint("n2", 9)),))
    shared = tuple(voter if voter.key.id == 1 else replace(voter, listeners=at) for voter in found.voters)
    assert str(verdict_on(replace(found, voters=shared))) == (
        "at risk: voters 2 and 3 have one address, n2:9: remove or move the wrong one; "
        "3 of 3 voters follow leader 1 in epoch 4"
    )


def test_of_many_problems_a_few_are_told() -> None:
    verdict = verdict_on(quorum({1: LEADER, **dict.fromkeys(range(2, 10), (-1, -1, -1))}))
    assert verdict.health is Health.AT_RISK
    assert verdict.detail.count("has not fetched") == 5
    assert "; problems of 3 more voters; " in verdict.detail


def test_an_answer_is_as_old_as_its_latest_row_if_the_leader_is_in_none() -> None:
    found = quorum({2: (100, 700, 700), 3: (100, 900, 900)})
    assert found.answered_ms == 900
    assert all(follows(found, each) for each in found.voters)
    assert isinstance(found.voters[0], ReplicaState)


def test_ages() -> None:
    durations = (0, 999, 1_000, 119_999, 120_000, 7_200_000, 172_800_000)
    assert [age(each) for each in durations] == ["0 ms", "999 ms", "1 s", "119 s", "2 min", "2 h", "2 d"]
