"""A voter that never leads: it stores, acknowledges and votes, and leaves the elections to the other voters.

It is for a quorum of Kafka's controllers, whose leader must write metadata records. It campaigns only if an election
would be stuck without it:

1. When its timeout expires, it does not campaign. A follower gives its leader up and grants pre-votes from then on; so
   it does when its leader sends EndQuorumEpoch, even if that names this voter.
2. Two things make it campaign: it has denied a candidate whose log is shorter than its own, so perhaps only this voter
   has the newest committed records; or three election timeouts passed without a leader. It campaigns when a timeout
   expires, or at once if one has expired before. An answer of a leader makes it forget both.
3. As leader it appends its LeaderChange and nothing else: no proposal and no voter set.
4. It resigns as soon as another voter has its whole log, LeaderChange included, and names that voter first.

Kafka's voters know nothing of this: all messages are those of any other voter.

Source: ours (ADR 077).
"""

from dataclasses import replace
from typing import Final

from pykraft.core.messages import VoteRequest
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Leader, Unattached
from pykraft.types import Instant, NodeId

TIMEOUTS_MAX: Final = 3
"""After this many election timeouts without a leader such a voter campaigns."""


def abstains(replica: Replica) -> bool:
    """Rule 2: True while this voter leaves the election to the others."""
    # Nobody else can lead a quorum of which this is the only voter.
    if not replica.config.never_leads or replica.is_only_voter:
        return False
    return not replica.has_denied_shorter_log and (replica.leaderless_timeouts or 0) < TIMEOUTS_MAX


def let_timeout_pass(replica: Replica, now: Instant) -> None:
    """Rule 1: the election or fetch timeout of a voter that abstains has expired, or its leader refuses connections."""
    state, passed = replica.state, replica.leaderless_timeouts
    if isinstance(state, Follower) and state.deadline_ms > now.mono_ms:
        # The pause before an early campaign is over; the leader may still answer until the fetch timeout.
        replica.state = replace(state, early_deadline_ms=None)
        return
    # A fetch timeout gives the leader up; only election timeouts count.
    gives_up = isinstance(state, Follower) and passed is None
    replica.leaderless_timeouts = 0 if gives_up else (passed or 0) + 1
    # After the last timeout that counts, the campaign begins in this step.
    deadline_ms = replica.draw_election_deadline_ms(now) if abstains(replica) else now.mono_ms
    if isinstance(state, Follower):
        replica.state = replace(state, fetch_deadline_ms=deadline_ms, early_deadline_ms=None, has_fetched=False)
    else:
        assert isinstance(state, Unattached)
        replica.state = replace(state, election_deadline_ms=deadline_ms)


def leave_to_successors(replica: Replica, now: Instant) -> None:
    """Rule 1: the leader has sent EndQuorumEpoch; grant pre-votes from now on, and wait for a successor."""
    state = replica.state
    assert isinstance(state, Follower)
    deadline_ms = state.fetch_deadline_ms
    # A leader repeats the request. Only time counts as a timeout, so the deadline moves once.
    if replica.leaderless_timeouts is None:
        replica.leaderless_timeouts = 0
        deadline_ms = replica.draw_election_deadline_ms(now)
    replica.state = replace(
        state,
        fetch_deadline_ms=deadline_ms,
        part_deadline_ms=None,
        early_deadline_ms=None,
        has_fetched=False,
        leader_has_left=True,
    )


def note_denial(replica: Replica, message: VoteRequest, now: Instant) -> None:
    """Rule 2: this voter has denied a vote or a pre-vote; note whether that candidate's log is shorter."""
    is_whole = replica.log.quarantine is None and replica.survey is None
    is_shorter = is_whole and not message.last.is_at_least(replica.log.end)
    if not replica.config.never_leads or not is_shorter or not replica.voters.is_voter(message.candidate):
        return
    replica.has_denied_shorter_log = True
    state = replica.state
    # Any other voter would be asking for pre-votes since its timeout, so this one does not wait for the next. Without a
    # timeout it waits: the candidate may only have missed a leader that this voter still hears.
    if replica.leaderless_timeouts is not None and replica.may_campaign:
        if isinstance(state, Follower):
            replica.state = replace(state, fetch_deadline_ms=now.mono_ms, part_deadline_ms=None)
        elif isinstance(state, Unattached):
            replica.state = replace(state, election_deadline_ms=now.mono_ms)


def note_leader(replica: Replica) -> None:
    """Rule 2: a leader answers, so no election is stuck."""
    state = replica.state
    # A late answer of a leader that has left is no sign of life.
    if isinstance(state, Follower) and not state.leader_has_left:
        replica.has_denied_shorter_log = False
        replica.leaderless_timeouts = None
        replica.connections.pre_votes_asked.clear()


def appends_nothing(replica: Replica) -> bool:
    """Rule 3: True for a leader whose only record is its LeaderChange; all others are for its successor."""
    return replica.config.never_leads


def successor(replica: Replica, leader: Leader) -> NodeId | None:
    """Rule 4: a voter with the whole log of this leader, which never leads; None for any other leader."""
    if not replica.config.never_leads:
        return None
    for node_id, voter in leader.progress.voters.items():
        # A voter's end offset is known once it has fetched in this epoch.
        if node_id != leader.leader_id and voter.end_offset == replica.log.end_offset:
            return node_id
    return None
