"""Messages about consumer groups: their committed offsets, their members, and what an operator asks.

All versions are those of Kafka 4.3. A request names few topics, since a quorum has one, and an answer as many groups as
there are.

Source: KIP-211 (expiry), KIP-229, KIP-345 (static members), KIP-394, KIP-447, KIP-496, KIP-518, KIP-709, KIP-848;
Kafka's definitions of these messages.
"""

from pykraft.protocol import schema
from pykraft.protocol.messages.clients import TOPICS_MAX

PARTITIONS_MAX = 16
"""Most partitions of a topic in a request."""
GROUPS_MAX = 100
"""Most groups in a request."""
MEMBERS_MAX = 250
"""Most members in a request, and so in a group."""
PROTOCOLS_MAX = 16
"""Most assignors that a member may offer."""
FILTERS_MAX = 100
"""Most states or types in a request."""
NEVER_FLEXIBLE = "32767+"
ANSWERED_MAX = 100_000
"""Most groups or members in an answer."""

OFFSET_COMMIT_REQUEST = schema.Message.of(
    "OffsetCommitRequest",
    "2-10",
    "8+",
    schema.Field("group_id", schema.STRING),
    schema.Field("generation_id_or_member_epoch", schema.INT32, default=-1, ignorable=True),
    schema.Field("member_id", schema.STRING, ignorable=True),
    schema.Field("group_instance_id", schema.STRING, "7+", default=None, nullable=True),
    schema.Field("retention_time_ms", schema.INT64, "2-4", default=-1, ignorable=True),
    schema.array_of(
        "topics",
        schema.Field("name", schema.STRING, "0-9", ignorable=True),
        schema.Field("topic_id", schema.UUID, "10+", ignorable=True),
        schema.array_of(
            "partitions",
            schema.Field("partition_index", schema.INT32),
            schema.Field("committed_offset", schema.INT64),
            schema.Field("committed_leader_epoch", schema.INT32, "6+", default=-1, ignorable=True),
            schema.Field("committed_metadata", schema.STRING, nullable=True),
            count_max=PARTITIONS_MAX,
        ),
        count_max=TOPICS_MAX,
    ),
)
"""OffsetCommit (8): keep how far a group has read. Versions that matter: 2 to 4 name a time to keep it, which counts
nothing any more; 6 adds leader epochs, 7 static members, 10 topic ids.
"""

OFFSET_COMMIT_RESPONSE = schema.Message.of(
    "OffsetCommitResponse",
    "2-10",
    "8+",
    schema.Field("throttle_time_ms", schema.INT32, "3+", ignorable=True),
    schema.array_of(
        "topics",
        schema.Field("name", schema.STRING, "0-9", ignorable=True),
        schema.Field("topic_id", schema.UUID, "10+", ignorable=True),
        schema.array_of(
            "partitions",
            schema.Field("partition_index", schema.INT32),
            schema.Field("error_code", schema.INT16),
            count_max=PARTITIONS_MAX,
        ),
        count_max=TOPICS_MAX,
    ),
)

OFFSET_FETCH_REQUEST = schema.Message.of(
    "OffsetFetchRequest",
    "1-10",
    "6+",
    schema.Field("group_id", schema.STRING, "0-7"),
    schema.array_of(
        "topics",
        schema.Field("name", schema.STRING, "0-7"),
        schema.Field("partition_indexes", schema.Array(schema.INT32, PARTITIONS_MAX), "0-7"),
        versions="0-7",
        nullable=True,
        null_from=2,
        count_max=TOPICS_MAX,
    ),
    schema.array_of(
        "groups",
        schema.Field("group_id", schema.STRING, "8+"),
        schema.Field("member_id", schema.STRING, "9+", default=None, nullable=True, ignorable=True),
        schema.Field("member_epoch", schema.INT32, "9+", default=-1, ignorable=True),
        schema.array_of(
            "topics",
            schema.Field("name", schema.STRING, "8-9", ignorable=True),
            schema.Field("topic_id", schema.UUID, "10+", ignorable=True),
            schema.Field("partition_indexes", schema.Array(schema.INT32, PARTITIONS_MAX), "8+"),
            versions="8+",
            nullable=True,
            count_max=TOPICS_MAX,
        ),
        versions="8+",
        count_max=GROUPS_MAX,
    ),
    schema.Field("require_stable", schema.BOOL, "7+"),
)
"""OffsetFetch (9): how far groups have read. Up to version 7 it asks for one group, from 8 on for several (KIP-709); 9
names the member and its epoch (KIP-848), 10 has topic ids. Null topics ask for all.
"""

OFFSET_FETCH_RESPONSE = schema.Message.of(
    "OffsetFetchResponse",
    "1-10",
    "6+",
    schema.Field("throttle_time_ms", schema.INT32, "3+", ignorable=True),
    schema.array_of(
        "topics",
        schema.Field("name", schema.STRING, "0-7"),
        schema.array_of(
            "partitions",
            schema.Field("partition_index", schema.INT32, "0-7"),
            schema.Field("committed_offset", schema.INT64, "0-7"),
            schema.Field("committed_leader_epoch", schema.INT32, "5-7", default=-1, ignorable=True),
            schema.Field("metadata", schema.STRING, "0-7", nullable=True),
            schema.Field("error_code", schema.INT16, "0-7"),
            versions="0-7",
            count_max=PARTITIONS_MAX,
        ),
        versions="0-7",
        count_max=TOPICS_MAX,
    ),
    schema.Field("error_code", schema.INT16, "2-7", ignorable=True),
    schema.array_of(
        "groups",
        schema.Field("group_id", schema.STRING, "8+"),
        schema.array_of(
            "topics",
            schema.Field("name", schema.STRING, "8-9", ignorable=True),
            schema.Field("topic_id", schema.UUID, "10+", ignorable=True),
            schema.array_of(
                "partitions",
                schema.Field("partition_index", schema.INT32, "8+"),
                schema.Field("committed_offset", schema.INT64, "8+"),
                schema.Field("committed_leader_epoch", schema.INT32, "8+", default=-1, ignorable=True),
                schema.Field("metadata", schema.STRING, "8+", nullable=True),
                schema.Field("error_code", schema.INT16, "8+"),
                versions="8+",
                count_max=PARTITIONS_MAX,
            ),
            versions="8+",
            count_max=TOPICS_MAX,
        ),
        schema.Field("error_code", schema.INT16, "8+"),
        versions="8+",
        count_max=ANSWERED_MAX,
    ),
)

OFFSET_DELETE_REQUEST = schema.Message.of(
    "OffsetDeleteRequest",
    "0",
    NEVER_FLEXIBLE,
    schema.Field("group_id", schema.STRING),
    schema.array_of(
        "topics",
        schema.Field("name", schema.STRING),
        schema.array_of("partitions", schema.Field("partition_index", schema.INT32), count_max=PARTITIONS_MAX),
        count_max=TOPICS_MAX,
    ),
)
"""OffsetDelete (47): forget offsets of topics to which no member subscribes (KIP-496)."""

OFFSET_DELETE_RESPONSE = schema.Message.of(
    "OffsetDeleteResponse",
    "0",
    NEVER_FLEXIBLE,
    schema.Field("error_code", schema.INT16),
    schema.Field("throttle_time_ms", schema.INT32, ignorable=True),
    schema.array_of(
        "topics",
        schema.Field("name", schema.STRING),
        schema.array_of(
            "partitions",
            schema.Field("partition_index", schema.INT32),
            schema.Field("error_code", schema.INT16),
            count_max=PARTITIONS_MAX,
        ),
        count_max=TOPICS_MAX,
    ),
)

DESCRIBE_GROUPS_REQUEST = schema.Message.of(
    "DescribeGroupsRequest",
    "0-6",
    "5+",
    schema.Field("groups", schema.Array(schema.STRING, GROUPS_MAX)),
    schema.Field("include_authorized_operations", schema.BOOL, "3+"),
)
"""DescribeGroups (15): the state and the members of groups of the classic protocol. Of a group that does not exist,
version 6 answers GROUP_ID_NOT_FOUND (KIP-1043), older ones that it is dead.
"""

DESCRIBE_GROUPS_RESPONSE = schema.Message.of(
    "DescribeGroupsResponse",
    "0-6",
    "5+",
    schema.Field("throttle_time_ms", schema.INT32, "1+", ignorable=True),
    schema.array_of(
        "groups",
        schema.Field("error_code", schema.INT16),
        schema.Field("error_message", schema.STRING, "6+", default=None, nullable=True),
        schema.Field("group_id", schema.STRING),
        schema.Field("group_state", schema.STRING),
        schema.Field("protocol_type", schema.STRING),
        schema.Field("protocol_data", schema.STRING),
        schema.array_of(
            "members",
            schema.Field("member_id", schema.STRING),
            schema.Field("group_instance_id", schema.STRING, "4+", default=None, nullable=True, ignorable=True),
            schema.Field("client_id", schema.STRING),
            schema.Field("client_host", schema.STRING),
            schema.Field("member_metadata", schema.BYTES),
            schema.Field("member_assignment", schema.BYTES),
            count_max=ANSWERED_MAX,
        ),
        schema.Field("authorized_operations", schema.INT32, "3+", default=-2147483648),
        count_max=ANSWERED_MAX,
    ),
)

LIST_GROUPS_REQUEST = schema.Message.of(
    "ListGroupsRequest",
    "0-5",
    "3+",
    schema.Field("states_filter", schema.Array(schema.STRING, FILTERS_MAX), "4+"),
    schema.Field("types_filter", schema.Array(schema.STRING, FILTERS_MAX), "5+"),
)
"""ListGroups (16): the groups of a node. Version 4 filters by state (KIP-518), 5 by type (KIP-848)."""

LIST_GROUPS_RESPONSE = schema.Message.of(
    "ListGroupsResponse",
    "0-5",
    "3+",
    schema.Field("throttle_time_ms", schema.INT32, "1+", ignorable=True),
    schema.Field("error_code", schema.INT16),
    schema.array_of(
        "groups",
        schema.Field("group_id", schema.STRING),
        schema.Field("protocol_type", schema.STRING),
        schema.Field("group_state", schema.STRING, "4+", ignorable=True),
        schema.Field("group_type", schema.STRING, "5+", ignorable=True),
        count_max=ANSWERED_MAX,
    ),
)

DELETE_GROUPS_REQUEST = schema.Message.of(
    "DeleteGroupsRequest", "0-2", "2+", schema.Field("groups_names", schema.Array(schema.STRING, GROUPS_MAX))
)
"""DeleteGroups (42): forget groups without members (KIP-229)."""

DELETE_GROUPS_RESPONSE = schema.Message.of(
    "DeleteGroupsResponse",
    "0-2",
    "2+",
    schema.Field("throttle_time_ms", schema.INT32),
    schema.array_of(
        "results",
        schema.Field("group_id", schema.STRING),
        schema.Field("error_code", schema.INT16),
        count_max=ANSWERED_MAX,
    ),
)

JOIN_GROUP_REQUEST = schema.Message.of(
    "JoinGroupRequest",
    "0-9",
    "6+",
    schema.Field("group_id", schema.STRING),
    schema.Field("session_timeout_ms", schema.INT32),
    schema.Field("rebalance_timeout_ms", schema.INT32, "1+", default=-1, ignorable=True),
    schema.Field("member_id", schema.STRING),
    schema.Field("group_instance_id", schema.STRING, "5+", default=None, nullable=True),
    schema.Field("protocol_type", schema.STRING),
    schema.array_of(
        "protocols",
        schema.Field("name", schema.STRING),
        schema.Field("metadata", schema.BYTES),
        count_max=PROTOCOLS_MAX,
    ),
    schema.Field("reason", schema.STRING, "8+", default=None, nullable=True, ignorable=True),
)
"""JoinGroup (11): become a member, or take part in a rebalance. The answer waits until all members have joined. From
version 4 on a new member comes again with the id that it is given (KIP-394); 5 adds static members (KIP-345).
"""

JOIN_GROUP_RESPONSE = schema.Message.of(
    "JoinGroupResponse",
    "0-9",
    "6+",
    schema.Field("throttle_time_ms", schema.INT32, "2+", ignorable=True),
    schema.Field("error_code", schema.INT16),
    schema.Field("generation_id", schema.INT32, default=-1),
    schema.Field("protocol_type", schema.STRING, "7+", default=None, nullable=True, ignorable=True),
    schema.Field("protocol_name", schema.STRING, nullable=True, null_from=7),
    schema.Field("leader", schema.STRING),
    schema.Field("skip_assignment", schema.BOOL, "9+"),
    schema.Field("member_id", schema.STRING),
    schema.array_of(
        "members",
        schema.Field("member_id", schema.STRING),
        schema.Field("group_instance_id", schema.STRING, "5+", default=None, nullable=True, ignorable=True),
        schema.Field("metadata", schema.BYTES),
        count_max=ANSWERED_MAX,
    ),
)

SYNC_GROUP_REQUEST = schema.Message.of(
    "SyncGroupRequest",
    "0-5",
    "4+",
    schema.Field("group_id", schema.STRING),
    schema.Field("generation_id", schema.INT32),
    schema.Field("member_id", schema.STRING),
    schema.Field("group_instance_id", schema.STRING, "3+", default=None, nullable=True),
    schema.Field("protocol_type", schema.STRING, "5+", default=None, nullable=True, ignorable=True),
    schema.Field("protocol_name", schema.STRING, "5+", default=None, nullable=True, ignorable=True),
    schema.array_of(
        "assignments",
        schema.Field("member_id", schema.STRING),
        schema.Field("assignment", schema.BYTES),
        count_max=MEMBERS_MAX,
    ),
)
"""SyncGroup (14): the group's leader brings the assignment, and each member fetches its own."""

SYNC_GROUP_RESPONSE = schema.Message.of(
    "SyncGroupResponse",
    "0-5",
    "4+",
    schema.Field("throttle_time_ms", schema.INT32, "1+", ignorable=True),
    schema.Field("error_code", schema.INT16),
    schema.Field("protocol_type", schema.STRING, "5+", default=None, nullable=True, ignorable=True),
    schema.Field("protocol_name", schema.STRING, "5+", default=None, nullable=True, ignorable=True),
    schema.Field("assignment", schema.BYTES),
)

HEARTBEAT_REQUEST = schema.Message.of(
    "HeartbeatRequest",
    "0-4",
    "4+",
    schema.Field("group_id", schema.STRING),
    schema.Field("generation_id", schema.INT32),
    schema.Field("member_id", schema.STRING),
    schema.Field("group_instance_id", schema.STRING, "3+", default=None, nullable=True),
)
"""Heartbeat (12): a member lives, and hears of a rebalance."""

HEARTBEAT_RESPONSE = schema.Message.of(
    "HeartbeatResponse",
    "0-4",
    "4+",
    schema.Field("throttle_time_ms", schema.INT32, "1+", ignorable=True),
    schema.Field("error_code", schema.INT16),
)

LEAVE_GROUP_REQUEST = schema.Message.of(
    "LeaveGroupRequest",
    "0-5",
    "4+",
    schema.Field("group_id", schema.STRING),
    schema.Field("member_id", schema.STRING, "0-2"),
    schema.array_of(
        "members",
        schema.Field("member_id", schema.STRING, "3+"),
        schema.Field("group_instance_id", schema.STRING, "3+", default=None, nullable=True),
        schema.Field("reason", schema.STRING, "5+", default=None, nullable=True, ignorable=True),
        versions="3+",
        count_max=MEMBERS_MAX,
    ),
)
"""LeaveGroup (13): members leave at once. From version 3 on several, which an operator may name by instance ids."""

LEAVE_GROUP_RESPONSE = schema.Message.of(
    "LeaveGroupResponse",
    "0-5",
    "4+",
    schema.Field("throttle_time_ms", schema.INT32, "1+", ignorable=True),
    schema.Field("error_code", schema.INT16),
    schema.array_of(
        "members",
        schema.Field("member_id", schema.STRING, "3+"),
        schema.Field("group_instance_id", schema.STRING, "3+", nullable=True),
        schema.Field("error_code", schema.INT16, "3+"),
        versions="3+",
        count_max=ANSWERED_MAX,
    ),
)

CONSUMER_GROUP_HEARTBEAT_REQUEST = schema.Message.of(
    "ConsumerGroupHeartbeatRequest",
    "0-1",
    "0+",
    schema.Field("group_id", schema.STRING),
    schema.Field("member_id", schema.STRING),
    schema.Field("member_epoch", schema.INT32),
    schema.Field("instance_id", schema.STRING, default=None, nullable=True),
    schema.Field("rack_id", schema.STRING, default=None, nullable=True),
    schema.Field("rebalance_timeout_ms", schema.INT32, default=-1),
    schema.Field("subscribed_topic_names", schema.Array(schema.STRING, TOPICS_MAX), default=None, nullable=True),
    schema.Field("subscribed_topic_regex", schema.STRING, "1+", default=None, nullable=True),
    schema.Field("server_assignor", schema.STRING, default=None, nullable=True),
    schema.array_of(
        "topic_partitions",
        schema.Field("topic_id", schema.UUID),
        schema.Field("partitions", schema.Array(schema.INT32, PARTITIONS_MAX)),
        nullable=True,
        count_max=TOPICS_MAX,
    ),
)
"""ConsumerGroupHeartbeat (68): membership in the protocol of KIP-848, with the assignment in the answer. Version 1 adds
a pattern of topics, and a member id that the client has made (KIP-1082).
"""

CONSUMER_GROUP_HEARTBEAT_RESPONSE = schema.Message.of(
    "ConsumerGroupHeartbeatResponse",
    "0-1",
    "0+",
    schema.Field("throttle_time_ms", schema.INT32),
    schema.Field("error_code", schema.INT16),
    schema.Field("error_message", schema.STRING, default=None, nullable=True),
    schema.Field("member_id", schema.STRING, default=None, nullable=True),
    schema.Field("member_epoch", schema.INT32),
    schema.Field("heartbeat_interval_ms", schema.INT32),
    schema.optional_struct(
        "assignment",
        schema.array_of(
            "topic_partitions",
            schema.Field("topic_id", schema.UUID),
            schema.Field("partitions", schema.Array(schema.INT32, PARTITIONS_MAX)),
            count_max=TOPICS_MAX,
        ),
    ),
)

CONSUMER_GROUP_DESCRIBE_REQUEST = schema.Message.of(
    "ConsumerGroupDescribeRequest",
    "0-1",
    "0+",
    schema.Field("group_ids", schema.Array(schema.STRING, GROUPS_MAX)),
    schema.Field("include_authorized_operations", schema.BOOL),
)
"""ConsumerGroupDescribe (69): the members of groups in the protocol of KIP-848."""


def _described_assignment(name: str) -> schema.Field:
    return schema.struct_of(
        name,
        schema.array_of(
            "topic_partitions",
            schema.Field("topic_id", schema.UUID),
            schema.Field("topic_name", schema.STRING),
            schema.Field("partitions", schema.Array(schema.INT32, PARTITIONS_MAX)),
            count_max=TOPICS_MAX,
        ),
    )


CONSUMER_GROUP_DESCRIBE_RESPONSE = schema.Message.of(
    "ConsumerGroupDescribeResponse",
    "0-1",
    "0+",
    schema.Field("throttle_time_ms", schema.INT32),
    schema.array_of(
        "groups",
        schema.Field("error_code", schema.INT16),
        schema.Field("error_message", schema.STRING, default=None, nullable=True),
        schema.Field("group_id", schema.STRING),
        schema.Field("group_state", schema.STRING),
        schema.Field("group_epoch", schema.INT32),
        schema.Field("assignment_epoch", schema.INT32),
        schema.Field("assignor_name", schema.STRING),
        schema.array_of(
            "members",
            schema.Field("member_id", schema.STRING),
            schema.Field("instance_id", schema.STRING, default=None, nullable=True),
            schema.Field("rack_id", schema.STRING, default=None, nullable=True),
            schema.Field("member_epoch", schema.INT32),
            schema.Field("client_id", schema.STRING),
            schema.Field("client_host", schema.STRING),
            schema.Field("subscribed_topic_names", schema.Array(schema.STRING, TOPICS_MAX)),
            schema.Field("subscribed_topic_regex", schema.STRING, default=None, nullable=True),
            _described_assignment("assignment"),
            _described_assignment("target_assignment"),
            schema.Field("member_type", schema.INT8, "1+", default=-1, ignorable=True),
            count_max=ANSWERED_MAX,
        ),
        schema.Field("authorized_operations", schema.INT32, default=-2147483648),
        count_max=ANSWERED_MAX,
    ),
)
