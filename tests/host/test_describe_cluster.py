"""DescribeCluster: the voters of the listener where it was asked, in Kafka's form."""

import pytest

from pykraft.core.status import Status
from pykraft.errors import ErrorCode
from pykraft.host.describe_cluster import describe_cluster
from pykraft.protocol.api import decode_request_body, decode_request_header, decode_response, encode_response
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.types import NO_LISTENERS, Endpoint, Listeners, NodeId, ReplicaKey, Voter, VoterSet
from tests.host.fakes import CLUSTER_ID, LISTENER, config
from tests.protocol.test_api import OURS, file_id, load, unframed

GOLDEN = [path for path in OURS if "DescribeCluster" in path.name]


def answer(
    request: Body, *, leader_id: int | None = 2, listener: str = LISTENER, announced: Listeners = NO_LISTENERS
) -> Body:
    return describe_cluster(
        request,
        cluster_id=CLUSTER_ID,
        listener=listener,
        status=Status(
            leader_id=None if leader_id is None else NodeId(leader_id),
            leader_listeners=announced,
            voters=config(1).voters,
        ),
    )


def test_it_names_the_leader_and_every_voter() -> None:
    body = answer({"endpoint_type": 2})
    assert (body["error_code"], body["cluster_id"], body["controller_id"]) == (0, CLUSTER_ID, 2)
    assert [(one["broker_id"], one["host"], one["port"]) for one in body["brokers"]] == [
        (1, "node1", 9001),
        (2, "node2", 9002),
        (3, "node3", 9003),
    ]


def test_without_a_leader_it_is_an_error_that_kafkas_client_takes_to_another_node() -> None:
    body = answer({"endpoint_type": 2}, leader_id=None)
    assert (body["error_code"], body["error_message"]) == (ErrorCode.LEADER_NOT_AVAILABLE, "it knows no leader")
    assert [(one["broker_id"], one["port"]) for one in body["brokers"]] == [(1, 9001), (2, 9002), (3, 9003)]
    assert b"".join(bytes(part) for part in encode_response(ApiKey.DESCRIBE_CLUSTER, 2, 1, body))


@pytest.mark.parametrize("leader_id", [None, 2])
def test_an_unproven_node_says_so_with_and_without_a_leader(leader_id: int | None) -> None:
    own = "its directory is unproven"
    body = describe_cluster(
        {"endpoint_type": 2},
        cluster_id=CLUSTER_ID,
        listener=LISTENER,
        status=Status(leader_id=None if leader_id is None else NodeId(2), voters=config(1).voters),
        own_problem=own,
    )
    assert body["error_code"] == (ErrorCode.LEADER_NOT_AVAILABLE if leader_id is None else ErrorCode.NONE)
    assert body["error_message"] == (f"it knows no leader, and {own}" if leader_id is None else own)
    assert b"".join(bytes(part) for part in encode_response(ApiKey.DESCRIBE_CLUSTER, 2, 1, body))


def test_a_leader_that_is_no_voter_is_named_too() -> None:
    here = Listeners(((LISTENER, Endpoint("node4", 9004)),))
    body = answer({"endpoint_type": 2}, leader_id=4, announced=here)
    assert body["controller_id"] == 4
    assert [(one["broker_id"], one["port"]) for one in body["brokers"]] == [(1, 9001), (2, 9002), (3, 9003), (4, 9004)]


@pytest.mark.conformance(134)
def test_a_leader_that_was_moved_is_where_it_says() -> None:
    here = Listeners(((LISTENER, Endpoint("node2", 9999)),))
    body = answer({"endpoint_type": 2}, announced=here)
    assert [(one["broker_id"], one["port"]) for one in body["brokers"]] == [(1, 9001), (2, 9999), (3, 9003)]


def test_voters_that_are_not_reached_on_the_listener_are_left_out() -> None:
    here = Listeners((("OTHER", Endpoint("node4", 9004)),))
    body = answer({"endpoint_type": 2}, leader_id=4, listener="OTHER", announced=here)
    assert [one["broker_id"] for one in body["brokers"]] == [4]


def test_a_leader_that_is_not_reached_on_the_listener_is_no_use() -> None:
    body = answer({"endpoint_type": 2}, listener="OTHER")
    assert body["error_code"] == ErrorCode.LEADER_NOT_AVAILABLE
    assert body["error_message"] == "it does not know the address of its leader, node 2, on listener OTHER"


@pytest.mark.parametrize(
    ("request_body", "error"), [({}, 114), ({"endpoint_type": 1}, 114), ({"endpoint_type": 7}, 115)]
)
def test_there_are_no_brokers_to_describe(request_body: Body, error: int) -> None:
    body = answer(request_body)
    assert body["error_code"] == error
    assert body["error_message"]
    assert b"".join(bytes(part) for part in encode_response(ApiKey.DESCRIBE_CLUSTER, 2, 1, body))


@pytest.mark.parametrize("path", GOLDEN, ids=file_id)
def test_a_controller_of_kafka_answers_in_the_same_bytes(path: object) -> None:
    recorded = load(path)  # type: ignore[arg-type]
    raw, response = unframed(recorded.request), unframed(recorded.response)
    header = decode_request_header(raw)
    request = decode_request_body(header, raw)
    wire_id, kafkas = decode_response(header.api_key, header.api_version, response)
    if request["endpoint_type"] != 2:
        return
    voters = (
        Voter(
            key=ReplicaKey(NodeId(one["broker_id"])),
            listeners=Listeners(((LISTENER, Endpoint(one["host"], one["port"])),)),
        )
        for one in kafkas["brokers"]
    )
    body = describe_cluster(
        request,
        cluster_id=kafkas["cluster_id"],
        listener=LISTENER,
        status=Status(leader_id=NodeId(kafkas["controller_id"]), voters=VoterSet.of(voters)),
    )
    kafkas["brokers"].sort(key=lambda one: one["broker_id"])
    expected = encode_response(header.api_key, header.api_version, wire_id, kafkas)
    assert encode_response(header.api_key, header.api_version, wire_id, body) == expected
