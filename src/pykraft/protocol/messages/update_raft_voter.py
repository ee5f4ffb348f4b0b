"""UpdateRaftVoter (82): a voter tells the leader its listeners and the kraft.version range it supports.

The answer has no error message; the current leader's port is an int32.

Source: KIP-853 §UpdateRaftVoter; Kafka's UpdateRaftVoterRequest and UpdateRaftVoterResponse definitions.
"""

from pykraft.protocol.messages.common import listeners_field
from pykraft.protocol.schema import INT16, INT32, STRING, UUID, Field, Message, struct_of

REQUEST = Message.of(
    "UpdateRaftVoterRequest",
    "0",
    "0+",
    Field("cluster_id", STRING, default=None, nullable=True),
    Field("current_leader_epoch", INT32),
    Field("voter_id", INT32),
    Field("voter_directory_id", UUID),
    listeners_field("listeners"),
    struct_of("kraft_version_feature", Field("min_supported_version", INT16), Field("max_supported_version", INT16)),
)

RESPONSE = Message.of(
    "UpdateRaftVoterResponse",
    "0",
    "0+",
    Field("throttle_time_ms", INT32),
    Field("error_code", INT16),
    struct_of(
        "current_leader",
        Field("leader_id", INT32, default=-1),
        Field("leader_epoch", INT32, default=-1),
        Field("host", STRING),
        Field("port", INT32),
        tag=0,
    ),
)
