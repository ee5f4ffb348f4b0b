"""Which state may follow which, and what every transition does.

`become` consults the table `MOVES`, the documentation draws it, and a test tries every pair. A transition that is not
in it is our bug.

A transition into Unattached, Candidate, Leader or Follower, and a vote, is durable before any message tells it.
Prospective and Resigned are in memory only. Every transition forgets the requests in flight, so that a response to an
earlier state is never applied.

Source: KIP-595, KIP-996; Kafka ``QuorumState`` and ``KafkaRaftClient.transitionTo*``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from pykraft.core.effects import CompleteRead, NotifyLeaderChange, NotifyRole, Reply
from pykraft.core.leader.change_answer import answer_change
from pykraft.core.leader.pending import Reads
from pykraft.core.messages import MAY_BE_MADE_YET, FetchResponse
from pykraft.core.outbox import Relies
from pykraft.core.replica import Replica
from pykraft.core.state import Candidate, Follower, Leader, Prospective, Resigned, State, Unattached
from pykraft.errors import ErrorCode, NotLeaderError
from pykraft.types import NO_IO, Election, Offset, ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Whether a transition may stay in the epoch, and whether it may enter a higher one."""

    same_epoch: bool = False
    higher_epoch: bool = False


SAME = Move(same_epoch=True)
HIGHER = Move(higher_epoch=True)
EITHER = Move(same_epoch=True, higher_epoch=True)

MOVES: Mapping[tuple[type[State], type[State]], Move] = {
    (Unattached, Unattached): EITHER,
    (Unattached, Prospective): SAME,
    (Unattached, Follower): EITHER,
    (Prospective, Prospective): SAME,
    (Prospective, Unattached): EITHER,
    (Prospective, Follower): EITHER,
    (Prospective, Candidate): HIGHER,
    (Candidate, Prospective): SAME,
    (Candidate, Leader): SAME,
    (Candidate, Unattached): HIGHER,
    (Candidate, Follower): EITHER,
    (Leader, Resigned): SAME,
    (Leader, Unattached): HIGHER,
    (Leader, Follower): HIGHER,
    (Follower, Prospective): SAME,
    (Follower, Follower): EITHER,
    (Follower, Unattached): HIGHER,
    (Resigned, Prospective): SAME,
    (Resigned, Unattached): HIGHER,
    (Resigned, Follower): HIGHER,
}


def why_illegal(old: State, new: State, *, may_lead: bool) -> str | None:
    """Why ``new`` may not follow ``old``; None when it may."""
    pair = f"{type(old).__name__} of epoch {old.epoch} -> {type(new).__name__} of epoch {new.epoch}"
    move = MOVES.get((type(old), type(new)))
    if move is None:
        return f"{pair}: no such transition"
    if not (move.higher_epoch if new.epoch > old.epoch else move.same_epoch and new.epoch == old.epoch):
        return f"{pair}: not in this epoch"
    if isinstance(new, Prospective | Candidate | Leader) and not may_lead:
        return f"{pair}: an observer does not campaign"
    if isinstance(old, Candidate) and isinstance(new, Leader) and not old.tally.is_won:
        return f"{pair}: without a majority"
    if new.epoch > old.epoch:
        return None
    return _why_illegal_within_epoch(old, new, pair)


def _why_illegal_within_epoch(old: State, new: State, pair: str) -> str | None:
    is_vote = isinstance(new, Unattached | Prospective) and type(old) is type(new)
    if is_vote and (_voted(old) is not None or _voted(new) is None):
        return f"{pair}: the vote of an epoch is cast once"
    if isinstance(old, Follower) and isinstance(new, Follower):
        if old.leader_id != new.leader_id:
            # It may have been told of a leader that is none (`following`).
            return f"{pair}: an epoch has one leader" if old.has_fetched else None
        if len(new.leader_listeners) <= len(old.leader_listeners):
            return f"{pair}: nothing new is known of the leader"
    return None


def _voted(state: State) -> ReplicaKey | None:
    return None if isinstance(state, Leader | Resigned) else state.voted


def become(replica: Replica, new: State) -> None:
    """Make ``new`` the state, with everything that leaving the old state and entering the new one require.

    Effects: WriteElectionState unless the transition is in memory only; answers to parked Fetches when leadership ends;
    NotifyLeaderChange and NotifyRole where there is news.
    """
    old = replica.state
    problem = why_illegal(old, new, may_lead=replica.may_lead)
    assert problem is None, problem
    if isinstance(new, Follower):
        assert new.leader_id != replica.local.id, "a replica does not follow itself"
    replica.state = new
    if is_durable(old, new):
        write_election(replica)
    # A response to a request of the old state must not be applied in the new one.
    replica.connections.reset()
    if isinstance(old, Leader):
        replica.led_directories = old.progress.directories
    if isinstance(new, Follower):
        replica.led_directories = {}
    if isinstance(old, Leader):
        _fail_parked(replica)
        _fail_change(replica, old)
        _fail_reads(replica, old)
    announce(replica)


def is_durable(old: State, new: State) -> bool:
    """True when quorum-state must hold the transition before any message tells it."""
    match new:
        case Unattached() | Candidate() | Leader() | Follower():
            return True
        case Prospective():
            # From Prospective to Prospective only a vote leads (`cast_vote`), and a vote must be durable.
            return isinstance(old, Prospective)
        case Resigned():
            return False
        case _:
            assert_never(new)


def write_election(replica: Replica) -> None:
    """Write the election of the current state in this step."""
    is_leader = isinstance(replica.state, Leader | Resigned)
    election = Election(epoch=replica.epoch, leader_id=replica.leader_id, voted=None if is_leader else replica.voted)
    replica.outbox.write_election(election, replica.voters.ids, replica.kraft_version)


def announce(replica: Replica) -> None:
    """Report what is new to listeners and traces: a role, a higher epoch, or a leader that became known."""
    role = (replica.role, replica.epoch)
    if role != replica.told_role:
        replica.told_role = role
        replica.outbox.add(NotifyRole(role=role[0], epoch=role[1]))
    told_epoch, leader_announced = replica.leader_announced
    leader_id = replica.leader_id
    # Losing the leader within an epoch is not news. A resigned leader still counts as the leader of its epoch, but
    # never announce that this node leads an epoch it resigned from, not even when it campaigns for the next one.
    if isinstance(replica.state, Resigned) or (leader_id == replica.local.id and not isinstance(replica.state, Leader)):
        return
    if replica.epoch > told_epoch or (leader_id is not None and leader_id != leader_announced):
        replica.leader_announced = (replica.epoch, leader_id)
        start = replica.state.epoch_start_offset if isinstance(replica.state, Leader) else None
        replica.outbox.add(NotifyLeaderChange(epoch=replica.epoch, leader_id=leader_id, epoch_start_offset=start))


def _fail_change(replica: Replica, old: Leader) -> None:
    """Tell the requester of a voter change to ask the next leader for the outcome."""
    if old.change is not None:
        text = f"this node no longer leads; the change {MAY_BE_MADE_YET}"
        answer_change(replica, old, ErrorCode.NOT_LEADER_OR_FOLLOWER, text)


def _fail_reads(replica: Replica, old: Leader) -> None:
    """Nobody confirms a leader that has stepped down: its readers ask the next one."""
    for handle in old.reads.handles:
        error = NotLeaderError(replica.leader_id if replica.has_remote_leader else None, replica.epoch)
        replica.outbox.add(CompleteRead(handle=handle, outcome=error))
    old.reads = Reads()


def _fail_parked(replica: Replica) -> None:
    for fetch in replica.parked.take_all():
        message = FetchResponse(
            error=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            epoch=replica.epoch,
            leader_id=replica.leader_id,
            high_watermark=None,
            log_start_offset=Offset(-1),
            listeners=replica.reply_listeners(fetch.listener),
        )
        replica.outbox.send(Reply(after=NO_IO, request_id=fetch.request_id, message=message), Relies.ELECTION)
