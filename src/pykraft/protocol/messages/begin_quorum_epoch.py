"""BeginQuorumEpoch (53): a new leader announces itself to each voter until that voter answers or fetches.

Version 1 is flexible and adds the voter's key and the endpoints (KIP-853).

Source: KIP-595 §BeginQuorumEpoch; Kafka's BeginQuorumEpochRequest and BeginQuorumEpochResponse definitions.
"""

from pykraft.protocol.messages.common import election_answer, listeners_field, one_partition
from pykraft.protocol.schema import INT32, STRING, UUID, Field, Message

REQUEST = Message.of(
    "BeginQuorumEpochRequest",
    "0-1",
    "1+",
    Field("cluster_id", STRING, default=None, nullable=True),
    Field("voter_id", INT32, "1+", default=-1, ignorable=True),
    one_partition(
        Field("voter_directory_id", UUID, "1+", ignorable=True),
        Field("leader_id", INT32),
        Field("leader_epoch", INT32),
    ),
    listeners_field("leader_endpoints", versions="1+", ignorable=True),
)

RESPONSE = election_answer("BeginQuorumEpochResponse", "0-1", "1+")
