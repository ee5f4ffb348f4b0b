"""A client sends its next request before the answer to the one before: a member that joins and leaves at once."""

from pathlib import Path

import pytest

from lab.nodes.cluster import Cluster
from pykraft.errors import ErrorCode
from pykraft.local.child import Children
from pykraft.protocol.api import decode_response
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from tests.processes.wire import Wire, framed, request

pytestmark = pytest.mark.processes

PROPERTIES = {"pykraft.client.listeners": "PLAINTEXT", "group.initial.rebalance.delay.ms": "500"}
JOIN_VERSION = 5
LEAVE_VERSION = 3


def join(instance_id: str) -> Body:
    return {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": "",
        "group_instance_id": instance_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }


def test_members_leave_behind_their_join(children: Children, tmp_path: Path) -> None:
    """A timer answers both joins; the leaves that are then read must not change the group while it is completed."""
    cluster = Cluster(children, tmp_path, throughput=0, properties=PROPERTIES)
    leader = cluster.nodes[cluster.start().node]
    with Wire(leader.port) as one, Wire(leader.port) as other:
        wires = {"one": one, "other": other}
        for instance_id, wire in wires.items():
            leave = {"group_id": "g", "members": [{"member_id": "", "group_instance_id": instance_id}]}
            wire.send(
                framed(request(ApiKey.JOIN_GROUP, JOIN_VERSION, join(instance_id)))
                + framed(request(ApiKey.LEAVE_GROUP, LEAVE_VERSION, leave))
            )
        for wire in wires.values():
            _, joined = decode_response(ApiKey.JOIN_GROUP, JOIN_VERSION, wire.receive())
            assert joined["error_code"] == ErrorCode.NONE
            _, left = decode_response(ApiKey.LEAVE_GROUP, LEAVE_VERSION, wire.receive())
            assert [each["error_code"] for each in left["members"]] == [ErrorCode.NONE]
    assert leader.process.status is None
