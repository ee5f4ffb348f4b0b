"""DescribeQuorum: tells operators what the leader knows of its quorum.

Source: KIP-595 §DescribeQuorum, KIP-836, KIP-853.
"""

from __future__ import annotations

from pykraft.core.events import RequestReceived
from pykraft.core.leader.progress import ReplicaProgress
from pykraft.core.messages import DescribedReplica, DescribeQuorumRequest, DescribeQuorumResponse
from pykraft.core.on.requests import reply
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import ErrorCode
from pykraft.types import Instant, VoterSet


def on_describe_quorum_request(
    replica: Replica, event: RequestReceived, message: DescribeQuorumRequest, now: Instant
) -> None:
    """List voters and observers with their fetch offsets; the leader itself counts as caught up now.

    Of a static voter the nodes have all endpoints that it told this leader, where Kafka's leader names one (ADR 082).

    Effects: Reply.
    Errors: NOT_LEADER_OR_FOLLOWER.
    Source: KIP-595 §DescribeQuorum, KIP-836; KafkaRaftClient.handleDescribeQuorumRequest.
    """
    leader = replica.state
    if not isinstance(leader, Leader):
        refused = DescribeQuorumResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, asked_as=message.asked_as)
        reply(replica, event.request_id, refused)
        return
    assert replica.local.key is not None
    own = DescribedReplica(
        key=replica.local.key,
        log_end_offset=replica.log.end_offset,
        last_fetch_timestamp=now.wall_ms,
        last_caught_up_timestamp=now.wall_ms,
    )
    # A leader that is removing itself is in neither list.
    voters = leader.progress.voters
    told = leader.volatile_voters.voters if replica.kraft_version == 0 else ()
    response = DescribeQuorumResponse(
        error=ErrorCode.NONE,
        asked_as=message.asked_as,
        leader_id=leader.leader_id,
        epoch=leader.epoch,
        high_watermark=leader.high_watermark,
        voters=tuple(own if node_id == leader.leader_id else _row(voters[node_id]) for node_id in sorted(voters)),
        observers=tuple(_row(observer) for observer in leader.progress.observers(now)),
        nodes=VoterSet.of((*replica.voters.voters, *told)).voters,
    )
    reply(replica, event.request_id, response)


def _row(seen: ReplicaProgress) -> DescribedReplica:
    return DescribedReplica(
        key=seen.key,
        log_end_offset=-1 if seen.end_offset is None else seen.end_offset,
        last_fetch_timestamp=seen.fetched_wall_ms,
        last_caught_up_timestamp=seen.caught_up_wall_ms,
    )
