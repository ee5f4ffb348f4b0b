"""Bodies of DescribeCluster and DescribeQuorum answers, for scripted nodes."""

from collections.abc import Mapping

from pykraft.config import METADATA_TOPIC_NAME
from pykraft.errors import ErrorCode
from pykraft.protocol.schema import Body
from pykraft.types import Endpoint

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


def cluster_body(leader_id: int, nodes: Mapping[int, Endpoint], *, cluster_id: str = CLUSTER_ID) -> Body:
    """An answer to DescribeCluster; -1 for a leader that is not known."""
    return {
        "endpoint_type": 2,
        "cluster_id": cluster_id,
        "controller_id": leader_id,
        "brokers": [{"broker_id": i, "host": at.host, "port": at.port} for i, at in nodes.items()],
    }


def quorum_body(leader_id: int, voter_ids: tuple[int, ...] = (1, 2, 3)) -> Body:
    """The leader's answer to DescribeQuorum: epoch 4, all voters at offset 10 but the last one, at 8."""
    rows = [
        {
            "replica_id": i,
            "replica_directory_id": bytes(15) + bytes([i]),
            "log_end_offset": 8 if i == voter_ids[-1] else 10,
            "last_fetch_timestamp": 1_000 - i,
            "last_caught_up_timestamp": 1_000 - 2 * i,
        }
        for i in voter_ids
    ]
    partition = {
        "partition_index": 0,
        "leader_id": leader_id,
        "leader_epoch": 4,
        "high_watermark": 10,
        "current_voters": rows,
        "observers": [{"replica_id": 9, "replica_directory_id": bytes(16), "log_end_offset": -1}],
    }
    nodes = [{"node_id": i, "listeners": [{"name": "CONTROLLER", "host": "::1", "port": 9_000 + i}]} for i in voter_ids]
    return {"topics": [{"topic_name": METADATA_TOPIC_NAME, "partitions": [partition]}], "nodes": nodes}


def refusal(code: int = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> Body:
    """An answer to DescribeQuorum with an error in the partition."""
    partition = {"partition_index": 0, "error_code": code}
    return {"topics": [{"topic_name": METADATA_TOPIC_NAME, "partitions": [partition]}]}
