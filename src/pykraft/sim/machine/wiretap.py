"""Listens to the frames of one process: what it was asked, what it says, which Fetches it waits for.

Refuses to change anything. An answer that carries nothing but an epoch is only read while the epoch of its sender is
not durable yet, and one with records while the disk they may be from has lied: at any other time there is nothing in it
that could be wrong for an oracle.

Source: ours; the rules it listens for are Raft paper §5.1 and §5.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import RequestHeader, decode_request_header
from pykraft.protocol.messages import ApiKey
from pykraft.sim.machine.spoken import (
    EPOCH_FIELDS,
    Departure,
    LogEnd,
    Spoken,
    VoteAsked,
    asked_epoch,
    departure,
    spoken_in_answer,
    spoken_in_request,
    spoken_in_vote,
    vote_asked,
)
from pykraft.types import Buffer

ANNOUNCEMENTS: Final = (ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH)


class Wiretap:
    """All connections of one process."""

    def __init__(self, is_rotten: Callable[[], bool]) -> None:
        """``is_rotten`` says whether the disk of this process holds anything else than was written."""
        self._is_rotten = is_rotten
        self.open_fetches: dict[ConnectionId, int] = {}
        """Fetches without an answer, and when they left (virtual microseconds); also when this process gave them up."""
        self.answered_fetches = 0
        """How many were answered."""
        self.answers: Counter[int] = Counter()
        """The same by who answered."""
        self._dialed: dict[ConnectionId, int] = {}
        self.departures: list[Departure] = []
        """EndQuorumEpoch requests that came."""
        self._asked: dict[ConnectionId, VoteAsked | RequestHeader] = {}
        self._epochs: dict[ConnectionId, int] = {}
        """Of BeginQuorumEpoch and EndQuorumEpoch requests without an answer."""

    def dialed(self, connection: ConnectionId, target_id: int) -> None:
        """The process asks that node on this one; on all others it answers."""
        self._dialed[connection] = target_id

    def broke(self, connection: ConnectionId) -> None:
        """The network or the other end closed this one: no answer comes any more."""
        self._asked.pop(connection, None)
        self._epochs.pop(connection, None)
        self.open_fetches.pop(connection, None)

    def heard(self, connection: ConnectionId, frame: bytes, log: LogEnd, *, is_damaged: bool) -> None:
        """A frame is about to be handed to a process whose log ends there, and may be known to be damaged."""
        if connection in self._dialed:
            if self.open_fetches.pop(connection, None) is not None:
                self.answered_fetches += 1
                self.answers[self._dialed[connection]] += 1
            return
        header = decode_request_header(frame)
        if header.api_key == ApiKey.VOTE:
            self._asked[connection] = vote_asked(header, frame, log, is_voter_damaged=is_damaged)
        elif header.api_key in EPOCH_FIELDS:
            self._asked[connection] = header
            if header.api_key in ANNOUNCEMENTS:
                self._epochs[connection] = asked_epoch(header, frame)
            if header.api_key == ApiKey.END_QUORUM_EPOCH:
                self.departures.append(departure(header, frame))

    def says(self, connection: ConnectionId, parts: Sequence[Buffer], *, is_epoch_durable: bool) -> Spoken | None:
        """What a frame says that is about to leave; None when no oracle has anything to say to it."""
        if connection in self._dialed:
            return spoken_in_request(parts, self._dialed[connection])
        asked = self._asked.pop(connection, None)
        if isinstance(asked, VoteAsked):
            return spoken_in_vote(asked, parts)
        if asked is None:
            return None
        epoch = self._epochs.pop(connection, None)
        if is_epoch_durable and epoch is None and not self._may_serve_damage(asked):
            return None
        return spoken_in_answer(asked, parts, epoch)

    def fetches(self, connection: ConnectionId, now_us: int) -> None:
        """A Fetch left on this connection."""
        self.open_fetches[connection] = now_us

    def _may_serve_damage(self, asked: RequestHeader) -> bool:
        return asked.api_key == ApiKey.FETCH and self._is_rotten()
