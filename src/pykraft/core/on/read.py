"""Linearizable reads: up to which offset this replica's state must be for a read that arrives now.

A leader knows the high watermark, but another may lead already without its knowledge. So it asks all voters in one
round of BeginQuorumEpoch, as follows.

1. The high watermark must be known, which needs a committed record of this leader's own epoch.
2. The requests leave after the read arrived. All reads that wait share a round; one that arrives during a round waits
   for the next.
3. A majority of the voters confirms, this leader included, each in the leader's epoch. A voter votes only in epochs
   above its own, so every later leader was elected after one of them confirmed, and thus after the read arrived.
The read then waits until the application has everything below the high watermark of step 1.

Arriving Fetches confirm nothing: one may have waited in a socket buffer while its sender voted in a newer epoch. There
are no leases, because voters grant votes in higher epochs at any time. Java voters answer BeginQuorumEpoch, too.

Source: Raft dissertation §6.4; ours (ADR 069).
"""

from pykraft.core.effects import CompleteRead
from pykraft.core.events import ReadRequested
from pykraft.core.leader.pending import READS_MAX, ReadRound
from pykraft.core.on.send_requests import begin_quorum_epoch, request_to_voter
from pykraft.core.quorum import majority_of
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import BufferFullError, NotLeaderError
from pykraft.types import Instant, NodeId


def on_read_requested(replica: Replica, event: ReadRequested, _now: Instant) -> None:
    """Let the read wait for a round; the end of the step begins one.

    Effects: CompleteRead.
    Errors (in CompleteRead): NotLeaderError; BufferFullError when too many reads wait.
    """
    leader = replica.state
    error: NotLeaderError | BufferFullError | None = None
    if not isinstance(leader, Leader):
        error = NotLeaderError(replica.leader_id if replica.has_remote_leader else None, replica.epoch)
    elif len(leader.reads.handles) >= READS_MAX:
        error = BufferFullError(f"{READS_MAX} reads are already waiting: read again later")
    else:
        leader.reads.waiting.append(event.handle)
    if error is not None:
        replica.outbox.add(CompleteRead(handle=event.handle, outcome=error))


def note_confirmation(replica: Replica, voter_id: NodeId, correlation_id: int) -> None:
    """A voter answered BeginQuorumEpoch in this leader's epoch, without an error."""
    leader = replica.state
    if not isinstance(leader, Leader) or leader.reads.round is None:
        return
    # 2. Only a request that left after the reads arrived counts.
    if leader.reads.round.asked.get(voter_id) == correlation_id:
        leader.reads.round.confirmed.add(voter_id)


def serve_reads(replica: Replica, leader: Leader, now: Instant) -> None:
    """Complete the reads of a round that is confirmed, begin the next, and ask the voters that have not confirmed.

    Effects: CompleteRead, Send.
    """
    reads = leader.reads
    if reads.round is not None and _is_confirmed(replica, leader, reads.round):
        _complete(replica, leader, reads.round)
    # 1. The offset is taken when the round begins, which is after all its reads arrived.
    if reads.round is None and reads.waiting and leader.high_watermark is not None:
        reads.round = ReadRound(handles=tuple(reads.waiting), offset=leader.high_watermark)
        reads.waiting.clear()
        # The only voter needs nobody else.
        if _is_confirmed(replica, leader, reads.round):
            _complete(replica, leader, reads.round)
    if reads.round is not None:
        _ask(replica, leader, reads.round, now)


def _is_confirmed(replica: Replica, leader: Leader, current: ReadRound) -> bool:
    # 3. A leader that was removed from the voters does not count itself.
    voters = replica.voters.ids
    confirmed = sum(voter_id in current.confirmed or voter_id == leader.leader_id for voter_id in voters)
    return confirmed >= majority_of(len(voters))


def _complete(replica: Replica, leader: Leader, current: ReadRound) -> None:
    for handle in current.handles:
        replica.outbox.add(CompleteRead(handle=handle, outcome=current.offset))
    leader.reads.round = None


def _ask(replica: Replica, leader: Leader, current: ReadRound, now: Instant) -> None:
    for voter_id in replica.voters.ids:
        if voter_id == leader.leader_id or voter_id in current.confirmed:
            continue
        message = begin_quorum_epoch(replica, leader, voter_id)
        correlation_id = request_to_voter(replica, voter_id, message, now)
        if correlation_id is not None:
            current.asked[voter_id] = correlation_id
