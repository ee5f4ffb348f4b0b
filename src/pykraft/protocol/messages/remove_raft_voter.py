"""RemoveRaftVoter (81): make a voter an observer.

Source: KIP-853 §RemoveRaftVoter; Kafka's RemoveRaftVoterRequest and RemoveRaftVoterResponse definitions.
"""

from pykraft.protocol.messages.common import VOTER_CHANGE_ANSWER
from pykraft.protocol.schema import INT32, STRING, UUID, Field, Message

REQUEST = Message.of(
    "RemoveRaftVoterRequest",
    "0",
    "0+",
    Field("cluster_id", STRING, default=None, nullable=True),
    Field("voter_id", INT32),
    Field("voter_directory_id", UUID),
)

RESPONSE = Message.of("RemoveRaftVoterResponse", "0", "0+", *VOTER_CHANGE_ANSWER)
