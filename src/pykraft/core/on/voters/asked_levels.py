"""A node answers which levels of kraft.version it supports, because AddRaftVoter or UpdateRaftVoter waits for that.

The leader asks at the endpoint that the request names, and takes nothing into the voter set before the answer: an
endpoint that nobody can reach could cost the quorum its majority for good. The request names the node that is meant, so
that another node of pykraft that listens there says so; Kafka's controllers do not compare.

Source: KIP-853 §AddRaftVoter, KAFKA-20661, KIP-1242; Kafka ``AddVoterHandler.handleApiVersionsResponse``.
"""

from pykraft.core.events import ResponseReceived
from pykraft.core.leader.change_answer import answer_change
from pykraft.core.leader.pending import Addition, Update
from pykraft.core.messages import ApiVersionsResponse
from pykraft.core.on.voters.add_voter import add_voter
from pykraft.core.on.voters.update_voter import update_voter
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import ErrorCode
from pykraft.types import Instant


def on_api_versions_response(
    replica: Replica, event: ResponseReceived, message: ApiVersionsResponse, now: Instant
) -> None:
    """The node supports these levels: make the change that waits for it, or refuse the request.

    Effects: AppendBatches, Reply.
    Source: KIP-853; AddVoterHandler.handleApiVersionsResponse.
    """
    change = _waiting_for(replica, event.peer_id)
    if change is None:
        return
    leader = replica.state
    assert isinstance(leader, Leader)
    node_id, supported = change.voter.key.id, message.kraft_version
    if message.error == ErrorCode.REBOOTSTRAP_REQUIRED:
        text = f"another node answers at the endpoint of node {node_id}: give the address on which it listens"
        answer_change(replica, leader, ErrorCode.INVALID_REQUEST, text)
    elif message.error:
        replica.connections.back_off(event.peer_id, now.mono_ms)
        answer_change(replica, leader, ErrorCode.REQUEST_TIMED_OUT, f"node {node_id} refused to report its versions")
    elif supported is None or not supported.min_version <= replica.kraft_version <= supported.max_version:
        text = f"node {node_id} does not support kraft.version {replica.kraft_version}"
        answer_change(replica, leader, ErrorCode.INVALID_REQUEST, text)
    elif isinstance(change, Addition):
        add_voter(replica, leader, change, supported, now)
    else:
        update_voter(replica, leader, change, supported, now)


def on_asked_node_failed(replica: Replica, peer_id: int) -> None:
    """The node cannot be reached: refuse the request.

    Effects: Reply.
    """
    change = _waiting_for(replica, peer_id)
    if change is not None:
        assert isinstance(replica.state, Leader)
        text = f"node {change.voter.key.id} cannot be reached at its endpoint: try again"
        answer_change(replica, replica.state, ErrorCode.REQUEST_TIMED_OUT, text)


def _waiting_for(replica: Replica, peer_id: int) -> Addition | Update | None:
    change = replica.state.change if isinstance(replica.state, Leader) else None
    if not isinstance(change, Addition | Update) or change.offset is not None:
        return None
    # What failed was a request to the voter's former endpoint.
    if isinstance(change, Update) and change.ask_ms is not None:
        return None
    return change if change.voter.key.id == peer_id else None
