"""What older versions drop, refuse or read as absent, the messages that kio lacks, and our own, byte by byte.

`test_messages` compares every layout with kio's.

Source: KIP-482, KIP-511, KIP-516, KIP-595, KIP-630, KIP-853, KIP-903, KIP-951, KIP-1166, KIP-1312; ADR 070; Kafka's
message definitions.
"""

from typing import Any

import pytest

from pykraft.errors import ProtocolError
from pykraft.protocol.messages import cluster, fetch, own, voters
from pykraft.protocol.messages.clients import PRODUCE_RESPONSE
from pykraft.protocol.messages.elections import BEGIN_QUORUM_EPOCH_REQUEST, VOTE_REQUEST
from tests.protocol.bodies import read, write

API_VERSIONS_CLIENT = {"client_software_name": "py", "client_software_version": "1"}
API_VERSIONS_API_KEYS = [{"api_key": 18, "min_version": 0, "max_version": 5}]
API_VERSIONS_FEATURES = {
    "supported_features": [{"name": "kraft.version", "min_version": 0, "max_version": 1}],
    "finalized_features_epoch": 3,
    "finalized_features": [{"name": "kraft.version", "max_version_level": 1, "min_version_level": 0}],
    "zk_migration_ready": True,
}
API_VERSIONS_NAME = "0e" + b"kraft.version".hex()


def test_api_versions_requests_are_empty_below_version_3() -> None:
    for version in range(3):
        assert write(cluster.API_VERSIONS_REQUEST, version, API_VERSIONS_CLIENT) == b""
    assert write(cluster.API_VERSIONS_REQUEST, 3, API_VERSIONS_CLIENT) == bytes.fromhex("03 7079 02 31 00")


def test_api_versions_version_5_says_whom_the_client_believes_to_talk_to() -> None:
    body = {**API_VERSIONS_CLIENT, "cluster_id": "c", "node_id": 4}
    raw = bytes.fromhex("03 7079 02 31 02 63 00000004 00")
    assert write(cluster.API_VERSIONS_REQUEST, 5, body) == raw
    assert read(cluster.API_VERSIONS_REQUEST, 5, raw)[0] == body
    assert write(cluster.API_VERSIONS_REQUEST, 4, body) == bytes.fromhex("03 7079 02 31 00")
    assert write(cluster.API_VERSIONS_REQUEST, 5, API_VERSIONS_CLIENT) == bytes.fromhex("03 7079 02 31 00 ffffffff 00")


def test_api_versions_answers_grow_with_the_versions() -> None:
    body = {"api_keys": API_VERSIONS_API_KEYS, **API_VERSIONS_FEATURES}
    old = "0000 00000001 0012 0000 0005"
    assert write(cluster.API_VERSIONS_RESPONSE, 0, body) == bytes.fromhex(old)
    assert (
        write(cluster.API_VERSIONS_RESPONSE, 1, body)
        == write(cluster.API_VERSIONS_RESPONSE, 2, body)
        == bytes.fromhex(old + "00000000")
    )
    new = (
        f"0000 02 0012 0000 0005 00 00000000 04 00 14 02 {API_VERSIONS_NAME} 0000 0001 00"
        f"01 08 0000000000000003  02 14 02 {API_VERSIONS_NAME} 0001 0000 00  03 01 01"
    )
    for version in (3, 4, 5):
        assert write(cluster.API_VERSIONS_RESPONSE, version, body) == bytes.fromhex(new)
        assert read(cluster.API_VERSIONS_RESPONSE, version, bytes.fromhex(new))[0] == {
            "error_code": 0,
            "throttle_time_ms": 0,
            **body,
        }


BEGIN_QUORUM_EPOCH_BODY = {
    "cluster_id": None,
    "voter_id": 3,
    "topics": [
        {
            "topic_name": "t",
            "partitions": [{"partition_index": 0, "voter_directory_id": b"V" * 16, "leader_id": 1, "leader_epoch": 6}],
        }
    ],
    "leader_endpoints": [{"name": "C", "host": "h", "port": 9093}],
}


def test_begin_quorum_epoch_version_0_is_not_flexible_and_knows_neither_voter_nor_endpoints() -> None:
    raw = bytes.fromhex("ffff 00000001 0001 74 00000001 00000000 00000001 00000006")
    assert write(BEGIN_QUORUM_EPOCH_REQUEST, 0, BEGIN_QUORUM_EPOCH_BODY) == raw
    found = read(BEGIN_QUORUM_EPOCH_REQUEST, 0, raw)[0]
    assert found["voter_id"] == -1
    assert found["leader_endpoints"] == []
    assert found["topics"][0]["partitions"][0]["voter_directory_id"] == bytes(16)


def test_describe_cluster_requests_of_all_versions() -> None:
    assert write(cluster.DESCRIBE_CLUSTER_REQUEST, 0, {}) == bytes.fromhex("00 00")
    assert write(cluster.DESCRIBE_CLUSTER_REQUEST, 1, {"endpoint_type": 2}) == bytes.fromhex("00 02 00")
    assert write(
        cluster.DESCRIBE_CLUSTER_REQUEST, 2, {"endpoint_type": 2, "include_fenced_brokers": True}
    ) == bytes.fromhex("00 02 01 00")
    with pytest.raises(ProtocolError, match="endpoint_type"):
        write(cluster.DESCRIBE_CLUSTER_REQUEST, 0, {"endpoint_type": 2})


DESCRIBE_QUORUM_REPLICA = {
    "replica_id": 1,
    "replica_directory_id": b"D" * 16,
    "log_end_offset": 9,
    "last_fetch_timestamp": 2,
    "last_caught_up_timestamp": 3,
}
DESCRIBE_QUORUM_TIMES = "0000000000000002 0000000000000003"


def describe_quorum_answer(version: int) -> bytes:
    part = {
        "leader_id": 1,
        "leader_epoch": 2,
        "high_watermark": 8,
        "current_voters": [DESCRIBE_QUORUM_REPLICA],
        "observers": [],
    }
    nodes = [{"node_id": 1, "listeners": [{"name": "C", "host": "h", "port": 9093}]}]
    return write(
        cluster.DESCRIBE_QUORUM_RESPONSE,
        version,
        {"topics": [{"topic_name": "t", "partitions": [part]}], "nodes": nodes},
    )


def test_describe_quorum_version_0_has_offsets_only() -> None:
    head = "0000 02 02 74 02 00000000 0000 00000001 00000002 0000000000000008"
    assert describe_quorum_answer(0) == bytes.fromhex(f"{head} 02 00000001 0000000000000009 00 01 00 00 00")
    assert describe_quorum_answer(1) == bytes.fromhex(
        f"{head} 02 00000001 0000000000000009 {DESCRIBE_QUORUM_TIMES} 00 01 00 00 00"
    )


FETCH_TOPIC_ID = bytes(15) + b"\2"


def fetch_request(**partition: object) -> dict[str, Any]:
    part = {"fetch_offset": 7, "current_leader_epoch": 3, **partition}
    return {"max_wait_ms": 500, "topics": [{"topic": "t", "topic_id": FETCH_TOPIC_ID, "partitions": [part]}]}


def fetch_response(**partition: object) -> dict[str, Any]:
    return {
        "responses": [{"topic": "t", "topic_id": FETCH_TOPIC_ID, "partitions": [{"high_watermark": 5, **partition}]}]
    }


def fetch_part_of(body: dict[str, Any]) -> dict[str, Any]:
    (topic,) = body.get("topics") or body["responses"]
    (part,) = topic["partitions"]
    return dict(part)


def test_fetch_topics_have_a_name_up_to_version_12_and_an_id_from_13_on() -> None:
    assert b"\2t\2" in write(fetch.FETCH_REQUEST, 12, fetch_request())
    assert FETCH_TOPIC_ID not in write(fetch.FETCH_REQUEST, 12, fetch_request())
    assert FETCH_TOPIC_ID in write(fetch.FETCH_REQUEST, 13, fetch_request())
    assert read(fetch.FETCH_REQUEST, 13, write(fetch.FETCH_REQUEST, 13, fetch_request()))[0]["topics"][0]["topic"] == ""


def test_fetch_the_replica_id_moves_into_a_tag_with_version_15() -> None:
    old = write(fetch.FETCH_REQUEST, 14, {"replica_id": 2})
    assert old[:4] == b"\0\0\0\2"
    new = write(fetch.FETCH_REQUEST, 15, {"replica_state": {"replica_id": 2}})
    assert new.endswith(bytes.fromhex("01 01 0d 00000002 ffffffffffffffff 00"))
    with pytest.raises(ProtocolError):
        write(fetch.FETCH_REQUEST, 14, {"replica_state": {"replica_id": 2}})


def test_fetch_the_directory_id_needs_version_17_and_the_high_watermark_18() -> None:
    body = fetch_request(replica_directory_id=b"D" * 16, high_watermark=-1)
    assert bytes.fromhex("02 00 10" + "44" * 16 + "01 08 ffffffffffffffff") in write(fetch.FETCH_REQUEST, 18, body)
    assert bytes.fromhex("01 00 10" + "44" * 16 + "00 01 01 00") in write(fetch.FETCH_REQUEST, 17, body)
    assert b"DD" not in write(fetch.FETCH_REQUEST, 16, body)
    assert (
        fetch_part_of(read(fetch.FETCH_REQUEST, 17, write(fetch.FETCH_REQUEST, 17, body))[0])["high_watermark"]
        == fetch.HIGH_WATERMARK_NOT_TOLD
    )


def test_fetch_the_last_fetched_epoch_cannot_be_told_before_version_12() -> None:
    with pytest.raises(ProtocolError, match="last_fetched_epoch"):
        write(fetch.FETCH_REQUEST, 11, fetch_request(last_fetched_epoch=2))


def test_fetch_an_endpoint_has_a_port_of_32_bits_and_a_rack() -> None:
    body = {"node_endpoints": [{"node_id": 1, "host": "h", "port": 9}]}
    raw = bytes.fromhex("00000000 0000 00000000 01  01 00 0d 02 00000001 02 68 00000009 00 00")
    assert write(fetch.FETCH_RESPONSE, 16, body) == raw
    # An answer to an older client that was sent to the wrong node leaves the endpoint out.
    assert write(fetch.FETCH_RESPONSE, 15, body) == write(fetch.FETCH_RESPONSE, 15, {})


def test_fetch_the_current_leader_is_unknown_unless_told() -> None:
    part = fetch_part_of(read(fetch.FETCH_RESPONSE, 18, write(fetch.FETCH_RESPONSE, 18, fetch_response()))[0])
    assert part["current_leader"] == {"leader_id": -1, "leader_epoch": -1}
    assert part["snapshot_id"] == {"end_offset": -1, "epoch": -1}


def test_fetch_snapshot_a_request_names_the_snapshot_by_end_offset_and_epoch() -> None:
    part = {
        "current_leader_epoch": 3,
        "snapshot_id": {"end_offset": 9, "epoch": 2},
        "position": 100,
        "replica_directory_id": b"D" * 16,
    }
    body = {"replica_id": 1, "max_bytes": 512, "topics": [{"name": "t", "partitions": [part]}], "cluster_id": "c"}
    head = "00000001 00000200 02 02 74 02 00000000 00000003 0000000000000009 00000002 00 0000000000000064"
    assert write(fetch.FETCH_SNAPSHOT_REQUEST, 1, body) == bytes.fromhex(
        head + "01 00 10" + "44" * 16 + "00" + "01 00 02 02 63"
    )
    assert write(fetch.FETCH_SNAPSHOT_REQUEST, 0, body) == bytes.fromhex(head + "00 00" + "01 00 02 02 63")


def test_fetch_snapshot_an_error_has_empty_records_never_null_ones() -> None:
    raw = write(fetch.FETCH_SNAPSHOT_RESPONSE, 0, {"topics": [{"name": "t", "partitions": [{"error_code": 98}]}]})
    part = "00000000 0062 0000000000000000 00000000 00 0000000000000000 0000000000000000 01 00"
    assert raw == bytes.fromhex(f"00000000 0000 02 02 74 02 {part} 00 00")
    null = raw.replace(bytes.fromhex("01 00 00 00"), bytes.fromhex("00 00 00 00"))
    with pytest.raises(
        ProtocolError, match=r"topics\[\].partitions\[\].unaligned_records: the bytes before .* length -1"
    ):
        read(fetch.FETCH_SNAPSHOT_RESPONSE, 0, null)


def test_fetch_snapshot_an_absent_leader_reads_as_zero() -> None:
    raw = write(fetch.FETCH_SNAPSHOT_RESPONSE, 1, {"topics": [{"partitions": [{}]}]})
    part = read(fetch.FETCH_SNAPSHOT_RESPONSE, 1, raw)[0]["topics"][0]["partitions"][0]
    assert part["current_leader"] == {"leader_id": 0, "leader_epoch": 0}


def test_forward_the_request_has_the_records() -> None:
    body = {"cluster_id": "c", "records": b"hi"}
    raw = bytes.fromhex("02 63 03 6869 00")
    assert write(own.FORWARD_REQUEST, 0, body) == raw
    assert read(own.FORWARD_REQUEST, 0, raw)[0] == body


def test_forward_the_answer_has_an_offset_and_names_the_leader() -> None:
    body = {"error_code": 7, "error_message": "no", "leader_id": 1, "leader_epoch": 6, "offset": 9}
    assert write(own.FORWARD_RESPONSE, 0, body) == bytes.fromhex("0007 03 6e6f 00000001 00000006 0000000000000009 00")
    assert read(own.FORWARD_RESPONSE, 0, write(own.FORWARD_RESPONSE, 0, body))[0] == body


def test_produce_the_answer_names_the_leader_from_version_10_on() -> None:
    partition = {
        "index": 0,
        "error_code": 6,
        "base_offset": -1,
        "error_message": "no",
        "current_leader": {"leader_id": 2, "leader_epoch": 5},
    }
    node = {"node_id": 2, "host": "h", "port": 9, "rack": None}
    body = {"responses": [{"name": "t", "partition_responses": [partition]}], "node_endpoints": [node]}
    new, _ = read(PRODUCE_RESPONSE, 10, write(PRODUCE_RESPONSE, 10, body))
    assert new["responses"][0]["partition_responses"][0]["current_leader"] == {"leader_id": 2, "leader_epoch": 5}
    assert new["node_endpoints"] == [node]
    old, _ = read(PRODUCE_RESPONSE, 9, write(PRODUCE_RESPONSE, 9, body))
    assert old["node_endpoints"] == []
    assert old["responses"][0]["partition_responses"][0]["error_message"] == "no"


def test_transfer_leadership_the_request_names_the_target_and_how_long_to_wait() -> None:
    body = {"cluster_id": "c", "target_id": 3, "timeout_ms": 1_000}
    raw = bytes.fromhex("02 63 00000003 000003e8 00")
    assert write(own.TRANSFER_LEADERSHIP_REQUEST, 0, body) == raw
    assert read(own.TRANSFER_LEADERSHIP_REQUEST, 0, raw)[0] == body


def test_transfer_leadership_the_answer_names_the_leader() -> None:
    body = {"error_code": 7, "error_message": "no", "leader_id": 1, "leader_epoch": 6}
    assert write(own.TRANSFER_LEADERSHIP_RESPONSE, 0, body) == bytes.fromhex("0007 03 6e6f 00000001 00000006 00")
    assert write(own.TRANSFER_LEADERSHIP_RESPONSE, 0, {}) == bytes.fromhex("0000 00 ffffffff 00000000 00")


def test_unregister_controller_the_request_names_the_controller() -> None:
    raw = bytes.fromhex("00000009 00")
    assert write(voters.UNREGISTER_CONTROLLER_REQUEST, 0, {"controller_id": 9}) == raw
    assert read(voters.UNREGISTER_CONTROLLER_REQUEST, 0, raw)[0] == {"controller_id": 9}


def test_unregister_controller_the_answer_has_a_message() -> None:
    assert write(voters.UNREGISTER_CONTROLLER_RESPONSE, 0, {"error_code": 136, "error_message": "no"}) == bytes.fromhex(
        "00000000 0088 03 6e6f 00"
    )


def test_update_features_version_0_cannot_ask_without_effect() -> None:
    with pytest.raises(ProtocolError):
        write(voters.UPDATE_FEATURES_REQUEST, 0, {"validate_only": True})


def test_update_features_version_2_has_no_results_of_single_features() -> None:
    body = {"error_code": 95, "error_message": "no", "results": [{"feature": "f"}]}
    for version in (0, 1):
        assert write(voters.UPDATE_FEATURES_RESPONSE, version, body) == bytes.fromhex(
            "00000000 005f 03 6e6f 02 02 66 0000 00 00 00"
        )
    assert write(voters.UPDATE_FEATURES_RESPONSE, 2, body) == bytes.fromhex("00000000 005f 03 6e6f 00")


def test_update_raft_voter_an_absent_leader_is_unknown() -> None:
    raw = bytes.fromhex("00000000 0006 00")
    assert write(voters.UPDATE_RAFT_VOTER_RESPONSE, 0, {"error_code": 6}) == raw
    found = read(voters.UPDATE_RAFT_VOTER_RESPONSE, 0, raw)[0]["current_leader"]
    assert found == {"leader_id": -1, "leader_epoch": -1, "host": "", "port": 0}


VOTE_PARTITION = {
    "partition_index": 0,
    "replica_epoch": 5,
    "replica_id": 2,
    "replica_directory_id": b"R" * 16,
    "voter_directory_id": b"V" * 16,
    "last_offset_epoch": 4,
    "last_offset": 9,
    "pre_vote": True,
}


def vote_request(partition: dict[str, object], voter_id: int = 3) -> dict[str, object]:
    topics = [{"topic_name": "t", "partitions": [partition]}]
    return {"cluster_id": "c", "voter_id": voter_id, "topics": topics}


def test_vote_version_1_lacks_pre_vote_and_version_0_the_directory_ids() -> None:
    standard = {**VOTE_PARTITION, "pre_vote": False}
    assert (
        len(write(VOTE_REQUEST, 2, vote_request(standard))) - len(write(VOTE_REQUEST, 1, vote_request(standard))) == 1
    )
    raw = bytes.fromhex("02 63  02 02 74  02 00000000 00000005 00000002 00000004 0000000000000009 00  00 00")
    assert write(VOTE_REQUEST, 0, vote_request(standard)) == raw
    found = {**standard, "replica_directory_id": bytes(16), "voter_directory_id": bytes(16)}
    assert read(VOTE_REQUEST, 0, raw)[0] == vote_request(found, voter_id=-1)
