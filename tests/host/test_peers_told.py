"""A node asks a peer every few milliseconds but reports each problem once, until a valid answer arrives.

Source: ours.
"""

from pykraft.errors import ErrorCode
from pykraft.host.peers import COMPLAINTS_MAX
from pykraft.protocol.api import encode_response
from pykraft.protocol.messages import ApiKey
from tests.host.fakes import CONTEXT
from tests.host.test_peers import Desk
from tests.rpc.test_connection import vote_answer


def refusal(error: int, *, wire_id: int) -> bytes:
    return b"".join(bytes(part) for part in encode_response(ApiKey.VOTE, 2, wire_id, {"error_code": error}))


def asked_and_answered(desk: Desk, error: int) -> None:
    """One question, and its answer."""
    desk.send()
    connection, _, wire_id = desk.asked[-1]
    good = vote_answer(wire_id=wire_id)
    desk.peers.on_frame(connection, refusal(error, wire_id=wire_id) if error else good)


def test_another_cluster_is_told_once_and_again_after_a_good_answer() -> None:
    desk, _ = Desk.answered()
    told = f"peer 2 at node2:9002 belongs to another cluster than this node, whose cluster.id is {CONTEXT.cluster_id}"
    for _ in range(3):
        asked_and_answered(desk, ErrorCode.INCONSISTENT_CLUSTER_ID)
    assert desk.ports.reports == [told]
    asked_and_answered(desk, 0)
    asked_and_answered(desk, ErrorCode.INCONSISTENT_CLUSTER_ID)
    assert desk.ports.reports == [told, told]


def test_another_topic_is_guessed() -> None:
    desk, _ = Desk.answered()
    asked_and_answered(desk, ErrorCode.INVALID_REQUEST)
    topic = CONTEXT.topic_name
    assert desk.ports.reports == [
        f"peer 2 at node2:9002 may not have topic {topic}, which this node keeps: see pykraft.topic"
    ]


def test_other_errors_are_the_cores_business() -> None:
    desk, _ = Desk.answered()
    asked_and_answered(desk, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert desk.ports.reports == []


def test_a_connection_that_is_closed_again_and_again_is_told_once() -> None:
    desk = Desk()
    rejected = "it rejected the request as invalid"
    for reason in (rejected, rejected, "two leaders in epoch 3"):
        desk.send()
        desk.connect()
        desk.peers.close(2, reason)
    assert [line.rpartition(": ")[2] for line in desk.ports.reports] == [
        "it rejected the request as invalid",
        "two leaders in epoch 3",
    ]
    assert desk.peers.violations == 3


def test_what_is_remembered_is_bounded() -> None:
    desk = Desk()
    for number in [*range(COMPLAINTS_MAX + 1), 0]:
        desk.send()
        desk.connect()
        desk.peers.close(2, f"two leaders in epoch {number}")
    assert len(desk.ports.reports) == COMPLAINTS_MAX + 2


def test_a_stream_that_is_no_kafka_s_is_told_once_however_often_it_is_dialed() -> None:
    desk = Desk()
    for _ in range(3):
        desk.send()
        connection = desk.ports.dialed[-1][0]
        desk.peers.on_connected(connection)
        desk.peers.on_closed(connection, reason="the peer seems to speak SSH")
    desk.send()
    desk.peers.on_closed(desk.ports.dialed[-1][0], reason="no route to host")
    assert desk.ports.reports == ["closing the connection to peer 2 at node2:9002: the peer seems to speak SSH"]
