"""When a follower believes that its leader has left: two signs are needed, because anyone can send the first.

1. EndQuorumEpoch arrives in the leader's name. It also names the successors.
2. The leader itself, asked where this follower fetches from it, says that it does not lead, or its machine refuses the
   connection. A leader that resigns answers all waiting Fetches in the same step, so this takes no longer than the
   first.

With both, in either order, the follower campaigns as the list of successors says. The second sign alone lets it grant
pre-votes. The first alone changes nothing: the fetch timeout decides. But a follower that has not fetched from its
leader yet has only heard of it, and believes the first alone.

Source: ours (ADR 129); KIP-595 §EndQuorumEpoch. Kafka believes the first alone.
"""

from dataclasses import replace

from pykraft.core.election import successor_backoff_ms
from pykraft.core.never_leads import abstains, leave_to_successors
from pykraft.core.replica import Replica
from pykraft.core.state import Follower
from pykraft.types import Instant, ReplicaKey


def note_goodbye(replica: Replica, state: Follower, successors: tuple[ReplicaKey, ...], now: Instant) -> None:
    """Sign 1, for a follower of the leader that the request names."""
    replica.state = replace(state, successors=successors)
    if not state.has_fetched:
        _believe(replica, successors, now)


def note_denial_of_leader(replica: Replica, peer_id: int, now: Instant) -> None:
    """Sign 2: a peer says that it does not lead, or that no process listens there."""
    state = replica.state
    if not isinstance(state, Follower) or state.leader_id != peer_id:
        return
    replica.state = replace(state, has_fetched=False)
    if state.successors is not None and not state.leader_has_left:
        _believe(replica, state.successors, now)


def _believe(replica: Replica, successors: tuple[ReplicaKey, ...], now: Instant) -> None:
    if abstains(replica):
        leave_to_successors(replica, now)
        return
    state = replica.state
    assert isinstance(state, Follower)
    # An observer does not campaign.
    if replica.local.key is None:
        return
    backoff_ms = successor_backoff_ms(replica.local.key, successors, replica.config.election_backoff_max_ms)
    # The leader no longer counts as alive, so we grant pre-votes from now on. Kafka denies them until its own timeout,
    # which delays the hand-over with five voters.
    replica.state = replace(
        state,
        fetch_deadline_ms=now.mono_ms + backoff_ms,
        part_deadline_ms=None,
        has_fetched=False,
        leader_has_left=True,
    )
