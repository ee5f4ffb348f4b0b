"""EndQuorumEpoch (54): a resigning leader tells the voters, and names the best successors first.

Version 0 names successors by id; version 1 is flexible, names them by id and directory id, and adds the endpoints
(KIP-853), which Kafka's own senders leave empty.

Source: KIP-595 §EndQuorumEpoch; Kafka's EndQuorumEpochRequest and EndQuorumEpochResponse definitions.
"""

from pykraft.protocol.messages.common import (
    SUCCESSORS_MAX,
    election_answer,
    listeners_field,
    one_partition,
)
from pykraft.protocol.schema import INT32, STRING, UUID, Array, Field, Message, array_of

REQUEST = Message.of(
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

RESPONSE = election_answer("EndQuorumEpochResponse", "0-1", "1+")
