"""What a frame claims for its sender, for the oracles that listen on the wire, and the wiretap of one process.

Only the quorum's own requests and answers are read. Their sender must have every epoch in them on disk. A vote, for
itself or granted to another, is a promise and must be durable, too. The offset of a Fetch says what its sender holds
durably, and the position of a FetchSnapshot how much of a snapshot it has. The answer to a Fetch carries a part of its
sender's log.

The `Wiretap` changes nothing. To save time, an answer that carries nothing but an epoch is decoded only while the
sender's epoch is not durable yet, and an answer with records only while the sender's disk has lied; at other times no
oracle could object to it.

Source: Kafka's message definitions of Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch and FetchSnapshot; the rules it
listens for are Raft paper §5.1 and §5.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pykraft.core.raft import Raft
from pykraft.core.state import Follower, Leader
from pykraft.errors import ProtocolError
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import RequestHeader, decode_request_body, decode_request_header, decode_response
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.sim.flipped_frame import FlippedFrame
from pykraft.types import ZERO_UUID, Buffer, Epoch, Offset, OffsetAndEpoch

FRAME_LENGTH_SIZE_BYTES = 4
EPOCH_FIELDS = {
    ApiKey.VOTE: "replica_epoch",
    ApiKey.BEGIN_QUORUM_EPOCH: "leader_epoch",
    ApiKey.END_QUORUM_EPOCH: "leader_epoch",
    ApiKey.FETCH: "current_leader_epoch",
    ApiKey.FETCH_SNAPSHOT: "current_leader_epoch",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """Log end (exclusive), and the epoch of the last record: what two voters compare."""

    epoch: int
    offset: int

    def is_at_least(self, other: LogEnd) -> bool:
        """Raft paper §5.4.1: the later epoch wins, then the longer log."""
        return (self.epoch, self.offset) >= (other.epoch, other.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteAsked:
    """A Vote request that is not answered yet; ``voter_log`` is the voter's log when the request arrived."""

    version: int
    epoch: int
    candidate_id: int
    is_pre_vote: bool
    candidate_log: LogEnd
    voter_log: LogEnd | None = None
    is_voter_damaged: bool = False
    may_be_denied: bool = False
    """True if the voter had a reason, other than its log, to deny a pre-vote when the request arrived."""
    voter_directory_id: bytes | None = None
    """Directory id of the voter that is asked; None for any."""
    candidate_directory_id: bytes | None = None
    """Directory id that the candidate names as its own; None for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceAsked:
    """A FetchSnapshot asks for the bytes of a snapshot from this position on."""

    snapshot_id: OffsetAndEpoch
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """An epoch, and what else the sender claims; a field is None when the frame does not say it."""

    epoch: int
    candidate_id: int | None = None
    """Whom the sender votes for in this epoch; a pre-vote is not a vote."""
    granted: VoteAsked | None = None
    """The Vote request, or pre-vote, that this answer grants."""
    denied: VoteAsked | None = None
    """The pre-vote that this answer denies, without an error."""
    fetched: LogEnd | None = None
    """What the sender of a Fetch claims to hold durably."""
    sliced: SliceAsked | None = None
    """Which part of a snapshot is asked for."""
    target_id: int | None = None
    """The node that is asked; None for an answer."""
    is_question: bool = False
    """True in a Fetch that wants nothing but the epoch of its target."""
    leader_id: int | None = None
    """The leader of the epoch according to the answer to a Vote."""
    confirms_leader: bool = False
    """True in an answer to BeginQuorumEpoch without an error: the sender still takes that node for its leader."""
    served: Buffer = b""
    """The records in the answer to a Fetch."""
    served_epoch: int | None = None
    """The epoch of the Vote, BeginQuorumEpoch or EndQuorumEpoch request that is answered without an error."""


def spoken_in_request(parts: Sequence[Buffer], target_id: int) -> Spoken | None:
    """What the sender of this request tells that node; None for a request without an epoch."""
    frame = b"".join(parts)[FRAME_LENGTH_SIZE_BYTES:]
    header = decode_request_header(frame)
    api_key = ApiKey(header.api_key)
    field = EPOCH_FIELDS.get(api_key)
    if field is None:
        return None
    body = decode_request_body(header, frame)
    partition = body["topics"][0]["partitions"][0]
    epoch = partition[field]
    if api_key is ApiKey.FETCH:
        if max(body["replica_id"], body["replica_state"]["replica_id"]) < 0:
            # A Fetch without a replica id promises nothing.
            return Spoken(epoch=epoch, target_id=target_id, is_question=not (body["max_wait_ms"] or body["max_bytes"]))
        log = LogEnd(epoch=partition["last_fetched_epoch"], offset=partition["fetch_offset"])
        return Spoken(epoch=epoch, fetched=log, target_id=target_id)
    if api_key is ApiKey.FETCH_SNAPSHOT:
        asked = partition["snapshot_id"]
        snapshot_id = OffsetAndEpoch(Offset(asked["end_offset"]), Epoch(asked["epoch"]))
        sliced = SliceAsked(snapshot_id=snapshot_id, position=partition["position"])
        return Spoken(epoch=epoch, sliced=sliced, target_id=target_id)
    is_vote = api_key is ApiKey.VOTE and not partition.get("pre_vote")
    return Spoken(epoch=epoch, candidate_id=partition["replica_id"] if is_vote else None, target_id=target_id)


def vote_asked(
    header: RequestHeader,
    frame: bytes,
    voter_log: LogEnd | None = None,
    *,
    is_voter_damaged: bool = False,
    may_be_denied: bool = False,
) -> VoteAsked:
    """The Vote request in this frame, with the log end of the voter and what else its answer depends on."""
    partition = decode_request_body(header, frame)["topics"][0]["partitions"][0]
    voter_id, own_id = (bytes(partition.get(f"{of}_directory_id", ZERO_UUID)) for of in ("voter", "replica"))
    return VoteAsked(
        version=header.api_version,
        epoch=partition["replica_epoch"],
        candidate_id=partition["replica_id"],
        is_pre_vote=bool(partition.get("pre_vote")),
        candidate_log=LogEnd(epoch=partition["last_offset_epoch"], offset=partition["last_offset"]),
        voter_log=voter_log,
        is_voter_damaged=is_voter_damaged,
        may_be_denied=may_be_denied,
        voter_directory_id=voter_id if voter_id != ZERO_UUID else None,
        candidate_directory_id=own_id if own_id != ZERO_UUID else None,
    )


def spoken_in_vote(asked: VoteAsked, parts: Sequence[Buffer]) -> Spoken | None:
    """What the answer to a Vote says; None when it rejects the request as a whole."""
    partition = _answered(ApiKey.VOTE, asked.version, parts)
    if partition is None:
        return None
    served_epoch = None if partition["error_code"] else asked.epoch
    if not partition["vote_granted"]:
        leader_id = partition["leader_id"] if partition["leader_id"] >= 0 else None
        denied = asked if asked.is_pre_vote and served_epoch is not None else None
        return Spoken(epoch=partition["leader_epoch"], leader_id=leader_id, served_epoch=served_epoch, denied=denied)
    if asked.is_pre_vote:
        return Spoken(epoch=partition["leader_epoch"], granted=asked, served_epoch=served_epoch)
    return Spoken(epoch=asked.epoch, candidate_id=asked.candidate_id, granted=asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """An EndQuorumEpoch request: the leader that resigns, its epoch, and whether it names successors."""

    epoch: int
    leader_id: int
    has_successors: bool


def departure(header: RequestHeader, frame: bytes) -> Departure:
    """Read an EndQuorumEpoch request."""
    partition = decode_request_body(header, frame)["topics"][0]["partitions"][0]
    successors = partition.get("preferred_successors") or partition.get("preferred_candidates")
    return Departure(epoch=partition["leader_epoch"], leader_id=partition["leader_id"], has_successors=bool(successors))


def asked_epoch(header: RequestHeader, frame: bytes) -> int:
    """The epoch in this request."""
    epoch: int = decode_request_body(header, frame)["topics"][0]["partitions"][0][EPOCH_FIELDS[ApiKey(header.api_key)]]
    return epoch


def spoken_in_answer(header: RequestHeader, parts: Sequence[Buffer], epoch_asked: int | None = None) -> Spoken | None:
    """The epoch in the answer to this request; None when it rejects the request as a whole."""
    partition = _answered(ApiKey(header.api_key), header.api_version, parts)
    if partition is None:
        return None
    if header.api_key == ApiKey.FETCH:
        epoch = max(partition["current_leader"]["leader_epoch"], 0)
        return Spoken(epoch=epoch, served=partition["records"] or b"")
    if header.api_key == ApiKey.FETCH_SNAPSHOT:
        return Spoken(epoch=max(partition["current_leader"]["leader_epoch"], 0))
    is_served = not partition["error_code"]
    return Spoken(
        epoch=partition["leader_epoch"],
        confirms_leader=is_served and header.api_key == ApiKey.BEGIN_QUORUM_EPOCH,
        served_epoch=epoch_asked if is_served else None,
    )


def _answered(api_key: ApiKey, version: int, parts: Sequence[Buffer]) -> Body | None:
    _, body = decode_response(api_key, version, b"".join(parts)[FRAME_LENGTH_SIZE_BYTES:])
    key = "responses" if api_key is ApiKey.FETCH else "topics"
    if body["error_code"] or not body[key]:
        return None
    partition: Body = body[key][0]["partitions"][0]
    return partition


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
