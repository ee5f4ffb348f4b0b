"""Vote (52): a candidate, or with PreVote a prospective replica, requests a vote.

Version 1 adds directory ids, the voter's id and endpoints (KIP-853). Version 2 adds PreVote (KIP-996), which is not
ignorable: a peer with only version 1 cannot get a pre-vote request. ``last_offset`` is the candidate's log end,
exclusive. Fields were named candidate_* before version 2; the bytes are the same.

Source: KIP-595 §Vote; Kafka's VoteRequest and VoteResponse definitions.
"""

from pykraft.protocol.messages.common import NODE_ENDPOINTS
from pykraft.protocol.schema import BOOL, INT16, INT32, INT64, STRING, UUID, Field, Message, array_of

REQUEST = Message.of(
    "VoteRequest",
    "0-2",
    "0+",
    Field("cluster_id", STRING, default=None, nullable=True),
    Field("voter_id", INT32, "1+", default=-1, ignorable=True),
    array_of(
        "topics",
        Field("topic_name", STRING),
        array_of(
            "partitions",
            Field("partition_index", INT32),
            Field("replica_epoch", INT32),
            Field("replica_id", INT32),
            Field("replica_directory_id", UUID, "1+", ignorable=True),
            Field("voter_directory_id", UUID, "1+", ignorable=True),
            Field("last_offset_epoch", INT32),
            Field("last_offset", INT64),
            Field("pre_vote", BOOL, "2+"),
            count_max=1,
        ),
        count_max=1,
    ),
)

RESPONSE = Message.of(
    "VoteResponse",
    "0-2",
    "0+",
    Field("error_code", INT16),
    array_of(
        "topics",
        Field("topic_name", STRING),
        array_of(
            "partitions",
            Field("partition_index", INT32),
            Field("error_code", INT16),
            Field("leader_id", INT32),
            Field("leader_epoch", INT32),
            Field("vote_granted", BOOL),
            count_max=1,
        ),
        count_max=1,
    ),
    NODE_ENDPOINTS,
)
