"""Defaults and bounds are Kafka's; no two static voters have one address, and the list agrees with the node."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pykraft.config import (
    KAFKAS_RAFT,
    LOG_NUMBERS,
    METADATA_TOPIC_ID,
    METADATA_TOPIC_NAME,
    NODE_NUMBERS,
    RAFT_NUMBERS,
    LogSettings,
    NodeConfig,
    Number,
    RaftConfig,
    own_entry_warning,
    refuse_shared_addresses,
)
from pykraft.config.properties import node_config
from pykraft.errors import ConfigError
from pykraft.types import ZERO_UUID, Endpoint, Listeners, NodeId, ReplicaKey, Uuid, Voter, VoterSet

LISTENERS = Listeners((("CONTROLLER", Endpoint("localhost", 9_093)), ("CLIENT", Endpoint("localhost", 9_092))))
NODE = NodeConfig(
    node_id=NodeId(1),
    listeners=LISTENERS,
    advertised_listeners=LISTENERS,
    controller_listener_names=("CONTROLLER", "CLIENT"),
    voters=VoterSet(),
    log_dir=Path("logs"),
)

TABLES: Sequence[tuple[RaftConfig | LogSettings | NodeConfig, Sequence[Number]]] = [
    (RaftConfig(), RAFT_NUMBERS),
    (LogSettings(), LOG_NUMBERS),
    (NODE, NODE_NUMBERS),
]
NUMBERS = [
    pytest.param(config, number, id=f"{type(config).__name__}.{number.field}")
    for config, numbers in TABLES
    for number in numbers
]


def changed(config: Any, number: Number, value: int) -> object:
    return replace(config, **{number.field: value})


@pytest.mark.parametrize(("config", "number"), NUMBERS)
def test_bounds_are_inclusive(config: RaftConfig | LogSettings | NodeConfig, number: Number) -> None:
    for allowed in (number.least, number.most):
        assert getattr(changed(config, number, allowed), number.field) == allowed
    for refused in (number.least - 1, number.most + 1):
        with pytest.raises(ConfigError) as caught:
            changed(config, number, refused)
        assert (caught.value.key, caught.value.value) == (number.key, refused)
        assert str(number.least) in caught.value.allowed
        assert str(number.most) in caught.value.allowed


@pytest.mark.conformance(110)
def test_defaults_are_those_of_kafka() -> None:
    raft = RaftConfig()
    assert (raft.election_timeout_ms, raft.fetch_timeout_ms, raft.election_backoff_max_ms) == (1_000, 2_000, 1_000)
    assert (raft.request_timeout_ms, raft.retry_backoff_ms) == (2_000, 20)
    assert raft.append_linger_ms == 0, "a program waits for nothing"
    assert replace(raft, append_linger_ms=25) == KAFKAS_RAFT
    assert raft.fetch_size_bytes_max == 4 * 1_048_576, "a follower fetches in larger pieces than Kafka's (ADR 110)"
    assert raft.fetch_snapshot_size_bytes_max == 1_048_576
    assert (raft.fetch_wait_ms_max, raft.batch_size_bytes_max, raft.accumulated_batches_max) == (500, 8_388_608, 10)
    assert raft.leader_send_flushed_only is False
    log = LogSettings()
    assert (log.segment_size_bytes, log.segment_ms) == (1_073_741_824, 604_800_000)
    assert (log.index_interval_bytes, log.index_size_bytes_max) == (4_096, 10_485_760)
    assert (log.retention_size_bytes_max, log.retention_age_ms_max) == (104_857_600, 604_800_000)
    assert (log.snapshot_record_bytes_max, log.snapshot_interval_ms) == (20_971_520, 3_600_000)
    assert (NODE.request_size_bytes_max, NODE.connections_idle_ms_max) == (104_857_600, 600_000)
    assert NODE.cluster_id == "AAAAAAAAAAAAAAAAAAAAAA"
    assert NODE.topic_id == Uuid((2).to_bytes(16, "big"))


def test_the_first_controller_listener_is_dialed() -> None:
    assert NODE.default_listener == "CONTROLLER"


def test_the_partition_has_a_directory_of_its_own() -> None:
    assert NODE.partition_directory == Path("logs/__raft_performance_test-0")


def test_the_directory_id_zero_stands_for_an_unknown_one() -> None:
    with pytest.raises(ConfigError, match=r"directory\.id"):
        replace(NODE, directory_id=ZERO_UUID)


def test_kafkas_metadata_is_only_observed() -> None:
    assert NODE.may_vote
    assert not replace(NODE, node_id=None).may_vote
    metadata = replace(NODE, topic_name=METADATA_TOPIC_NAME, topic_id=METADATA_TOPIC_ID, voters=VoterSet())
    assert not metadata.may_vote
    with pytest.raises(ConfigError, match=r"controller.quorum.voters.*only observes Kafka's controllers"):
        replace(metadata, voters=VoterSet.of([Voter(key=ReplicaKey(NodeId(1)), listeners=LISTENERS)]))
    with pytest.raises(ConfigError, match=r"controller.quorum.auto.join.enable.*only observes Kafka's controllers"):
        replace(metadata, raft=RaftConfig(auto_join=True))


def test_a_voter_that_never_leads_may_vote_among_kafkas_controllers_but_not_alone() -> None:
    metadata = replace(NODE, topic_name=METADATA_TOPIC_NAME, topic_id=METADATA_TOPIC_ID, voters=VoterSet())
    never = RaftConfig(never_leads=True)
    both = VoterSet.of([Voter(key=ReplicaKey(NodeId(node_id)), listeners=LISTENERS) for node_id in (1, 2)])
    third = replace(metadata, voters=both, raft=never)
    assert (third.may_vote, third.is_kafkas_log, replace(metadata).may_vote) == (True, True, False)
    with pytest.raises(ConfigError, match=r"pykraft.voter.never.leads.*the only voter, so no other can lead"):
        replace(metadata, voters=VoterSet.of([both.voters[0]]), raft=never)
    with pytest.raises(ConfigError, match=r"pykraft.voter.never.leads.*without node.id this node only observes"):
        replace(metadata, node_id=None, raft=never)


def test_a_property_names_the_topic() -> None:
    properties = {
        "node.id": "9",
        "listeners": "C://localhost:9092",
        "controller.listener.names": "C",
        "controller.quorum.bootstrap.servers": "localhost:9093",
        "log.dirs": "d",
    }
    assert node_config(properties).config.may_vote
    config = node_config({**properties, "pykraft.topic": METADATA_TOPIC_NAME}).config
    assert (config.topic_name, config.topic_id, config.may_vote) == (METADATA_TOPIC_NAME, METADATA_TOPIC_ID, False)


def test_an_answer_may_hold_whatever_was_asked_for() -> None:
    assert NODE.answer_size_bytes_max == 104_857_600
    for field in ("fetch_size_bytes_max", "fetch_snapshot_size_bytes_max", "batch_size_bytes_max"):
        numbers: dict[str, Any] = {field: 2**30}
        large = replace(NODE, request_size_bytes_max=1_024, raft=replace(NODE.raft, **numbers))
        assert large.answer_size_bytes_max == 2**30 + 2**20
    endless = replace(NODE, raft=replace(NODE.raft, fetch_size_bytes_max=2**31 - 1))
    assert endless.answer_size_bytes_max == 2**31 - 1


NAME = "CONTROLLER"


def endpoint(text: str) -> Endpoint:
    host, _, port = text.rpartition(":")
    return Endpoint(host, int(port))


def voters(**addresses: str) -> VoterSet:
    """Voters by address: ``n1="h:1"``."""
    return VoterSet.of(
        Voter(key=ReplicaKey(NodeId(int(name[1:]))), listeners=Listeners(((NAME, endpoint(address)),)))
        for name, address in addresses.items()
    )


@pytest.mark.parametrize(("one", "other"), [("h:1", "h:1"), ("h:1", "H:1"), ("localhost:1", "127.0.0.1:1")])
def test_two_voters_at_one_address_are_refused(one: str, other: str) -> None:
    with pytest.raises(ConfigError, match=f"controller.quorum.voters = '3@{other}': voter 1 has this address, too"):
        refuse_shared_addresses(voters(n1=one, n2="g:1", n3=other))


@pytest.mark.parametrize(("one", "other"), [("h:1", "h:2"), ("h:1", "g:1"), ("h:1", "127.0.0.1:1"), ("h:0", "h:0")])
def test_voters_at_addresses_that_may_differ_are_fine(one: str, other: str) -> None:
    refuse_shared_addresses(voters(n1=one, n2=other))


def test_the_address_of_another_voter_is_not_advertised() -> None:
    listed = voters(n1="a:1", n2="b:1", n3="c:1")
    for node_id in (NodeId(1), NodeId(4)):  # a voter, and an observer
        with pytest.raises(ConfigError, match=f"CONTROLLER://B:1': .* has node 2 at this address, .* node {node_id}"):
            own_entry_warning(listed, node_id, NAME, endpoint("0.0.0.0:1"), endpoint("B:1"))


def test_an_advertised_address_that_contradicts_the_own_entry_is_told() -> None:
    listed = voters(n1="a:1", n2="b:1")
    told = own_entry_warning(listed, NodeId(1), NAME, endpoint("a:1"), endpoint("d:1"))
    assert told is not None
    assert "has this node at a:1, and advertised.listeners at d:1: other nodes dial a:1 for its vote, and d:1" in told
    for advertised in ("a:1", "10.0.0.1:1"):  # a name may have any address
        assert own_entry_warning(listed, NodeId(1), NAME, endpoint("z:9"), endpoint(advertised)) is None


def test_where_a_node_listens_is_compared_if_it_advertises_nothing() -> None:
    listed = voters(n1="a:1", n2="b:1")
    told = own_entry_warning(listed, NodeId(1), NAME, endpoint("a:2"), None)
    assert told is not None
    assert "has this node at a:1, and it listens at a:2" in told
    assert own_entry_warning(listed, NodeId(1), NAME, endpoint(":1"), None) is None
    assert own_entry_warning(listed, NodeId(1), NAME, None, None) is None
    assert own_entry_warning(listed, NodeId(4), NAME, endpoint("a:2"), endpoint("d:1")) is None


def test_an_error_or_warning_names_its_property() -> None:
    own = {"node.id": "1", "log.dirs": "data", "listeners": "CONTROLLER://:1", "controller.listener.names": NAME}
    with pytest.raises(ConfigError) as caught:
        node_config({**own, "controller.quorum.voters": "1@h:1,2@h:1,3@g:1"})
    assert (caught.value.key, caught.value.value) == ("controller.quorum.voters", "2@h:1")
    listed = {**own, "controller.quorum.voters": "1@h:1,2@g:1"}
    with pytest.raises(ConfigError) as caught:
        node_config({**listed, "advertised.listeners": "CONTROLLER://g:1"})
    assert caught.value.key == "advertised.listeners"
    [told] = node_config({**listed, "advertised.listeners": "CONTROLLER://d:1"}).warnings
    assert "at h:1, and advertised.listeners at d:1" in told
    assert not node_config(listed).warnings
