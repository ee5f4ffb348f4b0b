"""Progress of answers in transit: bytes of one arrive here, or bytes of one of ours leave.

Before a deadline takes effect, the host reports how far such answers have come. An answer that moves fast enough
(`pykraft.core.answer_pace`) extends the deadlines of its sender or receiver:

1. A follower waits on for the leader's answer, and does not campaign meanwhile.
2. A leader counts the voter that takes its answer for check quorum. That voter is alive, but it cannot fetch again
   before it has the whole answer. A large answer that has left may still be on its way.

Source: ours (ADR 036); KIP-595 §Leader progress timeout says what the deadlines are for.
"""

from __future__ import annotations

from pykraft.core.events import AnswersProgressed
from pykraft.core.on.fetch_request import note_sign_of_life
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Leader
from pykraft.types import Instant


def on_answers_progressed(replica: Replica, event: AnswersProgressed, now: Instant) -> None:
    """Extend the deadlines of peers whose answers move fast enough."""
    # 1. Answers that arrive here.
    for arriving in event.arriving:
        moves = replica.connections.progressed(
            arriving.peer_id, arriving.correlation_id, arriving.received_bytes, arriving.size_bytes, now.mono_ms
        )
        state = replica.state
        if moves and isinstance(state, Follower) and arriving.peer_id == state.leader_id:
            replica.state = state.hears(now, replica.config.fetch_timeout_ms)
    leader = replica.state
    if not isinstance(leader, Leader):
        return
    # 2. Our answers that are on their way to voters.
    for leaving in event.leaving:
        for voter in leader.progress.voters.values():
            answer = voter.answer
            if answer is None or answer.request_id != leaving.request_id:
                continue
            if answer.pace.sent(leaving.sent_bytes, leaving.size_bytes, now.mono_ms):
                note_sign_of_life(replica, leader, voter.key, now)
