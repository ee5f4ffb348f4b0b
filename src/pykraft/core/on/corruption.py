"""Quarantine: part of this replica's log is damaged. Forget it, stay out of elections, fetch it again, return.

When may the replica vote again? When it holds everything that may be committed because of its earlier acknowledgements.
It is not enough to reach the former recovery point, which lags behind the acknowledgements. Nor is it enough to reach
the high watermark of a response:

1. Follower 3 acknowledges up to 10 in epoch 5, but that Fetch is stuck in a socket buffer.
2. It restarts, finds damage at 4 and fetches from there. The leader's high watermark is 6, and it reaches 6.
3. The leader reads the old Fetch and commits up to 10 with it.
4. The leader dies, and follower 3 votes for a candidate whose log ends at 6. Records 6 to 9 are lost.

All acknowledgements were made in the epoch of the quarantine or before. So quarantine ends when the leader of the
current epoch has confirmed, by a response that is not diverging, a log that ends in that epoch, and one of these holds:

(a) The epoch is newer than the quarantine's. That leader was elected without this replica's vote, so by a majority in
    which some voter holds whatever is committed (Leader Completeness). All of it lies before the leader's first record,
    which is here now. Fetches of older epochs are fenced, however late they arrive.
(b) The log reaches beyond everything that was acknowledged in the epoch.
(c) The leader had nothing more to send. What was acknowledged to it is a prefix of its log, which is here now.

Source: ours; Raft paper §5.4.3 (Leader Completeness), §5.4.1 (votes).
"""

from dataclasses import replace

from pykraft.core.effects import EnterQuarantine, InstallSnapshot, LeaveQuarantine, Report, TruncateTo
from pykraft.core.enter_state import give_up_campaign, to_prospective, to_resigned
from pykraft.core.events import CorruptionFound
from pykraft.core.messages import FetchResponse
from pykraft.core.quarantine import Quarantine
from pykraft.core.replica import Replica
from pykraft.core.state import Candidate, Leader, Prospective, Resigned
from pykraft.types import Instant, Offset, ReportKind


def on_corruption_found(replica: Replica, event: CorruptionFound, now: Instant) -> None:
    """Drop the log from the damaged batch on, in memory and in all that we promise; the files are truncated later.

    Effects: EnterQuarantine; what leaving the state brings.
    Source: ours.
    """
    damage, log = event.damage, replica.log
    former_end_offset, end_offset = log.end_offset, max(damage.start_offset, log.start_offset)
    # The damaged part was truncated before the damage was found, so nothing is lost.
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
    """End the log of a replica in quarantine at this offset, and lower its high watermark to it."""
    replica.log.lose_from(end_offset)
    # A snapshot beyond the new log end still says who votes.
    beyond = next((each.offset for each in replica.log.snapshots if each.offset > end_offset), end_offset)
    replica.voter_history.lose_from(end_offset, beyond)
    state = replica.state
    if not isinstance(state, Leader | Resigned) and state.high_watermark is not None:
        replica.state = replace(state, high_watermark=min(state.high_watermark, end_offset))


def cut_damage(replica: Replica) -> None:
    """Truncate the files of a replica in quarantine to the log end, now that a leader can send what follows.

    Effects: TruncateTo or, when nothing is left of the log, InstallSnapshot for the one at whose end it starts; none if
    it was done.
    """
    quarantine, log = replica.log.quarantine, replica.log
    # Not before a leader has answered: without a leader these files may hold the last copy of a record.
    if quarantine is None or quarantine.is_cut:
        return
    io = replica.outbox.next_log_io()
    log.submit(io)
    # The files may end before that snapshot does.
    if log.end_offset == log.start_offset > 0:
        replica.outbox.add(InstallSnapshot(io=io, snapshot_id=log.snapshots[0]))
    else:
        replica.outbox.add(TruncateTo(io=io, end_offset=log.end_offset))
    log.quarantine = replace(quarantine, is_cut=True)


def leave_if_whole(replica: Replica, answer: FetchResponse) -> None:
    """End the quarantine if a non-diverging response, not appended yet, shows that the log is whole again.

    Effects: LeaveQuarantine.
    """
    # To reach the high watermark (step 2) is not enough: the leader may still read an old Fetch of ours (steps 1 and
    # 3), and with our vote a shorter log could win (step 4).
    quarantine, log = replica.log.quarantine, replica.log
    if quarantine is None or log.last_epoch < replica.epoch or log.flushed_end_offset < log.end_offset:
        return
    # Cases (a), (b) and (c) of the module's docstring.
    is_new_epoch = replica.epoch > quarantine.epoch
    is_beyond = quarantine.until_offset is not None and log.end_offset >= quarantine.until_offset
    is_all = not answer.batches and answer.invalid is None
    if not (is_new_epoch or is_beyond or is_all):
        return
    cut_damage(replica)
    replica.log.quarantine = None
    text = f"out of quarantine: the log is whole again up to {log.end_offset}"
    replica.outbox.add(Report(text=text, kind=ReportKind.QUARANTINE_OVER, values=(log.end_offset,)))
    replica.outbox.add(LeaveQuarantine(io=replica.outbox.next_log_io()))


def _stand_down(replica: Replica, now: Instant) -> None:
    """Resign or end the campaign, because either promises a log that is no longer there; forget requests in flight."""
    if isinstance(replica.state, Candidate):
        to_prospective(replica, now)
    if isinstance(replica.state, Prospective):
        give_up_campaign(replica, now)
    elif isinstance(replica.state, Leader):
        to_resigned(replica, now)
    else:
        # A response to an earlier Fetch no longer fits this log.
        replica.connections.reset()
