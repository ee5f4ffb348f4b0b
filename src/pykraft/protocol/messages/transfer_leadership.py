"""TransferLeadership (30001): let a voter of one's choice lead. pykraft's own; Kafka has none.

Asked of the leader, which answers when it is known who leads the next epoch. It waits ``timeout_ms`` for the target to
have its whole log. The answer names the leader as far as the answering node knows it.

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
