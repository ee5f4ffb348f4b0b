"""TransferLeadership (30001): transfer the leadership to a chosen voter. pykraft's own; Kafka has no such API.

The request goes to the leader, which answers when it knows who leads the next epoch. It waits up to ``timeout_ms``
until the target has its whole log. The answer names the leader that the answering node knows.

Source: Raft dissertation §3.10.
"""

from pykraft.protocol.schema import INT16, INT32, STRING, Field, Message

REQUEST = Message.of(
    "TransferLeadershipRequest",
    "0",
    "0+",
    Field("cluster_id", STRING, default=None, nullable=True),
    Field("target_id", INT32),
    Field("timeout_ms", INT32),
)

RESPONSE = Message.of(
    "TransferLeadershipResponse",
    "0",
    "0+",
    Field("error_code", INT16),
    Field("error_message", STRING, default=None, nullable=True),
    Field("leader_id", INT32, default=-1),
    Field("leader_epoch", INT32),
)
