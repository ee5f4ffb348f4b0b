"""Answers that are on their way: bytes of one arrive here, or bytes of one of ours go out.

The host says what moved whenever a deadline is over, before anything is done about that deadline. An answer that moves
fast enough (`pykraft.core.answer_pace`) extends the deadlines that stand for its sender or its receiver:

1. A follower that receives it waits on for the answer, and does not campaign meanwhile.
2. A leader whose answer a voter takes counts that voter for its check quorum: the voter is there, and cannot fetch
   again before it has the whole answer.

Source: ours (ADR 036); KIP-595 §Leader progress timeout says what the deadlines are for.
"""

from __future__ import annotations

from pykraft.core.events import AnswersProgressed
from pykraft.core.on.fetch_request import note_sign_of_life
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Leader
from pykraft.types import Instant


def on_answers_progressed(replica: Replica, event: AnswersProgressed, now: Instant) -> None:
    """Extend the deadlines of those whose answers move fast enough."""
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
    for leaving in event.leaving:
        for voter in leader.progress.voters.values():
            answer = voter.answer
            if answer is None or answer.request_id != leaving.request_id:
                continue
            if answer.pace.advance(leaving.sent_bytes, leaving.size_bytes, now.mono_ms):
                note_sign_of_life(replica, leader, voter.key, now)
