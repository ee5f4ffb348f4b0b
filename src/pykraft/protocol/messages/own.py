"""Messages of pykraft's own, which Kafka does not have.

Source: Raft dissertation §3.10; ours (ADR 070).
"""

from pykraft.protocol.schema import BYTES, INT16, INT32, INT64, STRING, Field, Message

FORWARD_REQUEST = Message.of(
    "ForwardRequest", "0", "0+", Field("cluster_id", STRING, default=None, nullable=True), Field("records", BYTES)
)
"""Forward (30002): a node passes records of a state machine, or a read, on to the leader. pykraft's own, not Kafka's.
``records`` are those of `pykraft.machine.records.pack_records`. The leader appends them as one batch and answers when
they are committed, with the offset of the first. Without records it confirms that it leads, and answers up to which
offset a linearizable read must wait. The answer names the leader that the answering node knows.
"""

FORWARD_RESPONSE = Message.of(
    "ForwardResponse",
    "0",
    "0+",
    Field("error_code", INT16),
    Field("error_message", STRING, default=None, nullable=True),
    Field("leader_id", INT32, default=-1),
    Field("leader_epoch", INT32),
    Field("offset", INT64, default=-1),
)

TRANSFER_LEADERSHIP_REQUEST = Message.of(
    "TransferLeadershipRequest",
    "0",
    "0+",
    Field("cluster_id", STRING, default=None, nullable=True),
    Field("target_id", INT32),
    Field("timeout_ms", INT32),
)
"""TransferLeadership (30001): transfer the leadership to a chosen voter. pykraft's own; Kafka has no such API. The
request goes to the leader, which answers when it knows who leads the next epoch. It waits up to ``timeout_ms`` until
the target has its whole log. The answer names the leader that the answering node knows.
"""

TRANSFER_LEADERSHIP_RESPONSE = Message.of(
    "TransferLeadershipResponse",
    "0",
    "0+",
    Field("error_code", INT16),
    Field("error_message", STRING, default=None, nullable=True),
    Field("leader_id", INT32, default=-1),
    Field("leader_epoch", INT32),
)
