"""Messages that change the voters, what is known of them, and the level of kraft.version.

Source: KIP-584, KIP-778, KIP-853, KIP-1312; Kafka's definitions of these messages.
"""

from pykraft.protocol.messages.common import VOTER_CHANGE_ANSWER, listeners_field
from pykraft.protocol.schema import BOOL, INT8, INT16, INT32, STRING, UUID, Field, Message, array_of, struct_of

ADD_RAFT_VOTER_REQUEST = Message.of(
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
"""AddRaftVoter (80): make an observer a voter. Version 1 adds AckWhenCommitted (KIP-1186). Its default is true and it
is not ignorable, so a node cannot ask a peer that has only version 0 to answer before the commit.
"""

ADD_RAFT_VOTER_RESPONSE = Message.of("AddRaftVoterResponse", "0-1", "0+", *VOTER_CHANGE_ANSWER)

REMOVE_RAFT_VOTER_REQUEST = Message.of(
    "RemoveRaftVoterRequest",
    "0",
    "0+",
    Field("cluster_id", STRING, default=None, nullable=True),
    Field("voter_id", INT32),
    Field("voter_directory_id", UUID),
)
"""RemoveRaftVoter (81): make a voter an observer."""

REMOVE_RAFT_VOTER_RESPONSE = Message.of("RemoveRaftVoterResponse", "0", "0+", *VOTER_CHANGE_ANSWER)

UPDATE_RAFT_VOTER_REQUEST = Message.of(
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
"""UpdateRaftVoter (82): a voter tells the leader its listeners and the kraft.version range it supports. The answer has
no error message; the current leader's port is an int32.
"""

UPDATE_RAFT_VOTER_RESPONSE = Message.of(
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

FEATURES_MAX = 16

UPDATE_FEATURES_REQUEST = Message.of(
    "UpdateFeaturesRequest",
    "0-2",
    "0+",
    Field("timeout_ms", INT32, default=60_000),
    array_of(
        "feature_updates",
        Field("feature", STRING),
        Field("max_version_level", INT16),
        Field("allow_downgrade", BOOL, "0"),
        Field("upgrade_type", INT8, "1+", default=1),
        count_max=FEATURES_MAX,
    ),
    Field("validate_only", BOOL, "1+"),
)
"""UpdateFeatures (57): raise the level of features, here of kraft.version. Version 1 replaces the flag that allows a
downgrade by the type of the upgrade, and adds ``validate_only``; from 2 on the answer has no results of single
features.
"""

UPDATE_FEATURES_RESPONSE = Message.of(
    "UpdateFeaturesResponse",
    "0-2",
    "0+",
    Field("throttle_time_ms", INT32),
    Field("error_code", INT16),
    Field("error_message", STRING, default=None, nullable=True),
    array_of(
        "results",
        Field("feature", STRING),
        Field("error_code", INT16),
        Field("error_message", STRING, default=None, nullable=True),
        versions="0-1",
        ignorable=True,
        count_max=FEATURES_MAX,
    ),
)

UNREGISTER_CONTROLLER_REQUEST = Message.of("UnregisterControllerRequest", "0", "0+", Field("controller_id", INT32))
"""UnregisterController (94): a Kafka controller forgets the registration of one that is gone. Only Kafka's controllers
register, so our nodes ask this and never answer it.
"""

UNREGISTER_CONTROLLER_RESPONSE = Message.of("UnregisterControllerResponse", "0", "0+", *VOTER_CHANGE_ANSWER)
