"""Kafka's two views of a quorum, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pykraft.cli.quorum.views import row_json, status_json, status_lines, table, table_lines
from pykraft.client.remote.quorum import Quorum, quorum_of
from pykraft.core.messages import DescribedReplica, DescribeQuorumResponse
from pykraft.types import Endpoint, Epoch, Listeners, NodeId, Offset, ReplicaKey, Voter, uuid_parse

DIRECTORIES = {
    1: uuid_parse("vksxUemDQN6RjE6fpARBQA"),
    2: uuid_parse("k_Eg7DHZQauczDshubdK-A"),
    3: uuid_parse("2qvrHv9jQzGNjZgHrJmleg"),
    4: uuid_parse("utQCuoLc1u2hIU5LWR0auA"),
}
STATUS = """\
ClusterId:              1OvTGIWWQja7V48VYOvAtg
LeaderId:               2
LeaderEpoch:            1
HighWatermark:          32
MaxFollowerLag:         0
MaxFollowerLagTimeMs:   230
CurrentVoters:          [{"id": 1, "directoryId": "vksxUemDQN6RjE6fpARBQA", "endpoints": \
["CONTROLLER://127.0.0.1:21310"]}, {"id": 2, "directoryId": "k_Eg7DHZQauczDshubdK-A", "endpoints": \
["CONTROLLER://127.0.0.1:21311"]}, {"id": 3, "directoryId": "2qvrHv9jQzGNjZgHrJmleg", "endpoints": \
["CONTROLLER://127.0.0.1:21312"]}]
CurrentObservers:       [{"id": 4, "directoryId": "utQCuoLc1u2hIU5LWR0auA"}]
"""
"""As Kafka 4.3.1 printed it of a quorum of its own."""
AGES = """\
NodeId\tDirectoryId           \tLogEndOffset\tLag\tLastFetchTimestamp\tLastCaughtUpTimestamp\tStatus  \t
2     \tk_Eg7DHZQauczDshubdK-A\t33          \t0  \t7 ms ago          \t7 ms ago             \tLeader  \t
1     \tvksxUemDQN6RjE6fpARBQA\t33          \t0  \t192 ms ago        \t192 ms ago           \tFollower\t
3     \t2qvrHv9jQzGNjZgHrJmleg\t33          \t0  \t168 ms ago        \t168 ms ago           \tFollower\t
4     \tutQCuoLc1u2hIU5LWR0auA\t33          \t0  \t188 ms ago        \t188 ms ago           \tObserver\t
"""
TIMES = """\
NodeId\tDirectoryId           \tLogEndOffset\tLag\tLastFetchTimestamp\tLastCaughtUpTimestamp\tStatus  \t
1     \tvksxUemDQN6RjE6fpARBQA\t119         \t0  \t1795229337347     \t1795229337347        \tLeader  \t
2     \tk_Eg7DHZQauczDshubdK-A\t-1          \t120\t-1                \t-1                   \tFollower\t
"""


def row(node_id: int, end_offset: int, ms: int) -> DescribedReplica:
    return DescribedReplica(
        key=ReplicaKey(NodeId(node_id), DIRECTORIES[node_id]),
        log_end_offset=end_offset,
        last_fetch_timestamp=ms,
        last_caught_up_timestamp=ms,
    )


def described(
    voters: Sequence[DescribedReplica], observers: Sequence[DescribedReplica] = (), *, leader_id: int = 2
) -> Quorum:
    answer = DescribeQuorumResponse(
        error=0,
        leader_id=NodeId(leader_id),
        epoch=Epoch(1),
        high_watermark=Offset(32),
        voters=tuple(voters),
        observers=tuple(observers),
        nodes=tuple(
            Voter(
                key=ReplicaKey(voter.key.id),
                listeners=Listeners((("CONTROLLER", Endpoint("127.0.0.1", 21_309 + voter.key.id)),)),
            )
            for voter in voters
        ),
    )
    return quorum_of("1OvTGIWWQja7V48VYOvAtg", answer, NodeId(leader_id))


def text(lines: Iterator[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def test_status_is_kafkas_byte_for_byte() -> None:
    found = described([row(1, 33, 770), row(2, 33, 1_000), row(3, 33, 800)], [row(4, 33, 900)])
    assert text(status_lines(found)) == STATUS


def test_ages_are_kafkas_byte_for_byte() -> None:
    found = described([row(1, 33, 808), row(2, 33, 993), row(3, 33, 832)], [row(4, 33, 812)])
    assert text(table_lines(table(found, now_ms=1_000))) == AGES


def test_times_are_kafkas_byte_for_byte() -> None:
    found = described([row(1, 119, 1795229337347), row(2, -1, -1)], leader_id=1)
    assert text(table_lines(table(found))) == TIMES
    assert text(table_lines(table(found, now_ms=1795229337347))).splitlines()[2] == (
        "2     \tk_Eg7DHZQauczDshubdK-A\t-1          \t120\t-1                \t-1                   \tFollower\t"
    )


def test_what_is_not_known_of_a_node_is_left_out() -> None:
    unknown = DescribedReplica(
        key=ReplicaKey(NodeId(3)), log_end_offset=33, last_fetch_timestamp=5, last_caught_up_timestamp=5
    )
    found = described([row(2, 33, 1_000)], [unknown])
    assert status_json(found)["currentObservers"] == [{"id": 3}]
    assert row_json(found, found.observers[0])["directoryId"] == "AAAAAAAAAAAAAAAAAAAAAA"


def test_a_cluster_id_from_elsewhere_only_prints() -> None:
    answer = DescribeQuorumResponse(error=0, leader_id=NodeId(1))
    found = quorum_of("\x1b[2Jx", answer, NodeId(1))
    lines = list(status_lines(found))
    assert lines[0] == r"ClusterId:              \x1b[2Jx"
    assert lines[3] == "HighWatermark:          -1"
