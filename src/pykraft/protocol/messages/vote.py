"""Vote (52): a candidate, or with PreVote a prospective replica, requests a vote.

Version 1 adds directory ids, the voter's id and endpoints (KIP-853). Version 2 adds PreVote (KIP-996), which is not
ignorable: a peer with only version 1 cannot get a pre-vote request. ``last_offset`` is the candidate's log end,
exclusive. Fields were named candidate_* before version 2; the bytes are the same.

Source: KIP-595 §Vote; Kafka's VoteRequest and VoteResponse definitions.
"""

from pykraft.protocol.messages.common import election_answer, one_partition
from pykraft.protocol.schema import BOOL, INT32, INT64, STRING, UUID, Field, Message

REQUEST = Message.of(
    "VoteRequest",
    "0-2",
    "0+",
    Field("cluster_id", STRING, default=None, nullable=True),
    Field("voter_id", INT32, "1+", default=-1, ignorable=True),
    one_partition(
        Field("replica_epoch", INT32),
        Field("replica_id", INT32),
        Field("replica_directory_id", UUID, "1+", ignorable=True),
        Field("voter_directory_id", UUID, "1+", ignorable=True),
        Field("last_offset_epoch", INT32),
        Field("last_offset", INT64),
        Field("pre_vote", BOOL, "2+"),
    ),
)

RESPONSE = election_answer("VoteResponse", "0-2", "0+", Field("vote_granted", BOOL))
