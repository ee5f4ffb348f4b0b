"""The partition as clients see it: names, nodes, leader, and the errors of whoever asks the wrong node.

Source: Kafka's ``MetadataCache``; KIP-516, KIP-951.
"""

from __future__ import annotations

import pytest

from pykraft.config import METADATA_TOPIC_ID, METADATA_TOPIC_NAME
from pykraft.core.status import Status
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.host.clients.topics import ClientTopics, committed_end
from pykraft.types import NO_LISTENERS, Endpoint, Listeners, NodeId, Offset
from tests.host.clients.world import FOLLOWS, LEADS, config
from tests.host.fakes import LISTENER, TOPIC_ID, TOPIC_NAME, endpoint


def topics(status: Status = LEADS, name: str = "") -> ClientTopics:
    return ClientTopics(config=config(client_topic=name), status=lambda: status)


def test_the_log_has_its_own_name_kafkas_and_one_of_the_properties() -> None:
    assert topics().ids == {METADATA_TOPIC_NAME: METADATA_TOPIC_ID, TOPIC_NAME: TOPIC_ID}
    named = topics(name="orders")
    assert (topics().name, named.name) == (TOPIC_NAME, "orders")
    ids = list(named.ids.values())
    assert len(set(ids)) == 3
    assert named.ids == topics(FOLLOWS, name="orders").ids, "the same on every node"
    assert [named.name_of(each) for each in ids] == list(named.ids)
    assert named.name_of(bytes(16)) is None
    assert topics(name=TOPIC_NAME).ids == topics().ids


def test_clients_reach_the_voters_and_the_leader_where_it_is_now() -> None:
    assert topics().nodes(LISTENER) == {NodeId(each): endpoint(each) for each in (1, 2, 3)}
    assert topics().nodes("OTHER") == {}
    moved = Listeners(((LISTENER, Endpoint("new", 1)),))
    assert topics(FOLLOWS._replace(leader_listeners=moved)).nodes(LISTENER)[NodeId(2)] == Endpoint("new", 1)
    assert topics(FOLLOWS._replace(leader_listeners=NO_LISTENERS)).leader(LISTENER) == (2, 4)
    assert NodeId(9) not in topics(FOLLOWS._replace(leader_id=NodeId(9), leader_listeners=NO_LISTENERS)).nodes(LISTENER)


def test_nobody_leads_for_clients_who_cannot_reach_the_leader() -> None:
    assert topics().leader(LISTENER) == (1, 4)
    assert topics().leader("OTHER") == (-1, 4)
    alone = FOLLOWS._replace(role="unattached", leader_id=None)
    assert topics(alone).leader_bodies(LISTENER) == ({"leader_id": -1, "leader_epoch": 4}, [])


@pytest.mark.parametrize(
    ("name", "index", "epoch", "code"),
    [
        ("other", 0, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, 0, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC_NAME, 1, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC_NAME, 0, 3, ErrorCode.FENCED_LEADER_EPOCH),
        (TOPIC_NAME, 0, 5, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_errors(name: str | None, index: int, epoch: int, code: ErrorCode) -> None:
    with pytest.raises(ProtocolError) as refused:
        topics().check(name, index, epoch=epoch)
    assert refused.value.code == code


def test_only_the_leader_serves() -> None:
    assert topics().check(METADATA_TOPIC_NAME, 0, epoch=4) is LEADS
    with pytest.raises(ProtocolError) as refused:
        topics(FOLLOWS).check(TOPIC_NAME, 0)
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_new_leader_knows_what_was_committed_before() -> None:
    assert committed_end(LEADS._replace(high_watermark=None, committed_end_offset=Offset(3))) == 3
    assert committed_end(LEADS._replace(high_watermark=Offset(5), committed_end_offset=Offset(3))) == 5
