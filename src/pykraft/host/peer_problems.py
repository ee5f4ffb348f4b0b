"""What is wrong with a peer, in the words of an operator's log line.

It only words what `pykraft.host.peers` found out. Invariant: a peer whose last answer was of use has no problem.

Source: ours; the meaning of the codes is that of KIP-595 and KIP-853.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pykraft.core.effects import Peer
from pykraft.core.messages import FetchResponse, Response, TopLevelError, VoteResponse
from pykraft.errors import ErrorCode, error_name
from pykraft.rpc.context import RpcContext

INCONSISTENT_VOTER_SET: Final = 94
"""What nodes before Kafka 3.x answer to a node that is not among their voters."""
NO_ANSWER: Final = "no answer yet"
NO_CONNECTION: Final = "no connection yet"
HUNG_UP: Final = "it closed the connection"
HUNG_UP_AT_ONCE: Final = "it closed the connection before it answered ApiVersions: is it a node of a quorum?"
SILENT_AT_ONCE: Final = "it accepts connections, but does not answer ApiVersions: is it a node of a quorum?"
_OF_ANOTHER_LEADER: Final = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerProblem:
    """A peer, what is wrong with it, and when it was first asked after its last useful answer (mono ms)."""

    peer: Peer
    text: str
    since_ms: int


def silence(request: object) -> str:
    """The problem of a peer that does not answer this request."""
    return f"no answer to {type(request).__name__.removesuffix('Request')}"


def problem_in(message: Response, context: RpcContext) -> str | None:
    """The problem that an answer shows; None for an answer that is of use."""
    if isinstance(message, TopLevelError) and message.error == ErrorCode.INVALID_REQUEST:
        return f"it may not have topic {context.topic_name}, which this node keeps: see pykraft.topic"
    if message.error == ErrorCode.INCONSISTENT_CLUSTER_ID:
        return f"it belongs to another cluster than this node, whose cluster.id is {context.cluster_id}"
    if message.error == ErrorCode.INVALID_VOTER_KEY:
        return "it is not the voter that this node expects: its node.id or directory.id is another one"
    if message.error == INCONSISTENT_VOTER_SET:
        return "this node is not among its voters (INCONSISTENT_VOTER_SET): compare controller.quorum.voters"
    if isinstance(message, FetchResponse) and message.error in _OF_ANOTHER_LEADER:
        known = "knows no leader" if message.leader_id is None else f"names node {message.leader_id} as the leader"
        return f"it {known} in epoch {message.epoch}"
    if message.error:
        return f"it answers {error_name(message.error)}"
    if isinstance(message, VoteResponse) and not message.vote_granted:
        if message.leader_id is not None:
            return f"it does not vote for this node, since it hears leader {message.leader_id} in epoch {message.epoch}"
        return f"it does not vote for this node in epoch {message.epoch}: its log may be longer, or its vote is given"
    return None
