"""AddRaftVoter (80): make an observer a voter.

Version 1 adds AckWhenCommitted (KIP-1186). Its default is true and it is not ignorable, so a node cannot ask a peer
that has only version 0 to answer before the commit.

Source: KIP-853 §AddRaftVoter; Kafka's AddRaftVoterRequest and AddRaftVoterResponse definitions.
"""

from pykraft.protocol.messages.common import VOTER_CHANGE_ANSWER, listeners_field
from pykraft.protocol.schema import BOOL, INT32, STRING, UUID, Field, Message

REQUEST = Message.of(
    "AddRaftVoterRequest",
    "0-1",
    "0+",
    Field("cluster_id", STRING, default=None, nullable=True),
    Field("timeout_ms", INT32),
    Field("voter_id", INT32),
    Field("voter_directory_id", UUID),
    listeners_field("listeners"),
    Field("ack_when_committed", BOOL, "1+", default=True),
)

RESPONSE = Message.of("AddRaftVoterResponse", "0-1", "0+", *VOTER_CHANGE_ANSWER)
