"""A follower gives up a leader that contradicts what it knows for certain, for that epoch.

Peers are not authenticated: anyone who reaches the port can announce itself as leader, and a real leader may have lost
its disk. Whatever it says, no node stops because of it, and no record that is known to be committed is truncated. No
correct leader says that

1. the logs diverge below a committed offset, or that the high watermark is below the one that our Fetch told it
   (Leader Completeness);
2. the logs diverge, after it has answered in this epoch that our log is a prefix of its own. Its log only grows, and we
   have appended nothing since that did not come from it;
3. it has nothing more to send, while the log that came from it names no voter with its id. Until then it may be a voter
   that this replica has not learned of. That holds in a static quorum, too: the upgrade to kraft.version 1 may be what
   is still to be fetched. A leader that is removing itself leads until that commits;
4. our log is a prefix of its own, while it sends a batch that begins within our log. Logs that agree up to an offset
   have the same batches below it, so these two have the same epochs and other records. A few times it may be flipped
   bits, since no checksum covers the offset of a batch.

After giving up a leader, this replica does not fetch from it in that epoch and denies nobody a pre-vote because of it;
a voter campaigns soon. If the other voters follow it with good reason, this replica stays behind and reports that.

Source: ours; Raft paper §5.4.3 (Leader Completeness), §5.3 (leaders append only); Kafka's client throws an exception in
the first case, and believes the leader in the others.
"""

from dataclasses import replace
from typing import Final

from pykraft.core.effects import Report
from pykraft.core.messages import FetchResponse
from pykraft.core.never_leads import note_leader
from pykraft.core.replica import Replica
from pykraft.core.state import Follower
from pykraft.types import Instant, NodeId, Offset, ReportKind

WAYS_OUT: Final = (
    "if it really leads, the voters that elected it have lost records (formatted anew, or an older copy put back): "
    "either stop them and copy this node's log to them, or give this log up: stop this node and format its directory "
    "(docs: A majority that lost its records)"
)
FOREIGN_ANSWERS_MAX: Final = 5
"""Answers with the same batch within this log that show another history."""
OTHER_HISTORY: Final = (
    "if this node was given a directory of another quorum with the same cluster.id, stop it and format its directory; "
    "if the voters that elected this leader have lost records, see the docs: A majority that lost its records"
)


def contradiction_in(replica: Replica, state: Follower, answer: FetchResponse, cut_to: Offset | None) -> str | None:
    """The contradiction in this response, or None; ``cut_to`` is where the leader wants the log truncated."""
    # A replica in quarantine has lost part of its log, so it cannot judge: the leader's log wins.
    if replica.log.quarantine is not None:
        return None
    committed_end_offset = replica.log.committed_end_offset
    # 1. Committed records never diverge, and the high watermark never goes back (below).
    if cut_to is not None and cut_to < committed_end_offset:
        wish = f"it asks to truncate the log to {cut_to}, but everything below {committed_end_offset} is committed"
        return f"{wish}; {WAYS_OUT}"
    # 2. Our log was a prefix of the leader's.
    if cut_to is not None and state.has_agreed:
        return f"it asks to truncate the log to {cut_to}, after it had accepted all of it"
    # A later one may have been heard meanwhile, while this response was on its way.
    told, known = answer.high_watermark, replica.asked_high_watermark
    has_records = answer.diverging is None and answer.snapshot_id is None
    if has_records and known is not None and told is not None and told < known:
        return f"its high watermark went back from {known} to {told}"
    is_all = has_records and not answer.batches and answer.invalid is None
    # 3. The whole log of this leader does not name it as a voter.
    if is_all and _is_stranger(replica, state.leader_id):
        voters = ", ".join(map(str, replica.voters.ids))
        return f"it is not one of the voters {voters}, and the log that it sent does not make it one"
    # 4. Our log has records that the leader has not.
    return _other_history(replica, answer)


def is_once(replica: Replica, state: Follower, *, is_contradiction: bool) -> bool:
    """Whether this response is the first one that contradicts what is known: then it has no effect.

    A flipped bit in it, or in the Fetch before it, would otherwise give up a correct leader for the whole epoch.
    A replica in quarantine promises nothing about its log.

    Source: ours (ADR 148).
    """
    is_doubtful = is_contradiction and replica.log.quarantine is None
    is_first = is_doubtful and not state.is_doubted
    if is_first != state.is_doubted:
        replica.state = replace(state, is_doubted=is_first)
    return is_first


def _other_history(replica: Replica, answer: FetchResponse) -> str | None:
    """What shows that the leader has other records below our log end, once it has shown that often enough."""
    end_offset = replica.log.end_offset
    if not answer.batches or answer.batches[0].base_offset >= end_offset:
        return None
    base_offset = answer.batches[0].base_offset
    before, count = replica.foreign_batch
    replica.foreign_batch = (replica.epoch, base_offset), (count if before == (replica.epoch, base_offset) else 0) + 1
    if replica.foreign_batch[1] < FOREIGN_ANSWERS_MAX:
        return None
    place = f"it has a batch at {base_offset}, and this log ends at {end_offset}"
    return f"its log has other records than this one: {place}; {OTHER_HISTORY}"


def give_up_leader(replica: Replica, state: Follower, reason: str, now: Instant) -> None:
    """Stop following this leader; an election follows unless the other voters keep following it.

    Effects: Report.
    """
    replica.given_up = (state.epoch, state.leader_id)
    replica.state = replace(
        state,
        # It no longer counts as alive: grant pre-votes, and campaign after one random election timeout at the latest.
        has_fetched=False,
        download=None,
        fetch_deadline_ms=min(state.fetch_deadline_ms, replica.draw_election_deadline_ms(now)),
        part_deadline_ms=None,
    )
    text = f"node {state.leader_id} is given up as the leader of epoch {state.epoch}: {reason}"
    kind = ReportKind.LEADER_GIVEN_UP
    replica.outbox.add(Report(text=text, is_alarm=True, kind=kind, values=(state.leader_id,)))


def note_response(replica: Replica, now: Instant, *, has_progress: bool) -> None:
    """A response is a sign of life; from a leader that is not a voter yet, only if it brought records."""
    state = replica.state
    assert isinstance(state, Follower)
    # Otherwise a stranger could hold up a quorum with responses that are neither wrong nor useful.
    if has_progress or not _is_stranger(replica, state.leader_id):
        replica.state = state.heard(now, replica.config.fetch_timeout_ms)
        note_leader(replica)


def note_told(replica: Replica, answer: FetchResponse) -> None:
    """Remember what a leader outside the newest voter set knows to be committed: its later answers are judged by it."""
    state, told = replica.state, answer.high_watermark
    if isinstance(state, Follower) and told is not None and _is_outside(replica, state.leader_id):
        replica.state = replace(state, told_end_offset=told)


def _is_stranger(replica: Replica, leader_id: NodeId) -> bool:
    """True for a leader that is not in the newest voter set, nor in the one before while the newest is uncommitted.

    What counts as committed is what this leader told before it received the Fetch that it answers.
    """
    if not _is_outside(replica, leader_id):
        return False
    # A leader that was elected after its removal had committed leads until it knows that. This replica may know it
    # since an earlier epoch, and whoever learns it from the leader learns it as the leader resigns.
    told = replica.state.told_end_offset if isinstance(replica.state, Follower) else None
    return not replica.voter_history.was_voter(leader_id, Offset(0) if told is None else told)


def _is_outside(replica: Replica, leader_id: NodeId) -> bool:
    return len(replica.voters) > 0 and replica.voters.get(leader_id) is None
