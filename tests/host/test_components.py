"""The components of a node fit together."""

from random import Random

from pykraft import types
from pykraft.core.log_view import LogView
from pykraft.core.status import Status
from pykraft.host.components import assemble
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import ApiKey, decode_response, encode_request
from tests.host.fakes import LISTENER, FakeLog, FakePorts, config, snapshot_files


def test_all_parts_begin_where_the_recovered_log_ends() -> None:
    components = assemble(
        FakePorts(),
        config(1),
        key=types.ReplicaKey(types.NodeId(1), types.Uuid(b"1" * 16)),
        log=FakeLog(),
        snapshot_files=snapshot_files((3, 1)),
        view=LogView(
            start_offset=types.Offset(3),
            end_offset=types.Offset(9),
            snapshots=[types.OffsetAndEpoch(types.Offset(3), types.Epoch(1))],
        ),
        status=Status,
        rng=Random(1),
    )
    assert (components.recent.start_offset, components.recent.end_offset) == (9, 9)
    assert components.delivery.high_watermark == 3
    assert len(components.held) == len(components.producers) == 0
    assert components.inbox.take() is None


def test_who_leads_is_asked_at_the_time_of_the_question() -> None:
    statuses = [Status()]
    here = types.Listeners(((LISTENER, types.Endpoint("node3", 9003)),))
    ports = FakePorts()
    components = assemble(
        ports,
        config(1),
        key=types.ReplicaKey(types.NodeId(1), types.Uuid(b"1" * 16)),
        log=FakeLog(),
        snapshot_files=snapshot_files(),
        view=LogView(start_offset=types.Offset(0), end_offset=types.Offset(0)),
        status=lambda: statuses[-1],
        rng=Random(1),
    )
    components.inbound.on_accepted(ConnectionId(1), LISTENER)
    request = encode_request(ApiKey.DESCRIBE_CLUSTER, 2, 9, None, {"endpoint_type": 2})
    for expected in ((5, -1), (0, 3)):
        components.inbound.on_frame(ConnectionId(1), b"".join(bytes(part) for part in request))
        body = decode_response(ApiKey.DESCRIBE_CLUSTER, 2, ports.sent[-1][1])[1]
        assert (body["error_code"], body["controller_id"]) == expected
        statuses.append(Status(leader_id=types.NodeId(3), leader_listeners=here))
