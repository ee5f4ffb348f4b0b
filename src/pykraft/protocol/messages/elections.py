"""Messages of elections: a vote, and the begin and end of a leader's epoch.

Source: KIP-595, KIP-853, KIP-996; Kafka's definitions of these messages.
"""

from pykraft.protocol.messages.common import SUCCESSORS_MAX, election_answer, listeners_field, one_partition
from pykraft.protocol.schema import BOOL, INT32, INT64, STRING, UUID, Array, Field, Message, array_of

VOTE_REQUEST = Message.of(
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
"""Vote (52): a candidate, or with PreVote a prospective replica, requests a vote. Version 1 adds directory ids, the
voter's id and endpoints (KIP-853). Version 2 adds PreVote (KIP-996), which is not ignorable: a peer with only version 1
cannot get a pre-vote request. ``last_offset`` is the candidate's log end, exclusive. Fields were named candidate_*
before version 2; the bytes are the same.
"""

VOTE_RESPONSE = election_answer("VoteResponse", "0-2", "0+", Field("vote_granted", BOOL))

BEGIN_QUORUM_EPOCH_REQUEST = Message.of(
    "BeginQuorumEpochRequest",
    "0-1",
    "1+",
    Field("cluster_id", STRING, default=None, nullable=True),
    Field("voter_id", INT32, "1+", default=-1, ignorable=True),
    one_partition(
        Field("voter_directory_id", UUID, "1+", ignorable=True), Field("leader_id", INT32), Field("leader_epoch", INT32)
    ),
    listeners_field("leader_endpoints", versions="1+", ignorable=True),
)
"""BeginQuorumEpoch (53): a new leader announces itself to each voter until that voter answers or fetches. Version 1 is
flexible and adds the voter's key and the endpoints (KIP-853).
"""

BEGIN_QUORUM_EPOCH_RESPONSE = election_answer("BeginQuorumEpochResponse", "0-1", "1+")

END_QUORUM_EPOCH_REQUEST = Message.of(
    "EndQuorumEpochRequest",
    "0-1",
    "1+",
    Field("cluster_id", STRING, default=None, nullable=True),
    one_partition(
        Field("leader_id", INT32),
        Field("leader_epoch", INT32),
        Field("preferred_successors", Array(INT32, SUCCESSORS_MAX), "0", ignorable=True),
        array_of(
            "preferred_candidates",
            Field("candidate_id", INT32),
            Field("candidate_directory_id", UUID),
            versions="1+",
            ignorable=True,
            count_max=SUCCESSORS_MAX,
        ),
    ),
    listeners_field("leader_endpoints", versions="1+", ignorable=True),
)
"""EndQuorumEpoch (54): a resigning leader tells the voters, and names the best successors first. Version 0 names
successors by id; version 1 is flexible, names them by id and directory id, and adds the endpoints (KIP-853), which
Kafka's own senders leave empty.
"""

END_QUORUM_EPOCH_RESPONSE = election_answer("EndQuorumEpochResponse", "0-1", "1+")
