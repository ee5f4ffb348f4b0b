"""`pykraft quorum describe`: Kafka's text byte for byte, JSON, and one line for each kind of wrong input."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from click.testing import CliRunner, Result

from pykraft.cli.quorum.command import quorum, row_json, status_json, status_lines, table, table_lines
from pykraft.client.remote.quorum import Quorum, quorum_of
from pykraft.core.messages import DescribedReplica, DescribeQuorumResponse
from pykraft.errors import QuorumUnavailableError, UsageError
from pykraft.local.ports import HOST, free_ports
from pykraft.protocol.messages import ApiKey
from pykraft.types import Endpoint, Epoch, Listeners, NodeId, Offset, ReplicaKey, Voter, uuid_parse
from tests.client.quorums import CLUSTER_ID, cluster_body, quorum_body
from tests.client.scripted import Script, ScriptedNode

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


@contextmanager
def served() -> Iterator[Endpoint]:
    """A quorum of one scripted node, on a thread and loop of its own."""
    started = threading.Event()
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()
    scripts: dict[ApiKey, Script] = {
        ApiKey.DESCRIBE_CLUSTER: lambda _: cluster_body(2, {2: node.endpoint}),
        ApiKey.DESCRIBE_QUORUM: lambda _: quorum_body(2),
    }
    node = ScriptedNode(scripts)

    async def main() -> None:
        async with node:
            started.set()
            await ended.wait()

    def serve() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(main())

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert started.wait(10)
        yield node.endpoint
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()


def call(*arguments: str) -> Result:
    return CliRunner().invoke(quorum, arguments)


def test_options_may_stand_before_or_after_the_verb() -> None:
    with served() as endpoint:
        before = call("--bootstrap-controller", str(endpoint), "--timeout", "5", "describe", "--status")
        after = call("describe", "--status", "--bootstrap-controller", str(endpoint), "--timeout", "5")
        assert before.exit_code == after.exit_code == 0
        assert before.output == after.output
        assert before.output.splitlines()[:2] == [f"ClusterId:              {CLUSTER_ID}", "LeaderId:               2"]


def test_json_has_the_same_names_and_numbers() -> None:
    with served() as endpoint:
        status = json.loads(call("--bootstrap-controller", str(endpoint), "describe", "--status", "--json").output)
        rows = json.loads(call("--bootstrap-controller", str(endpoint), "describe", "--replication", "--json").output)
        shown = call("--bootstrap-controller", str(endpoint), "describe", "--replication").output
        aged = call("--bootstrap-controller", str(endpoint), "describe", "--replication", "--human-readable").output
    assert (status["clusterId"], status["maxFollowerLag"], status["maxFollowerLagTimeMs"]) == (CLUSTER_ID, 2, 2)
    assert status["currentVoters"][0]["endpoints"] == ["CONTROLLER://[::1]:9001"]
    assert [(each["nodeId"], each["lag"], each["status"]) for each in rows] == [
        (2, 0, "Leader"),
        (1, 0, "Follower"),
        (3, 2, "Follower"),
        (9, 11, "Observer"),
    ]
    assert [line.split("\t")[0].strip() for line in shown.splitlines()] == ["NodeId", "2", "1", "3", "9"]
    assert " ms ago" in aged.splitlines()[1]


WRONG = {
    "no view": ["--bootstrap-controller", "a:1", "describe"],
    "two views": ["--bootstrap-controller", "a:1", "describe", "--status", "--replication"],
    "ages of a status": ["--bootstrap-controller", "a:1", "describe", "--status", "--human-readable"],
    "ages as JSON": ["--bootstrap-controller", "a:1", "describe", "--replication", "--human-readable", "--json"],
    "no nodes": ["describe", "--status"],
    "nodes twice": ["--bootstrap-controller", "a:1", "describe", "--status", "--bootstrap-controller", "a:1"],
    "both kinds of nodes": ["--bootstrap-controller", "a:1", "--bootstrap-server", "b:1", "describe", "--status"],
    "no port": ["--bootstrap-controller", "a", "describe", "--status"],
    "no time": ["--bootstrap-controller", "a:1", "--timeout", "0", "describe", "--status"],
}


@pytest.mark.parametrize("arguments", WRONG.values(), ids=WRONG)
def test_wrong_arguments_are_the_callers_mistake(arguments: Sequence[str]) -> None:
    result = call(*arguments)
    assert isinstance(result.exception, UsageError)
    assert "\n" not in str(result.exception)


def test_nobody_there_is_one_line() -> None:
    [port] = free_ports(1)
    result = call("--bootstrap-controller", f"{HOST}:{port}", "describe", "--status")
    assert isinstance(result.exception, QuorumUnavailableError)
    assert str(result.exception) == f"no node answers: {HOST}:{port}: cannot connect (Connection refused)"


def test_a_verb_that_does_not_exist_is_refused() -> None:
    assert call("--bootstrap-controller", "a:1", "destroy").exit_code == 2
