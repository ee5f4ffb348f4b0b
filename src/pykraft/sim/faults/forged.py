"""Frames that nobody sent like that: forged ones in the names of real voters, at a rate, and ones with a flipped bit.

A stranger knows the ids, directory ids, epoch and leader from DescribeQuorum. So it names the epochs that come next,
ends the leader's epoch in its name, announces leaders, fetches as a voter, and moves a voter's endpoint to its own
port. There it answers whatever arrives with the last epoch but one. All that may cost the quorum some time, but
neither its records nor its leader: `QuorumOutlastsForgers` compares with the time before.

What a protocol without authentication cannot withstand is left out (docs/threat-model.md):

- A Fetch at the log end acknowledges, so a forged one asks from the beginning.
- A vote for a candidate that did not ask may elect it later with another log. So the logs of forged candidates are
  empty, and no voter with a record grants them anything.
- Who announces the leader of an epoch that is about to come makes it one with two. So forged leaders begin in epochs
  that nobody reaches by elections.

TCP's checksum misses about one damaged segment in 65,536, and the protocol has none of its own, except in batches of
records. So now and then one bit of a frame between two nodes flips. Most flips are noticed, or contradict something
that the receiver knows; a few are valid messages that say something else. `UNSEEN` names the fields in which nobody
could notice that, with what would follow.

Source: ours (ADR 148); Raft dissertation §4.2.3 (disruptive servers); KIP-853 §UpdateVoter; Stone and Partridge, "When
the CRC and TCP checksum disagree" (SIGCOMM 2000).
"""

import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from operator import itemgetter
from random import Random
from typing import Final, TypeAlias

from pykraft.core import messages
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.api import RequestHeader, decode_request_body, decode_request_header, decode_response
from pykraft.protocol.batch import scan
from pykraft.protocol.messages import ApiKey
from pykraft.sim.facts.facts import FORGER_ID
from pykraft.sim.faults.harm import Family, Harm
from pykraft.sim.faults.stranger import Stranger, StrangerAnswer
from pykraft.sim.flipped_frame import FlippedFrame
from pykraft.sim.machine.network import End
from pykraft.sim.machine.node import Process, SimulatedNode
from pykraft.sim.machine.spoken import EPOCH_FIELDS
from pykraft.sim.scenario.scenario import FLIPPED
from pykraft.sim.scenario.settings import LISTENER
from pykraft.types import EPOCH_MAX, KRAFT_VERSIONS, Endpoint, Epoch, Listeners, NodeId, Offset, OffsetAndEpoch, Voter

Value: TypeAlias = int | float | str | None
FrameField: TypeAlias = tuple[ApiKey, bool, str]
"""RPC, whether it is the request, and the name of a field; no name for a frame that cannot be read."""
TRIES: Final = 20
"""How many bits are drawn, of which one flips."""
HEAD_PROBABILITY: Final = 0.6
HEAD_SIZE_BYTES: Final = 160
"""What is not a record is in about so many bytes; most of the bits that a checksum does not cover are here."""
EPOCHS_MAX: Final = 1 << 10
"""No world has so many; the epoch of a batch above it is noticed."""
WEIGHTS: Final[Mapping[ApiKey, float]] = {
    ApiKey.FETCH: 4,
    ApiKey.VOTE: 3,
    ApiKey.BEGIN_QUORUM_EPOCH: 4,
    ApiKey.END_QUORUM_EPOCH: 1,
    ApiKey.FETCH_SNAPSHOT: 2,
    ApiKey.UPDATE_RAFT_VOTER: 1,
    ApiKey.API_VERSIONS: 0.3,
}


def _any(_was: Value, _now: Value) -> bool:
    return True


def _higher(was: Value, now: Value) -> bool:
    return isinstance(was, int) and isinstance(now, int) and now > was


def _possible(was: Value, now: Value) -> bool:
    return was is not None and isinstance(now, int) and 0 <= now < EPOCHS_MAX


UNSEEN: Final[Mapping[tuple[ApiKey, bool], Mapping[str, Callable[[Value, Value], bool]]]] = {
    # A Fetch acknowledges up to its offset for its sender: the leader would count records that this voter has not.
    (ApiKey.FETCH, True): {"fetch_offset": _higher, "replica_id": _any},
    # A follower believes the high watermark up to its log end, and no checksum covers the epoch of a batch.
    (ApiKey.FETCH, False): {"high_watermark": _higher, "batch_epoch": _possible},
    # The voter would vote for another one, for a log that is not there, or would not note down its vote.
    (ApiKey.VOTE, True): {"replica_id": _any, "last_offset": _higher, "last_offset_epoch": _higher, "pre_vote": _any},
    # The candidate would count a vote that it has not got.
    (ApiKey.VOTE, False): {"vote_granted": _any},
}
"""By RPC, and whether it is the request: the fields whose change is a valid message that contradicts nothing."""
NAMED: Final = {*EPOCH_FIELDS.values(), "leader_epoch", "leader_id", "replica_id", "host", "port", "name", "node_id"}
"""Fields that say in which epoch who leads or asks for votes, and where that node is."""
OFTEN: Final = {*NAMED, "last_fetched_epoch", "epoch", "end_offset"}
OFTENER: Final = 6
"""So many times as often as any other field one of these is hit, where it is among the drawn ones."""


class FlippedFaults(Family):
    """The one kind of this family."""

    def __init__(self, harm: Harm) -> None:
        super().__init__(harm)
        (self._kind,) = FLIPPED
        self.kinds = {self._kind: self._act}
        self._wanted: dict[tuple[ApiKey, bool], Random] = {}
        """By RPC, and whether it is the request: the bit of the next such frame that this generator draws flips."""
        self._asked: dict[tuple[int, int], RequestHeader] = {}
        """Requests without an answer, by the connection at which they arrive and their correlation id."""

        self._flips: Counter[FrameField] = Counter()
        """How often a bit of each field flipped."""

    def stop(self) -> None:
        self._wanted.clear()

    def _act(self) -> bool:
        """From now on watch all frames; one of a kind that is drawn here gets a wrong bit."""
        self._harm.facts.network.snag(self._kind, self._sent)
        (api_key,) = self._rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
        self._wanted.setdefault((api_key, self._rng.random() < 0.5), Random(self._rng.random()))
        return True

    def _sent(self, end: End, frame: bytes) -> bool:
        """Remember requests; flip a bit of a frame that is wanted. The snag stays, so this is always False."""
        nodes = self._harm.facts.nodes
        if end.peer is None or not {end.station.node_id, end.peer.station.node_id} <= nodes.keys():
            return False
        if end.is_dialed:
            asked = decode_request_header(frame)
            self._asked[int(end.peer.connection), asked.correlation_id] = asked
        else:
            found = self._asked.pop((int(end.connection), int.from_bytes(frame[:4], "big")), None)
            if found is None:
                return False
            asked = found
        rng = self._wanted.pop((ApiKey(asked.api_key), end.is_dialed), None)
        if rng is not None:
            self._flip(end, asked, frame, rng)
        return False

    def _flip(self, end: End, asked: RequestHeader, frame: bytes, rng: Random) -> None:
        """Flip one bit, mostly one of those that no checksum covers, and not one that nobody could notice."""
        was = values_in(asked, frame, is_request=end.is_dialed)
        found: list[tuple[int, FlippedFrame, dict[str, Value], FrameField]] = []
        for _ in range(TRIES):
            size_bytes = min(len(frame), HEAD_SIZE_BYTES) if rng.random() < HEAD_PROBABILITY else len(frame)
            position, mask = rng.randrange(size_bytes), 1 << rng.randrange(8)
            flipped = FlippedFrame(frame[:position] + bytes([frame[position] ^ mask]) + frame[position + 1 :])
            now = values_in(asked, flipped, is_request=end.is_dialed)
            names = {_name(path): path for path, value in now.items() if was.get(path) != value}
            unseen = UNSEEN.get((ApiKey(asked.api_key), end.is_dialed), {})
            if not any(unseen[name](was.get(path), now[path]) for name, path in names.items() if name in unseen):
                field = (ApiKey(asked.api_key), end.is_dialed, min(names, default=""))
                found.append((self._flips[field] // (OFTENER if field[-1] in OFTEN else 1), flipped, now, field))
        if found:
            # Of some bits the one in the field that was hit least often: most bits are in uuids, names and lengths.
            _, flipped, now, field = min(found, key=itemgetter(0))
            self._flips[field] += 1
            end.outgoing[-1] = replace(end.outgoing[-1], frame=flipped)
            self._record(end, asked, was, now)

    def _record(self, end: End, asked: RequestHeader, was: Mapping[str, Value], now: Mapping[str, Value]) -> None:
        assert end.peer is not None
        changes = {path: (was.get(path), value) for path, value in now.items() if was.get(path) != value}
        what = ", ".join(f"{path} {one} -> {other}" for path, (one, other) in changes.items()) or "unreadable"
        text = f"{ApiKey(asked.api_key).name} {'request' if end.is_dialed else 'answer'}"
        text = f"gets a {text} of {end.station.node_id} with a flipped bit: {what}"
        self._harm.hit(self._kind, self._harm.facts.nodes[end.peer.station.node_id], text)
        self._claim(changes, now)

    def _claim(self, changes: Mapping[str, tuple[Value, Value]], now: Mapping[str, Value]) -> None:
        claims = self._harm.facts.claims
        claims.is_flipped = True
        if any("api_keys" in path for path in changes):
            self._harm.facts.members.has_pre_votes = False  # A voter seems to be one of an older release.
        if not {_name(path) for path in changes} & NAMED:
            return
        named = {_name(path): value for path, value in now.items() if isinstance(value, int)}
        for name in {*EPOCH_FIELDS.values(), "leader_epoch"}:
            if name in named:
                claims.epochs.add(named[name])
                claims.misplaced.add(named[name])
                claims.candidates.add((named[name], named.get("replica_id", -1)))
                claims.misnamed.add((named[name], named.get("leader_id", -1)))


def values_in(asked: RequestHeader, frame: bytes, *, is_request: bool) -> dict[str, Value]:
    """What the receiver reads, by the path of each field; empty if it can read nothing."""
    try:
        return dict(_read(asked, frame, is_request=is_request))
    except ProtocolError:
        return {}


def _name(path: str) -> str:
    return path.rsplit(".", 1)[-1]


def _read(asked: RequestHeader, frame: bytes, *, is_request: bool) -> Iterator[tuple[str, Value]]:
    if is_request:
        header = decode_request_header(frame)
        yield from (("api_key", header.api_key), ("api_version", header.api_version))
        yield from (("correlation_id", header.correlation_id), ("client_id", header.client_id))
        yield from _leaves("", decode_request_body(header, frame))
    else:
        correlation_id, body = decode_response(asked.api_key, asked.api_version, frame)
        yield "correlation_id", correlation_id
        yield from _leaves("", body)


def _leaves(path: str, value: object) -> Iterator[tuple[str, Value]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _leaves(f"{path}.{name}" if path else name, each)
    elif isinstance(value, list):
        yield f"{path}.count", len(value)
        for number, each in enumerate(value):
            yield from _leaves(f"{path}[{number}]", each)
    elif isinstance(value, bytes | memoryview):
        yield path, f"{len(value)} bytes, {zlib.crc32(value):08x}"
        with suppress(ProtocolError):
            for position, header in scan(value if path.endswith(".records") else b""):
                yield f"{path}[{position}].batch_epoch", header.epoch
    else:
        assert value is None or isinstance(value, int | float | str)
        yield path, value


JUMP: Final = 1_000
"""A forged leader is at least this many epochs ahead: no replica gets there by elections."""
RATES: Final = (1, 3, 10, 20, 50)
"""Frames per second to each voter."""
LASTS_US: Final = (3_000_000, 6_000_000)
SECOND_US: Final = 1_000_000
FAR: Final = Epoch(EPOCH_MAX - 1)
EMPTY: Final = OffsetAndEpoch(Offset(0), Epoch(0))
LISTENERS: Final = Listeners(((LISTENER, Endpoint("stranger", FORGER_ID)),))

Forge: TypeAlias = Callable[[SimulatedNode, Process, Voter], messages.Request]
"""A request to this node, while that process leads, in the name of that voter or its leader."""


class ForgedFaults(Family):
    """The one kind of this family."""

    def __init__(self, harm: Harm) -> None:
        super().__init__(harm)
        self._stranger: Stranger | None = None
        self._until_us = 0
        self._forge: dict[str, Forge] = {
            "Vote": self._vote,
            "EndQuorumEpoch": self._end,
            "BeginQuorumEpoch": self._begin,
            "Fetch": self._fetch,
            "FetchSnapshot": self._fetch_snapshot,
            "UpdateRaftVoter": self._update,
        }
        self.kinds = {"forged frames": self._begin_to_forge}

    def stop(self) -> None:
        self._harm.facts.claims.is_forging = False
        if self._stranger is not None:
            self._stranger.leave()
            self._stranger = None

    def _begin_to_forge(self) -> bool:
        """Send one or all kinds of frames for some seconds, unless the stranger does so already."""
        claims, now_us, rng = self._harm.facts.claims, self._harm.facts.clock.now_us, self._rng
        if claims.is_forging or self._harm.facts.newest_leader() is None:
            return False
        names = list(self._forge) if rng.random() < 0.4 else [rng.choice(list(self._forge))]
        rate = rng.choice(RATES)
        self._harm.happened("forged frames")
        self._harm.note(None, f"a stranger sends each voter {rate} {', '.join(names)} a second in the others' names")
        claims.is_forging, self._until_us = True, now_us + rng.randint(*LASTS_US)
        self._forge_on(names, SECOND_US // rate, rng)
        return True

    def _forge_on(self, names: list[str], period_us: int, rng: Random) -> None:
        facts = self._harm.facts
        if facts.clock.now_us >= self._until_us:
            facts.claims.is_forging = False
            return
        leader = facts.newest_leader()
        for node in facts.voters():
            others = [voter for voter in facts.members.committed.voters if voter.key.id != node.node_id]
            # A voter without a record may grant its vote to the empty log of a forged candidate.
            has_records = node.host is not None and node.host.raft is not None and node.host.raft.log.end != EMPTY
            if leader is not None and others and has_records and not node.is_damaged:
                voter = rng.choice(others)
                self._present.ask(node.node_id, self._forge[rng.choice(names)](node, leader, voter))
        self._harm.later(rng.randint(period_us // 2, period_us * 3 // 2), lambda: self._forge_on(names, period_us, rng))

    @property
    def _present(self) -> Stranger:
        if self._stranger is None:
            facts = self._harm.facts
            self._stranger = Stranger(
                facts, self._harm.world.watch, self._answer, node_id=FORGER_ID, levels=KRAFT_VERSIONS
            )
        return self._stranger

    def _vote(self, node: SimulatedNode, leader: Process, voter: Voter) -> messages.Request:
        """Now and then for one of the next epochs, or for one that is further away."""
        is_pre_vote = self._rng.random() < 0.2
        epoch = self._claimed(leader, self._rng.choice((1, 1, 1, 2, 10, JUMP)))
        self._harm.facts.claims.candidates.add((epoch, int(voter.key.id)))
        return messages.VoteRequest(epoch=epoch, candidate=voter.key, voter=node.key, last=EMPTY, pre_vote=is_pre_vote)

    def _end(self, _node: SimulatedNode, leader: Process, voter: Voter) -> messages.Request:
        epoch, leader_id = self._claimed(leader, 0), NodeId(leader.node_id)
        self._harm.facts.claims.has_said_goodbye = True
        successors = (voter.key,) if self._rng.random() < 0.5 else ()
        return messages.EndQuorumEpochRequest(
            epoch=epoch, leader_id=leader_id, successors=successors, listeners=LISTENERS
        )

    def _begin(self, node: SimulatedNode, _leader: Process, voter: Voter) -> messages.Request:
        """Another voter leads an epoch that nobody reaches, at its own endpoint or at the stranger's."""
        facts = self._harm.facts
        highest = max(host.status.epoch for host in facts.hosts())
        epoch = Epoch(highest + JUMP + self._rng.randrange(JUMP))
        facts.claims.leads(epoch)
        listeners = LISTENERS if self._rng.random() < 0.5 else voter.listeners
        return messages.BeginQuorumEpochRequest(
            epoch=epoch, leader_id=voter.key.id, voter=node.key, listeners=listeners
        )

    def _fetch(self, _node: SimulatedNode, leader: Process, voter: Voter) -> messages.Request:
        return messages.FetchRequest(
            replica=voter.key,
            epoch=self._claimed(leader, 0),
            fetch_offset=EMPTY.offset,
            last_fetched_epoch=EMPTY.epoch,
            wait_ms_max=0,
            size_bytes_max=1,
            high_watermark=None,
        )

    def _fetch_snapshot(self, _node: SimulatedNode, leader: Process, voter: Voter) -> messages.Request:
        snapshot_id = OffsetAndEpoch(Offset(1), Epoch(1))
        epoch = self._claimed(leader, 0)
        return messages.FetchSnapshotRequest(
            replica=voter.key, epoch=epoch, snapshot_id=snapshot_id, position=0, size_bytes_max=1
        )

    def _update(self, _node: SimulatedNode, leader: Process, voter: Voter) -> messages.Request:
        epoch = self._claimed(leader, 0)
        self._harm.facts.claims.is_moving_voters = True
        return messages.UpdateVoterRequest(
            epoch=epoch, voter=voter.key, listeners=LISTENERS, kraft_version=KRAFT_VERSIONS
        )

    def _claimed(self, leader: Process, ahead: int) -> Epoch:
        epoch = Epoch(leader.host.status.epoch + ahead)
        self._harm.facts.claims.epochs.add(epoch)
        return epoch

    def _answer(self, asked: messages.Request) -> StrangerAnswer | None:
        """Every answer names the last epoch but one."""
        response: messages.Response
        match asked:
            case messages.VoteRequest():
                response = messages.VoteResponse(error=ErrorCode.NONE, epoch=FAR, leader_id=None, vote_granted=False)
            case messages.BeginQuorumEpochRequest():
                response = messages.BeginQuorumEpochResponse(
                    error=ErrorCode.FENCED_LEADER_EPOCH, epoch=FAR, leader_id=None
                )
            case messages.EndQuorumEpochRequest():
                response = messages.EndQuorumEpochResponse(
                    error=ErrorCode.FENCED_LEADER_EPOCH, epoch=FAR, leader_id=None
                )
            case messages.FetchRequest():
                response = messages.FetchResponse(
                    error=ErrorCode.FENCED_LEADER_EPOCH,
                    epoch=FAR,
                    leader_id=None,
                    high_watermark=None,
                    log_start_offset=Offset(0),
                )
            case _:
                return None
        return response, b""
