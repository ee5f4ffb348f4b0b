"""Listens to the frames of one process: which requests it got, what it says, and which Fetches it waits for.

It changes nothing. To save time, an answer that carries nothing but an epoch is decoded only while the sender's epoch
is not durable yet, and an answer with records only while the sender's disk has lied; at other times no oracle could
object to it.

Source: ours; the rules it listens for are Raft paper §5.1 and §5.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from pykraft.core.raft import Raft
from pykraft.core.state import Follower, Leader
from pykraft.errors import ProtocolError
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import RequestHeader, decode_request_header
from pykraft.protocol.messages import ApiKey
from pykraft.sim.flipped_frame import FlippedFrame
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

    def __init__(self, is_rotten: Callable[[], bool], core: Callable[[], Raft | None]) -> None:
        """``is_rotten`` says whether the disk of this process holds other bytes than were written.

        ``core`` returns the consensus core of this process, once it has one.
        """
        self._is_rotten = is_rotten
        self._core = core
        self.open_fetches: dict[ConnectionId, int] = {}
        """When each unanswered Fetch left (virtual microseconds); includes Fetches that this process gave up."""
        self.fetch_answers: Counter[int] = Counter()
        """How many Fetches each node answered."""
        self.fetch_answers_in: Counter[tuple[int, int]] = Counter()
        """How many Fetches each node answered that were sent to it as the leader of an epoch, by node and epoch.

        A voter that learns of the leader asks it anew, and no longer counts the answer to an earlier Fetch.
        """
        self.answers: Counter[int] = Counter()
        """How many requests each node answered; a leader answers FetchSnapshot, too."""
        self.refusals: Counter[int] = Counter()
        """How many connections each node's machine refused."""
        self._dialed: dict[ConnectionId, int] = {}
        self._led_epochs: dict[ConnectionId, int] = {}
        """The epochs of unanswered Fetches to a node that is followed as the leader."""
        self.departures: list[Departure] = []
        """EndQuorumEpoch requests that this process received."""
        self.asked_by_shorter = 0
        """How many votes and pre-votes candidates with a shorter log than this node's have asked for."""
        self._asked: dict[ConnectionId, VoteAsked | RequestHeader] = {}
        self._epochs: dict[ConnectionId, int] = {}
        """The epochs of BeginQuorumEpoch and EndQuorumEpoch requests that are not answered yet."""

    def dialed(self, connection: ConnectionId, target_id: int) -> None:
        """The process dials that node on this connection and sends requests; on all others it answers."""
        self._dialed[connection] = target_id

    def broke(self, connection: ConnectionId, *, is_refused: bool = False) -> None:
        """The network or the other end closed this connection, or a dial failed: no answer comes."""
        if is_refused:
            self.refusals[self._dialed[connection]] += 1
        self._asked.pop(connection, None)
        self._epochs.pop(connection, None)
        self.open_fetches.pop(connection, None)
        self._led_epochs.pop(connection, None)

    def heard(self, connection: ConnectionId, frame: bytes, log: LogEnd, *, is_damaged: bool) -> None:
        """A frame is about to reach the process, whose log ends at ``log`` and may be known to be damaged."""
        if isinstance(frame, FlippedFrame):
            self._heard_flipped(connection, frame, log, is_damaged=is_damaged)
        else:
            self._heard(connection, frame, log, is_damaged=is_damaged)

    def _heard_flipped(self, connection: ConnectionId, frame: bytes, log: LogEnd, *, is_damaged: bool) -> None:
        """A request is read as the process reads it, if it can be read; an answer may count for nothing."""
        if connection in self._dialed:
            self.broke(connection)
            return
        departures = len(self.departures)
        try:
            self._heard(connection, frame, log, is_damaged=is_damaged)
        except (ProtocolError, LookupError):
            self.broke(connection)  # The process closes it, or answers with an error alone.
        # The process may refuse it, or not understand whom it names: it may act on it, and need not.
        self.departures[departures:] = [replace(each, has_successors=True) for each in self.departures[departures:]]

    def _heard(self, connection: ConnectionId, frame: bytes, log: LogEnd, *, is_damaged: bool) -> None:
        if connection in self._dialed:
            target_id = self._dialed[connection]
            self.answers[target_id] += 1
            if self.open_fetches.pop(connection, None) is not None:
                self.fetch_answers[target_id] += 1
            led_epoch = self._led_epochs.pop(connection, None)
            if led_epoch is not None:
                self.fetch_answers_in[target_id, led_epoch] += 1
            return
        header = decode_request_header(frame)
        if header.api_key == ApiKey.VOTE:
            asked = vote_asked(header, frame, log, is_voter_damaged=is_damaged, may_be_denied=_may_deny(self._core()))
            self._asked[connection] = asked
            self.asked_by_shorter += not asked.candidate_log.is_at_least(log)
        elif header.api_key in EPOCH_FIELDS:
            self._asked[connection] = header
            if header.api_key in ANNOUNCEMENTS:
                self._epochs[connection] = asked_epoch(header, frame)
            if header.api_key == ApiKey.END_QUORUM_EPOCH:
                self.departures.append(departure(header, frame))

    def says(self, connection: ConnectionId, parts: Sequence[Buffer], *, is_epoch_durable: bool) -> Spoken | None:
        """What a frame that is about to leave says; None when no oracle needs it."""
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

    def fetches(self, connection: ConnectionId, now_us: int, *, led_epoch: int | None) -> None:
        """A Fetch left on this connection; ``led_epoch`` is that of the other end, if this process follows it."""
        self.open_fetches[connection] = now_us
        if led_epoch is not None:
            self._led_epochs[connection] = led_epoch

    def _may_serve_damage(self, asked: RequestHeader) -> bool:
        return asked.api_key == ApiKey.FETCH and self._is_rotten()


def _may_deny(raft: Raft | None) -> bool:
    """KIP-996: a leader, and a follower that hears its leader, deny any pre-vote; ADR 022: so does who is unproven."""
    if raft is None or not raft.status.is_proven or isinstance(raft.state, Leader):
        return True
    return isinstance(raft.state, Follower) and raft.state.has_fetched and not raft.state.leader_has_left
