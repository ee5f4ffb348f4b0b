"""Replicas in any state: the first of three voters, in epoch 5, with a log that ends at 10 in epoch 3.

A test sets the state it wants, calls one function, and looks at the effects that `done` collects.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TypeVar

from pykraft import types
from pykraft.config import RaftConfig
from pykraft.core import effects, messages
from pykraft.core.effects import Effect
from pykraft.core.election import NEVER_MS, Tally
from pykraft.core.events import RequestReceived, ResponseReceived
from pykraft.core.leader.accumulation import Accumulation
from pykraft.core.leader.progress import Progress
from pykraft.core.log_view import LogView
from pykraft.core.on.send_requests import where_is
from pykraft.core.raft import on_request, on_response
from pykraft.core.replica import LocalReplica, Replica
from pykraft.core.state import Candidate, Follower, Leader, Prospective, Resigned, State, Unattached
from pykraft.core.voter_history import VoterHistory

NOW = types.Instant(mono_ms=10_000, wall_ms=1_000_000)
LATER_MS = 10_500
"""When the election or fetch timeout of a state made here is over."""
EPOCH = types.Epoch(5)
END = types.OffsetAndEpoch(types.Offset(10), types.Epoch(3))
CONFIG = RaftConfig(append_linger_ms=0)
LISTENER = "CONTROLLER"

T = TypeVar("T", bound=Effect)


def later(ms: int) -> types.Instant:
    return types.Instant(mono_ms=NOW.mono_ms + ms, wall_ms=NOW.wall_ms + ms)


def directory(node_id: int) -> types.Uuid:
    return types.Uuid(bytes([node_id]) * 16)


def key(node_id: int) -> types.ReplicaKey:
    return types.ReplicaKey(types.NodeId(node_id), directory(node_id))


def listeners(node_id: int, *more: str) -> types.Listeners:
    return types.Listeners(tuple((name, types.Endpoint(f"n{node_id}", 9_000 + node_id)) for name in (LISTENER, *more)))


def voter_set(*node_ids: int) -> types.VoterSet:
    return types.VoterSet.of(types.Voter(key=key(node_id), listeners=listeners(node_id)) for node_id in node_ids)


def tally(granted: Sequence[int] = (1,), rejected: Sequence[int] = (), voters: Sequence[int] = (1, 2, 3)) -> Tally:
    return Tally(
        voters=frozenset(map(types.NodeId, voters)),
        granted=frozenset(map(types.NodeId, granted)),
        rejected=frozenset(map(types.NodeId, rejected)),
    )


def unattached(*, epoch: int = EPOCH, leader_id: int | None = None, voted: int | None = None) -> Unattached:
    return Unattached(
        epoch=types.Epoch(epoch),
        leader_id=None if leader_id is None else types.NodeId(leader_id),
        voted=None if voted is None else key(voted),
        high_watermark=types.Offset(4),
        election_deadline_ms=LATER_MS,
    )


def prospective(
    *, epoch: int = EPOCH, leader_id: int | None = None, voted: int | None = None, count: Tally | None = None
) -> Prospective:
    return Prospective(
        epoch=types.Epoch(epoch),
        leader_id=None if leader_id is None else types.NodeId(leader_id),
        leader_listeners=types.Listeners() if leader_id is None else listeners(leader_id),
        voted=None if voted is None else key(voted),
        high_watermark=types.Offset(4),
        election_deadline_ms=LATER_MS,
        tally=count or tally(),
    )


def candidate(*, epoch: int = EPOCH, count: Tally | None = None) -> Candidate:
    return Candidate(
        epoch=types.Epoch(epoch),
        voted=key(1),
        high_watermark=types.Offset(4),
        election_deadline_ms=LATER_MS,
        tally=count or tally(),
    )


def leader(
    *, epoch: int = EPOCH, voters: types.VoterSet | None = None, high_watermark: int | None = None, linger_ms: int = 0
) -> Leader:
    """A leader whose epoch starts at the log end: nothing of it is written yet."""
    return Leader(
        epoch=types.Epoch(epoch),
        leader_id=types.NodeId(1),
        epoch_start_offset=END.offset,
        granting_voters=(types.NodeId(1), types.NodeId(2)),
        progress=Progress(voters or voter_set(1, 2, 3)),
        accumulation=Accumulation(
            epoch=types.Epoch(epoch), base_offset=END.offset, linger_ms=linger_ms, size_bytes_max=1_061, waiting_max=2
        ),
        check_quorum_deadline_ms=NOW.mono_ms + 3_000,
        begin_quorum_deadline_ms=NOW.mono_ms + 1_000,
        high_watermark=None if high_watermark is None else types.Offset(high_watermark),
    )


def follower(
    *, epoch: int = EPOCH, leader_id: int = 2, voted: int | None = None, has_fetched: bool = False
) -> Follower:
    return Follower(
        epoch=types.Epoch(epoch),
        leader_id=types.NodeId(leader_id),
        leader_listeners=listeners(leader_id),
        voted=None if voted is None else key(voted),
        high_watermark=types.Offset(4),
        fetch_deadline_ms=LATER_MS,
        update_deadline_ms=NEVER_MS,
        has_fetched=has_fetched,
    )


def resigned(*, epoch: int = EPOCH) -> Resigned:
    return Resigned(
        epoch=types.Epoch(epoch),
        leader_id=types.NodeId(1),
        unacknowledged=frozenset({types.NodeId(2), types.NodeId(3)}),
        successors=(key(3), key(2)),
        election_deadline_ms=LATER_MS,
    )


STATES: Mapping[str, Callable[[], State]] = {
    "unattached": unattached,
    "unattached-voted": lambda: unattached(voted=3),
    "unattached-led": lambda: unattached(leader_id=2),
    "prospective": prospective,
    "prospective-voted": lambda: prospective(voted=3),
    "prospective-led": lambda: prospective(leader_id=2),
    "candidate": candidate,
    "leader": leader,
    "follower": follower,
    "follower-fetched": lambda: follower(has_fetched=True),
    "resigned": resigned,
}
HEARING = ("leader", "follower-fetched")
"""States in which a replica yields to no request of a higher epoch: it leads, or hears its leader."""
YIELDING = [name for name in STATES if name not in HEARING]


def log_to_10() -> LogView:
    """Epoch 1 from 0, epoch 3 from 6; all flushed."""
    starts = [
        types.EpochStart(epoch=types.Epoch(1), start_offset=types.Offset(0)),
        types.EpochStart(epoch=types.Epoch(3), start_offset=types.Offset(6)),
    ]
    return LogView(start_offset=types.Offset(0), end_offset=END.offset, epochs=starts)


def replica(
    state: State | None = None,
    *,
    local_id: int | None = 1,
    voters: types.VoterSet | None = None,
    bootstrap: tuple[types.Endpoint, ...] = (),
    config: RaftConfig = CONFIG,
    log: LogView | None = None,
) -> Replica:
    """A replica whose election is durable already."""
    made = Replica(
        config=config,
        local=LocalReplica(
            id=None if local_id is None else types.NodeId(local_id),
            directory_id=directory(local_id or 0x77),
            listeners=listeners(local_id or 0),
            default_listener=LISTENER,
        ),
        voter_history=VoterHistory(voters or voter_set(1, 2, 3)),
        bootstrap=bootstrap,
        log=log or log_to_10(),
        rng=Random(1),
        state=state or unattached(),
    )
    made.leader_announced = (made.epoch, made.leader_id)
    made.told_role = (made.role, made.epoch)
    made.asked_high_watermark = made.high_watermark
    return made


def done(made: Replica) -> list[Effect]:
    """End the step: what was to be done."""
    return made.outbox.take(NOW.mono_ms)


def only(found: Sequence[Effect], kind: type[T]) -> T:
    """The one effect of this kind."""
    (one,) = [effect for effect in found if isinstance(effect, kind)]
    return one


def kinds(found: Sequence[Effect]) -> list[str]:
    return [type(effect).__name__ for effect in found]


def ask(made: Replica, message: messages.Request, now: types.Instant = NOW) -> list[Effect]:
    """Let a request arrive."""
    on_request(made, RequestReceived(request_id=7, listener=LISTENER, message=message), now)
    return done(made)


def answer(made: Replica, message: messages.Response, *, peer_id: int = 2, now: types.Instant = NOW) -> list[Effect]:
    """Let the answer to a request arrive that was sent to this peer."""
    if not made.connections.is_ready(peer_id):
        made.connections.reset()
    correlation_id = made.connections.sent(peer_id, now.mono_ms)
    endpoint = next((each.endpoint for each in made.bootstrap_peers() if each.id == peer_id), None)
    peer = where_is(made, types.NodeId(peer_id))
    if endpoint is None and peer is not None:
        endpoint = peer.endpoint
    if endpoint is not None:
        made.connections.asked_at[peer_id] = endpoint
    assert made.connections.received(peer_id, correlation_id)
    event = ResponseReceived(peer_id=peer_id, correlation_id=correlation_id, message=message)
    on_response(made, event, now)
    return done(made)


def twice(made: Replica, message: messages.Response, *, peer_id: int = 2) -> list[Effect]:
    """Let an answer arrive that has an effect only when it comes twice; what the second one does."""
    assert answer(made, message, peer_id=peer_id) == []
    return answer(made, message, peer_id=peer_id)


def sent(found: Sequence[Effect]) -> list[tuple[int, str]]:
    """To whom which requests go."""
    return [(one.peer.id, type(one.message).__name__) for one in found if isinstance(one, effects.Send)]
