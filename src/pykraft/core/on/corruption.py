"""Part of the own log is damaged: forget it, leave elections to others, fetch it again, come back.

When may a replica vote again? When it holds everything that may be committed because of what it once
acknowledged. Reaching the former recovery point is not enough: the point lags behind what was acknowledged. Nor
is reaching the high watermark of an answer:

1. follower 3 acknowledges up to 10 in epoch 5, and that Fetch waits in a socket buffer; 2. it restarts, finds
damage at 4, fetches from there; the leader's high watermark is 6, and it reaches 6; 3. the old Fetch is read,
and with it the leader commits 10; 4. the leader dies, and follower 3 votes for somebody who has 6.

What the replica acknowledged, it acknowledged in the epoch of its quarantine or before. So it comes back when the
leader of its present epoch has confirmed, by an answer that is not diverging, a log that ends in that epoch, and

- the epoch is newer than the quarantine's: that leader was elected without this replica's vote, so by a majority
  of which somebody holds whatever is committed (Leader Completeness); all of it lies before the leader's first
  record, which is there now; and Fetches of older epochs are fenced, however late they come; or
- the log reaches beyond all that was acknowledged in the epoch; or
- the leader had nothing more to give: what was acknowledged to it is a prefix of its log, which is now here.

Source: ours; Raft paper §5.4.3 (Leader Completeness), §5.4.1 (votes).
"""

from __future__ import annotations

from dataclasses import replace

from pykraft.core.effects import EnterQuarantine, LeaveQuarantine, Report, TruncateTo
from pykraft.core.events import CorruptionFound
from pykraft.core.messages import FetchResponse
from pykraft.core.moves import give_up_campaign, to_prospective, to_resigned
from pykraft.core.quarantine import Quarantine
from pykraft.core.replica import Replica
from pykraft.core.state import Candidate, Leader, Prospective, Resigned
from pykraft.types import Instant, Offset


def on_corruption_found(replica: Replica, event: CorruptionFound, now: Instant) -> None:
    """Lose the log from the damaged batch on, in memory and in every promise; the files are cut later.

    A leader resigns and a campaign ends, since both promise a log that is not there any more. No answer to an
    earlier Fetch counts. What was cut off before the damage was found concerns nobody.

    Effects: EnterQuarantine; what leaving the state brings.
    Source: ours.
    """
    damage, log = event.damage, replica.log
    former_end_offset, end_offset = log.end_offset, max(damage.start_offset, log.start_offset)
    if end_offset >= former_end_offset:
        return
    text = f"DAMAGED LOG, in quarantine until it is fetched again: {damage}"
    replica.outbox.add(Report(text=text, is_alarm=True))
    _stand_down(replica, now)
    lose_from(replica, end_offset)
    before = replica.log.quarantine or Quarantine(epoch=replica.epoch, until_offset=Offset(0), damages=(), is_cut=True)
    replica.log.quarantine = Quarantine(
        epoch=replica.epoch,
        until_offset=None if before.until_offset is None else max(before.until_offset, former_end_offset),
        damages=before.with_damages(damage),
        is_cut=False,
    )
    io = replica.outbox.next_log_io()
    replica.outbox.add(EnterQuarantine(io=io, quarantine=replica.log.quarantine, end_offset=end_offset))


def lose_from(replica: Replica, end_offset: Offset) -> None:
    """Let the log of a replica in quarantine end here, and its high watermark with it."""
    replica.log.lose_from(end_offset)
    beyond = next((each.offset for each in replica.log.snapshots if each.offset > end_offset), end_offset)
    replica.membership.lose_from(end_offset, beyond)
    state = replica.state
    if not isinstance(state, Leader | Resigned) and state.high_watermark is not None:
        replica.state = replace(state, high_watermark=min(state.high_watermark, end_offset))


def cut_damage(replica: Replica) -> None:
    """Cut the files of a replica in quarantine where its log ends, once a leader has what belongs behind it.

    Not before: while nobody leads, the files may be all that is left of a record.

    Effects: TruncateTo unless it was done.
    """
    quarantine = replica.log.quarantine
    if quarantine is None or quarantine.is_cut:
        return
    io = replica.outbox.next_log_io()
    replica.log.submit(io)
    replica.outbox.add(TruncateTo(io=io, end_offset=replica.log.end_offset))
    replica.log.quarantine = replace(quarantine, is_cut=True)


def leave_if_whole(replica: Replica, answer: FetchResponse) -> None:
    """End the quarantine if the leader's answer, not diverging and not yet appended, shows that it may end.

    Effects: LeaveQuarantine.
    """
    quarantine, log = replica.log.quarantine, replica.log
    if quarantine is None or log.last_epoch < replica.epoch or log.flushed_end_offset < log.end_offset:
        return
    is_new_epoch = replica.epoch > quarantine.epoch
    is_beyond = quarantine.until_offset is not None and log.end_offset >= quarantine.until_offset
    is_all = not answer.batches and answer.invalid is None
    if not (is_new_epoch or is_beyond or is_all):
        return
    cut_damage(replica)
    replica.log.quarantine = None
    replica.outbox.add(Report(text=f"out of quarantine: the log is whole again up to {log.end_offset}"))
    replica.outbox.add(LeaveQuarantine(io=replica.outbox.next_log_io()))


def _stand_down(replica: Replica, now: Instant) -> None:
    """Be nobody's leader and no candidate; forget what was asked."""
    if isinstance(replica.state, Candidate):
        to_prospective(replica, now)
    if isinstance(replica.state, Prospective):
        give_up_campaign(replica, now)
    elif isinstance(replica.state, Leader):
        to_resigned(replica, now)
    else:
        replica.connections.reset()
