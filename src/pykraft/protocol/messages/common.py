"""Fields that several messages share.

Source: KIP-853; Kafka's message definitions.
"""

from pykraft.protocol.schema import INT16, INT32, STRING, UINT16, Field, Message, array_of
from pykraft.types import LISTENERS_MAX

NODES_MAX = 64
"""Most node endpoints in an answer; Raft's answers have only the leader's."""
SUCCESSORS_MAX = 100
"""Most successors that a leader may name: a quorum has far fewer voters."""
REPLICAS_MAX = 100_000
"""Most replicas or nodes in an answer to an operator."""

NODE_ENDPOINTS = array_of(
    "node_endpoints",
    Field("node_id", INT32),
    Field("host", STRING),
    Field("port", UINT16),
    versions="1+",
    tag=0,
    count_max=NODES_MAX,
)
"""The leader's endpoint, in answers of version 1 and later. Clients' answers have `brokers_field`."""

LISTENER = (Field("name", STRING), Field("host", STRING), Field("port", UINT16))
"""An endpoint with the name of its listener."""

VOTER_CHANGE_ANSWER = (
    Field("throttle_time_ms", INT32),
    Field("error_code", INT16),
    Field("error_message", STRING, default=None, nullable=True),
)
"""The fields of the answers to an operator who adds or removes a voter."""


def one_partition(*fields: Field) -> Field:
    """The topics of a request or an answer about one partition: it has its index, then these fields."""
    partitions = array_of("partitions", Field("partition_index", INT32), *fields, count_max=1)
    return array_of("topics", Field("topic_name", STRING), partitions, count_max=1)


def election_answer(name: str, versions: str, flexible: str, *fields: Field) -> Message:
    """The answer to Vote, BeginQuorumEpoch or EndQuorumEpoch: who leads which epoch, with the leader's endpoint."""
    leader = (Field("error_code", INT16), Field("leader_id", INT32), Field("leader_epoch", INT32))
    return Message.of(
        name, versions, flexible, Field("error_code", INT16), one_partition(*leader, *fields), NODE_ENDPOINTS
    )


def brokers_field(versions: str, *, ignorable: bool = False) -> Field:
    """The leader's endpoint in answers to clients, Fetch and Produce, as KIP-951 has it: int32 ports, and a rack."""
    return array_of(
        "node_endpoints",
        Field("node_id", INT32),
        Field("host", STRING),
        Field("port", INT32),
        Field("rack", STRING, default=None, nullable=True),
        versions=versions,
        tag=0,
        ignorable=ignorable,
        count_max=NODES_MAX,
    )


def listeners_field(name: str, *, versions: str = "0+", ignorable: bool = False) -> Field:
    """A replica's endpoints, as many as a voter may have."""
    return array_of(name, *LISTENER, versions=versions, ignorable=ignorable, count_max=LISTENERS_MAX)
