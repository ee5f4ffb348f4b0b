"""A leader that contradicts what this replica knows for certain is given up for its epoch.

Nobody has proven who it is: whoever reaches the port can announce itself as a leader, and a leader that is one can have
lost its disk. Two things hold whatever it says. No node ends because of it, and nothing that is known to be committed
is cut. What a leader cannot say:

- that the logs part below what is committed, or that the high watermark went back (Leader Completeness);
- that the logs part, after it has answered in this epoch that this log is a prefix of its own: its log only grows, and
  all that was appended since came from it;
- that it has nothing more, while the log that came from it names no voter with its id. Until then it may be a voter
  that this replica has not learned of, also in a quorum whose voters are configured: the upgrade to kraft.version 1
  may be what is still to be fetched. One that is removing itself leads until that is committed.

A leader that was given up is not fetched from in its epoch any more, and denies nobody a pre-vote; a voter campaigns
soon. If the others follow it with good reason, this replica stays behind, and says so.

Source: ours; Raft paper §5.4.3 (Leader Completeness), §5.3 (leaders append only); Kafka's client throws an exception in
the first case, and believes in the others.
"""

from __future__ import annotations

from dataclasses import replace

from pykraft.core.effects import Report
from pykraft.core.messages import FetchResponse
from pykraft.core.replica import Replica
from pykraft.core.state import Follower
from pykraft.types import Instant, NodeId, Offset


def contradiction_in(replica: Replica, state: Follower, answer: FetchResponse, cut_to: Offset | None) -> str | None:
    """What no leader says, if the answer says it; ``cut_to`` is where it wants the log cut.

    A replica that lost part of its log cannot tell: in quarantine the leader's log counts.
    """
    if replica.log.quarantine is not None:
        return None
    committed_end_offset = replica.log.committed_end_offset
    if cut_to is not None and cut_to < committed_end_offset:
        return f"it wants the log cut to {cut_to}, but everything below {committed_end_offset} is committed"
    if cut_to is not None and state.has_agreed:
        return f"it wants the log cut to {cut_to}, after it had agreed with all of it"
    told, known = answer.high_watermark, state.high_watermark
    has_records = answer.diverging is None and answer.snapshot_id is None
    if has_records and known is not None and told is not None and told < known:
        return f"its high watermark went back from {known} to {told}"
    is_all = has_records and not answer.batches and answer.invalid is None
    if is_all and _is_stranger(replica, state.leader_id):
        voters = ", ".join(map(str, replica.voters.ids))
        return f"it is not one of the voters {voters}, also not in the log that came from it"
    return None


def give_up_leader(replica: Replica, state: Follower, reason: str, now: Instant) -> None:
    """Follow this leader no more; an election comes when the others do not follow it either.

    Effects: Report.
    """
    replica.given_up = (state.epoch, state.leader_id)
    replica.state = replace(
        state,
        has_fetched=False,
        download=None,
        fetch_deadline_ms=min(state.fetch_deadline_ms, replica.draw_election_deadline_ms(now)),
    )
    text = f"node {state.leader_id} is given up as the leader of epoch {state.epoch}: {reason}"
    replica.outbox.add(Report(text=text, is_alarm=True))


def hear(replica: Replica, now: Instant, *, has_progress: bool) -> None:
    """An answer is a sign of life; that of a leader which is no voter yet only when it brought something.

    Otherwise a stranger could keep a quorum waiting with answers that are neither wrong nor of any use.
    """
    state = replica.state
    assert isinstance(state, Follower)
    if has_progress or not _is_stranger(replica, state.leader_id):
        replica.state = state.heard(now, replica.config.fetch_timeout_ms)


def _is_stranger(replica: Replica, leader_id: NodeId) -> bool:
    """True for a leader without an entry in the voter set in force, and in the one before while that is in doubt."""
    if not len(replica.voters) or replica.voters.get(leader_id) is not None:
        return False
    return not replica.membership.was_voter(leader_id, replica.log.known_committed_end_offset)
