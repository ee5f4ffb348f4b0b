"""What additions, removals and updates of voters share: when one may start, and how it ends.

Invariant: at most one voter set record lies above the high watermark, and none is appended before a record of the
leader's own epoch commits. So at most one voter set is ever in doubt, and each of its majorities overlaps with those of
the set before it.

Source: KIP-853 §Common scenarios; Raft dissertation §4.1 and the correction of July 2015 (the own epoch's first
commit); Kafka ``AddVoterHandler``, ``RemoveVoterHandler``, ``UpdateVoterHandler``.
"""

from pykraft import types
from pykraft.core.effects import Peer
from pykraft.core.enter_state import adopt_voter_set
from pykraft.core.leader.appending import advance_high_watermark, append_planned
from pykraft.core.leader.change_answer import answer_change
from pykraft.core.leader.pending import Addition, Update
from pykraft.core.messages import MAY_BE_MADE_YET, ApiVersionsRequest
from pykraft.core.never_leads import appends_nothing
from pykraft.core.on.requests import leader_only_error
from pykraft.core.on.send_requests import send
from pykraft.core.outbox import Relies
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import ErrorCode

STATIC_QUORUM = "the voters are static (kraft.version 0): change controller.quorum.voters on every node instead"
NEVER_LEADS = "this node never leads for long, and another voter takes over: try again"

ChangeRefusal = tuple[ErrorCode, str | None]
"""An error and its explanation; the error is NONE when nothing is wrong."""
ACCEPTED: ChangeRefusal = (ErrorCode.NONE, None)


def voter_error(replica: Replica, voter: types.ReplicaKey, listeners: types.Listeners | None) -> ErrorCode:
    """INVALID_REQUEST for a key that cannot be a voter here: no id, no directory id, or no endpoint to dial."""
    is_known = voter.id >= 0 and voter.directory_id not in (None, types.ZERO_UUID)
    can_be_dialed = listeners is None or listeners.get(replica.local.default_listener) is not None
    return ErrorCode.NONE if is_known and can_be_dialed else ErrorCode.INVALID_REQUEST


def why_not_now(replica: Replica, leader: Leader) -> ChangeRefusal:
    """Why no voter set may be appended now, if so: a change or transfer, nothing committed, or static voters."""
    if leader.change is not None:
        return ErrorCode.REQUEST_TIMED_OUT, "another change of the voters is under way: try again"
    if appends_nothing(replica):
        return ErrorCode.REQUEST_TIMED_OUT, NEVER_LEADS
    if replica.transfer is not None:
        return ErrorCode.REQUEST_TIMED_OUT, "the leadership is being transferred: try again"
    # Until a record of its own epoch commits, the leader may not know an uncommitted voter set of an earlier leader,
    # whose majorities need not overlap with those of a new one (the correction of July 2015).
    if leader.high_watermark is None:
        return ErrorCode.REQUEST_TIMED_OUT, "nothing of this epoch is committed yet: try again"
    if replica.kraft_version < 1:
        return ErrorCode.UNSUPPORTED_VERSION, STATIC_QUORUM
    behind = why_behind(leader)
    return behind if behind[0] else why_in_doubt(replica, leader)


def why_behind(leader: Leader) -> ChangeRefusal:
    """Why the storage backlog forbids appending a voter set, if it does."""
    # A voter set is in force from its append on, and follows all earlier proposals in the log. So the leader appends
    # all of those in the same step, and encoding a long backlog would hold up the event loop.
    if leader.accumulation.waiting_count > 1:
        return ErrorCode.REQUEST_TIMED_OUT, "the leader's storage is behind its proposals: try again"
    return ACCEPTED


def why_in_doubt(replica: Replica, leader: Leader) -> ChangeRefusal:
    """Why no voter set may follow the newest one yet: it is not committed."""
    offset = replica.voter_history.voters_offset
    # With one set in doubt at a time, its majorities overlap with those of the set before it.
    if offset is None or leader.high_watermark is None or offset >= leader.high_watermark:
        return ErrorCode.REQUEST_TIMED_OUT, "the newest voter set is not committed yet: try again"
    return ACCEPTED


def refusal_of(replica: Replica, voter: types.ReplicaKey, listeners: types.Listeners | None) -> ChangeRefusal:
    """The checks that additions and removals share; ACCEPTED when none fails."""
    error = leader_only_error(replica, replica.epoch)
    if error:
        return error, None
    error = voter_error(replica, voter, listeners)
    if error:
        name = replica.local.default_listener
        return error, f"a voter needs an id, a directory id, and an address on the listener {name}"
    assert isinstance(replica.state, Leader)
    return why_not_now(replica, replica.state)


def ask_levels(replica: Replica, node_id: types.NodeId, listeners: types.Listeners, now: types.Instant) -> None:
    """Ask a node, at an endpoint that is not in force yet, which levels of kraft.version it supports.

    It must be ready for a request; the answer comes to `core.on.voters.asked_levels`.

    Effects: Send.
    """
    endpoint = listeners.get(replica.local.default_listener)
    assert endpoint is not None
    send(replica, Peer(id=node_id, endpoint=endpoint), ApiVersionsRequest(node_id=node_id), now, Relies.ELECTION)


def write_voters(replica: Replica, leader: Leader, voters: types.VoterSet, now: types.Instant) -> types.Offset:
    """Append a voter set, in force from now on; returns its offset."""
    return write_membership(replica, leader, (types.KRaftVoters(voters),), now)


def write_membership(
    replica: Replica, leader: Leader, records: tuple[types.MembershipRecord, ...], now: types.Instant
) -> types.Offset:
    """Append membership records as one batch after all earlier proposals, without lingering.

    Effects: AppendBatches, and NotifyHighWatermark when the new set needs fewer voters for a majority.
    """
    offset = leader.accumulation.add_control(records, now)
    append_planned(replica, leader, leader.accumulation.drain())
    adopt_voter_set(replica, leader, now)
    # The new set may need fewer voters for a majority.
    advance_high_watermark(replica, leader)
    return offset


def end_change(replica: Replica, leader: Leader, now: types.Instant) -> None:
    """Answer the request of a change that is committed or timed out; then another change may start.

    Effects: Reply.
    """
    change = leader.change
    if change is None:
        return
    is_committed = (
        change.offset is not None and leader.high_watermark is not None and leader.high_watermark > change.offset
    )
    if is_committed:
        answer_change(replica, leader, ErrorCode.NONE, None)
    elif change.deadline_ms <= now.mono_ms:
        text = f"the change was not committed in time; it {MAY_BE_MADE_YET}"
        if isinstance(change, Addition | Update) and change.offset is None:
            text = f"node {change.voter.key.id} did not answer at its endpoint in time: try again"
        answer_change(replica, leader, ErrorCode.REQUEST_TIMED_OUT, text)


def is_removed(replica: Replica, leader: Leader) -> bool:
    """True when a voter set without this leader is committed: a removed leader leads only until then."""
    if replica.is_voter:
        return False
    offset = replica.voter_history.voters_offset
    return offset is not None and leader.high_watermark is not None and leader.high_watermark > offset
