"""Any bytes on a node's port get the protocol's error or a closed connection with one line; the node continues."""

import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.nodes.cluster import JournalKeeper, PykraftNode
from pykraft.config import TEST_TOPIC_ID, TEST_TOPIC_NAME
from pykraft.errors import ErrorCode
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import free_ports
from pykraft.protocol.api import decode_response
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.server.driver import BURST_MAX
from tests.processes.wire import CORRELATION_ID, Wire, framed, request

pytestmark = pytest.mark.processes

VOTE: Body = {
    "cluster_id": None,
    "voter_id": 1,
    "topics": [
        {
            "topic_name": TEST_TOPIC_NAME,
            "partitions": [{"partition_index": 0, "replica_epoch": 5, "replica_id": 2, "pre_vote": True}],
        }
    ],
}
BEGIN: Body = {
    "topics": [
        {"topic_name": TEST_TOPIC_NAME, "partitions": [{"partition_index": 0, "leader_id": 2, "leader_epoch": 9}]}
    ]
}
FETCH: Body = {
    "max_wait_ms": 0,
    "min_bytes": 0,
    "topics": [{"topic_id": TEST_TOPIC_ID, "partitions": [{"partition": 0, "fetch_offset": 0}]}],
}
SNAPSHOT: Body = {"topics": [{"name": TEST_TOPIC_NAME, "partitions": [{"partition": 0}]}]}

A_VOTE = request(ApiKey.VOTE, 2, VOTE)
TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(range(64))


def header(api_key: int, version: int) -> bytes:
    return struct.pack(">hhih", api_key, version, CORRELATION_ID, -1)


CLOSED = {
    "a size of 2 GiB": struct.pack(">i", 2**31 - 1),
    "a size above what a stranger may send": struct.pack(">i", 512 * 1024 + 1),
    "a size below zero": struct.pack(">i", -5),
    "a size of zero": struct.pack(">i", 0),
    "a TLS hello": TLS_HELLO,
    "an HTTP request": b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a frame of random bytes": framed(random.Random(1).randbytes(100)),
    "a header that is cut off": framed(header(ApiKey.VOTE, 2)[:6]),
    "a client id longer than its frame": framed(struct.pack(">hhih", ApiKey.VOTE, 2, 1, 30_000)),
    "an API that does not exist": framed(header(9_999, 0)),
    "an API that is not served": framed(header(0, 9)),
    "a negative API": framed(header(-1, 0)),
    "a version that does not exist": framed(header(ApiKey.VOTE, 99)),
    "a negative version": framed(header(ApiKey.FETCH, -3)),
    "a body that is cut off": framed(A_VOTE[:-9]),
    "more topics than bytes": framed(header(ApiKey.VOTE, 2) + b"\0" + b"\0" + bytes(4) + b"\xff\xff\xff\xff\x07"),
    "an array below zero": framed(header(ApiKey.BEGIN_QUORUM_EPOCH, 0) + b"\xff\xff" + b"\xff\xff\xff\xf0"),
    "a varint without an end": framed(header(ApiKey.VOTE, 2) + b"\xff" * 20),
    "a name that is not UTF-8": framed(header(ApiKey.VOTE, 2) + b"\0" + b"\x03\xff\xfe" + bytes(4) + b"\1\0"),
}


@pytest.fixture(scope="module")
def voter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PykraftNode, JournalKeeper]]:
    """A voter of a quorum whose other voters are not there, so that only what a test sends happens to it."""
    folder = tmp_path_factory.mktemp("bad-input")
    ports = dict(zip((1, 2, 3), free_ports(3), strict=True))
    patient = {"controller.quorum.election.timeout.ms": "600000", "controller.quorum.fetch.timeout.ms": "600000"}
    journal = JournalKeeper(folder / "journal.jsonl")
    with Children() as children:
        node = PykraftNode(children, journal, folder / "n1", node_id=1, ports=ports, properties=patient)
        node.start()
        journal.wait_for_started(1, since=0, process=node.process)
        yield node, journal
        assert node.process.status is None
        assert "Traceback" not in node.process.log()


@pytest.fixture
def node(voter: tuple[PykraftNode, JournalKeeper]) -> PykraftNode:
    """The voter, started anew where it has told so many lines that it may soon leave some out (server/driver.py)."""
    node, journal = voter
    if len(closing_lines(node)) >= BURST_MAX // 2:
        assert "Traceback" not in node.process.log()
        node.process.kill()
        node.log_path.write_text("")
        mark = journal.mark()
        node.start()
        journal.wait_for_started(1, since=mark, process=node.process)
    return node


def wait_for_line(node: PykraftNode, count: int, word: str = "") -> None:
    """Wait until the log has so many lines about closed connections, the last with this word."""

    def is_logged() -> bool:
        lines = closing_lines(node)
        return len(lines) >= count and word in lines[-1]

    wait_until(is_logged, f"line {count} about a closed connection, with {word!r}", alive=[node.process])


def closing_lines(node: PykraftNode) -> list[str]:
    return [line for line in node.process.log().splitlines() if "closing connection" in line]


def assert_serves(node: PykraftNode) -> None:
    with Wire(node.port) as wire:
        answer = wire.ask(ApiKey.API_VERSIONS, 3, {"client_software_name": "test", "client_software_version": "1"})
    assert answer["error_code"] == ErrorCode.NONE
    assert {entry["api_key"] for entry in answer["api_keys"]} >= {ApiKey.FETCH, ApiKey.VOTE, ApiKey.API_VERSIONS}
    assert node.process.status is None


@pytest.mark.parametrize("data", CLOSED.values(), ids=CLOSED.keys())
def test_what_has_no_answer_closes_the_connection_with_one_line(node: PykraftNode, data: bytes) -> None:
    before = len(closing_lines(node))
    with Wire(node.port) as wire:
        wire.send(data)
        assert wire.is_closed_by_peer()
    wait_for_line(node, before + 1)
    assert_serves(node)
    assert len(closing_lines(node)) == before + 1


def test_a_line_names_what_the_peer_seems_to_speak(node: PykraftNode) -> None:
    for data, word in ((TLS_HELLO, "TLS"), (CLOSED["an HTTP request"], "HTTP")):
        before = len(closing_lines(node))
        with Wire(node.port) as wire:
            wire.send(data)
            assert wire.is_closed_by_peer()
        wait_for_line(node, before + 1, word)


@pytest.mark.conformance(33)
@pytest.mark.parametrize(
    ("api_key", "version", "body"),
    [
        (ApiKey.VOTE, 2, VOTE),
        (ApiKey.VOTE, 0, {**VOTE, "voter_id": -1, "topics": []}),
        (ApiKey.BEGIN_QUORUM_EPOCH, 1, BEGIN),
        (ApiKey.END_QUORUM_EPOCH, 1, BEGIN),
        (ApiKey.FETCH, 17, FETCH),
        (ApiKey.FETCH_SNAPSHOT, 1, SNAPSHOT),
    ],
)
def test_another_cluster_id_is_answered(node: PykraftNode, api_key: ApiKey, version: int, body: Body) -> None:
    with Wire(node.port) as wire:
        answer = wire.ask(api_key, version, {**body, "cluster_id": "somebody-elses-cluster"})
        assert answer["error_code"] == ErrorCode.INCONSISTENT_CLUSTER_ID
        assert wire.ask(ApiKey.API_VERSIONS, 0, {})["error_code"] == ErrorCode.NONE


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(node: PykraftNode) -> None:
    with Wire(node.port) as wire:
        wire.send(framed(header(ApiKey.API_VERSIONS, 99) + b"\0what version 99 may hold"))
        correlation_id, answer = decode_response(ApiKey.API_VERSIONS, 0, wire.receive())
        assert correlation_id == CORRELATION_ID
        assert answer["error_code"] == ErrorCode.UNSUPPORTED_VERSION
        assert wire.ask(ApiKey.API_VERSIONS, 4, {})["error_code"] in (ErrorCode.NONE, ErrorCode.INVALID_REQUEST)


def test_api_versions_that_cannot_be_read_is_answered(node: PykraftNode) -> None:
    with Wire(node.port) as wire:
        wire.send(framed(header(ApiKey.API_VERSIONS, 3) + b"\0\xff"))
        _, answer = decode_response(ApiKey.API_VERSIONS, 3, wire.receive())
        assert answer["error_code"] == ErrorCode.INVALID_REQUEST


def test_a_connection_that_sends_requests_without_end_is_bounded(node: PykraftNode) -> None:
    with Wire(node.port) as wire:
        for _ in range(100):
            wire.send(framed(request(ApiKey.API_VERSIONS, 0, {})))
        answers = [decode_response(ApiKey.API_VERSIONS, 0, wire.receive())[0] for _ in range(100)]
    assert answers == [CORRELATION_ID] * 100
    assert_serves(node)


def test_two_hundred_garbled_requests_leave_it_serving(node: PykraftNode) -> None:
    source = random.Random(20)
    requests = [
        A_VOTE,
        request(ApiKey.FETCH, 17, FETCH),
        request(ApiKey.BEGIN_QUORUM_EPOCH, 1, {**BEGIN, "cluster_id": "another"}),
    ]
    for _ in range(200):
        data = bytearray(source.choice(requests))
        for _ in range(source.randrange(1, 4)):
            data[source.randrange(len(data))] = source.randrange(256)
        with Wire(node.port) as wire:
            wire.send(framed(bytes(data)))
    assert_serves(node)


def test_a_client_that_goes_away_in_the_middle_of_a_frame_leaves_nothing_behind(node: PykraftNode) -> None:
    before = len(closing_lines(node))
    for _ in range(50):
        with Wire(node.port) as wire:
            wire.send(framed(A_VOTE)[:20])
    assert_serves(node)
    assert len(closing_lines(node)) == before
    descriptors = Path(f"/proc/{node.process.pid}/fd")
    wait_until(lambda: len(list(descriptors.iterdir())) < 40, "connections to be let go", alive=[node.process])
