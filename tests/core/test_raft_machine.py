"""One replica against a world of liars: any message in any order, a disk that lags, crashes, clocks that jump.

What must hold whatever others send: no exception, the epoch never goes back, nothing is said of an epoch that is not
on disk, one vote in an epoch however often it restarts, and no deadline that is over and changes nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pykraft.config import RaftConfig
from pykraft.core import effects, events, messages
from pykraft.core.effects import Effect
from pykraft.core.log_view import LogView
from pykraft.core.messages import FetchedBatch
from pykraft.core.raft import Raft
from pykraft.core.replica import LocalReplica
from pykraft.errors import ErrorCode
from pykraft.types import (
    EPOCH_MAX,
    Election,
    Endpoint,
    Epoch,
    EpochStart,
    Instant,
    Io,
    NodeId,
    Offset,
    ReplicaKey,
)
from tests.core.replicas import LISTENER, directory, key, listeners, voter_set
from tests.core.said import batch, begin, begun, end, ended, fetch, fetch_snapshot, fetched, update_voter, vote, voted

ODD_EPOCHS = (-1, EPOCH_MAX, EPOCH_MAX + 1)
EPOCHS = st.integers(0, 60).map(lambda number: number % 10 if number < 58 else ODD_EPOCHS[number - 58])
IDS = st.integers(-1, 5)
SOMEBODY = st.one_of(st.none(), st.integers(0, 5))
OFFSETS = st.one_of(st.integers(0, 12), st.sampled_from([-1, 2**63 - 1]))
PLACES = st.tuples(OFFSETS, EPOCHS)
TOLD = st.one_of(
    st.just(listeners(0)).map(lambda none: dataclasses.replace(none, entries=())),
    IDS.map(lambda at: listeners(abs(at))),
)
ERRORS = st.one_of(st.just(0), st.just(0), st.sampled_from(sorted(ErrorCode)))
VOTERS = st.one_of(st.none(), st.just(key(1)), st.just(ReplicaKey(NodeId(1), directory(9))))

REQUESTS = st.one_of(
    st.builds(vote, epoch=EPOCHS, candidate=IDS, end=PLACES, pre_vote=st.booleans(), voter=VOTERS),
    st.builds(begin, epoch=EPOCHS, leader_id=IDS.filter(lambda at: at >= 0), voter=VOTERS, told=TOLD),
    st.builds(end, epoch=EPOCHS, leader_id=IDS, successors=st.lists(st.integers(0, 5), max_size=4), told=TOLD),
    st.builds(fetch, replica=SOMEBODY, epoch=EPOCHS, at=PLACES, wait_ms=st.integers(-1, 600)),
    st.builds(fetch_snapshot, replica=SOMEBODY, epoch=EPOCHS),
    st.builds(update_voter, epoch=EPOCHS),
    st.just(messages.DescribeQuorumRequest()),
)
BATCHES = st.lists(
    st.tuples(st.integers(0, 12), st.integers(1, 3), st.integers(-1, 9)).map(
        lambda numbers: batch(numbers[0], numbers[0] + numbers[1], numbers[2])
    ),
    max_size=3,
)
RESPONSES = st.one_of(
    st.builds(voted, granted=st.booleans(), epoch=EPOCHS, leader_id=SOMEBODY, error=ERRORS, told=TOLD),
    st.builds(begun, epoch=EPOCHS, leader_id=SOMEBODY, error=ERRORS),
    st.builds(ended, epoch=EPOCHS, leader_id=SOMEBODY, error=ERRORS),
    st.builds(
        lambda batches, **fields: fetched(*batches, **fields),
        BATCHES,
        epoch=EPOCHS,
        leader_id=SOMEBODY,
        error=ERRORS,
        high_watermark=st.one_of(st.none(), st.integers(0, 12)),
        diverging=st.one_of(st.none(), st.none(), PLACES),
        told=TOLD,
    ),
    st.builds(messages.TopLevelError, error=ERRORS),
)


@dataclasses.dataclass(frozen=True)
class Disk:
    """What survives: the election, and the epoch of each record."""

    election: Election | None = None
    records: tuple[int, ...] = ()


class OneReplica(RuleBasedStateMachine):
    """Node 1 of three; everything else is made up."""

    @initialize(voters=st.sampled_from([(1,), (1, 2), (1, 2, 3), (2, 3)]), has_id=st.booleans(), zero=st.booleans())
    def begin(self, voters: tuple[int, ...], has_id: bool, zero: bool) -> None:
        self.voters = voter_set(*voters)
        self.local_id = NodeId(1) if has_id or 1 in voters else None
        self.config = RaftConfig(append_linger_ms=0 if zero else 25, election_timeout_ms=0 if zero else 1_000)
        self.now_ms = 0
        self.io_before = 0
        self.votes: dict[int, ReplicaKey] = {}
        self.memory = self.disk = Disk()
        self.epoch_on_disk = 0
        self.start()

    def start(self) -> None:
        self.memory = self.disk
        self.jobs: list[tuple[int, Disk]] = []
        self.held: list[tuple[int, Callable[[], None]]] = []
        self.durable = 0
        self.asked: list[tuple[int, int]] = []
        self.given: tuple[FetchedBatch, ...] = ()
        self.is_dead = False
        records = self.disk.records
        starts = [
            EpochStart(epoch=Epoch(epoch), start_offset=Offset(records.index(epoch))) for epoch in sorted(set(records))
        ]
        self.raft = Raft(
            config=self.config,
            local=LocalReplica(
                id=self.local_id, directory_id=directory(1), listeners=listeners(1), default_listener=LISTENER
            ),
            voters=self.voters,
            bootstrap=(Endpoint("b", 1),),
            election=self.disk.election,
            log=LogView(start_offset=Offset(0), end_offset=Offset(len(records)), epochs=starts),
            rng=Random(1),
            now=self.now,
        )
        assert self.raft.epoch >= self.epoch_on_disk
        self.carry_out(self.raft.start(self.now))

    @property
    def now(self) -> Instant:
        return Instant(mono_ms=self.now_ms, wall_ms=self.now_ms)

    def step(self, event: events.Event) -> None:
        if self.is_dead:
            return
        before = self.raft.epoch
        self.carry_out(self.raft.step(event, self.now))
        assert self.raft.epoch >= before

    def carry_out(self, found: list[Effect]) -> None:
        for effect in found:
            match effect:
                case effects.WriteElectionState():
                    self.job(effect.io, dataclasses.replace(self.memory, election=effect.election))
                case effects.AppendBatches():
                    added = [int(one.epoch) for one in effect.batches for _ in range(one.base_offset, one.end_offset)]
                    self.job(effect.io, dataclasses.replace(self.memory, records=(*self.memory.records, *added)))
                case effects.AppendFetched():
                    taken = self.given[: effect.count]
                    added = [int(one.epoch) for one in taken for _ in range(one.base_offset, one.end_offset)]
                    self.job(effect.io, dataclasses.replace(self.memory, records=(*self.memory.records, *added)))
                case effects.TruncateTo():
                    kept = self.memory.records[: effect.end_offset]
                    self.job(effect.io, dataclasses.replace(self.memory, records=kept))
                case effects.Send():
                    self.asked = [(peer, number) for peer, number in self.asked if peer != effect.peer.id]
                    self.asked.append((effect.peer.id, effect.correlation_id))
                    self.hold(effect.after, effect.message)
                case effects.Reply() | effects.ReplyFetch():
                    self.hold(effect.after, effect.message)
                case effects.Fatal():
                    self.is_dead = True
                case _:
                    pass
        self.release()

    def job(self, io: Io, result: Disk) -> None:
        assert io > max([self.durable, *(number for number, _ in self.jobs)]), "storage numbers rise"
        self.jobs.append((io, result))
        self.memory = result

    def hold(self, after: Io, message: messages.Request | messages.Response) -> None:
        self.held.append((after, lambda: self.speak(message)))

    def release(self) -> None:
        ready = [speak for after, speak in self.held if after <= self.durable]
        self.held = [(after, speak) for after, speak in self.held if after > self.durable]
        for speak in ready:
            speak()

    def speak(self, message: messages.Request | messages.Response) -> None:
        """The message leaves: what it says must be on disk."""
        epoch = getattr(message, "epoch", None) or 0
        assert self.disk.election is not None
        assert epoch <= self.disk.election.epoch, message
        if isinstance(message, messages.VoteRequest) and not message.pre_vote:
            assert self.votes.setdefault(epoch, message.candidate) == message.candidate, "it voted for another"

    @rule(request=REQUESTS)
    def ask(self, request: messages.Request) -> None:
        if isinstance(request, messages.VoteRequest) and not request.pre_vote and not self.is_dead:
            self.ask_for_vote(request)
        else:
            self.step(events.RequestReceived(request_id=1, listener=LISTENER, message=request))

    def ask_for_vote(self, request: messages.VoteRequest) -> None:
        found = self.raft.step(events.RequestReceived(request_id=1, listener=LISTENER, message=request), self.now)
        for effect in found:
            if isinstance(effect, effects.Reply) and isinstance(effect.message, messages.VoteResponse):
                self.held.append((effect.after, self.granted(request) if effect.message.vote_granted else lambda: None))
        self.carry_out(found)

    def granted(self, request: messages.VoteRequest) -> Callable[[], None]:
        def note() -> None:
            assert self.votes.setdefault(request.epoch, request.candidate) == request.candidate, "it votes twice"

        return note

    @precondition(lambda self: self.asked)
    @rule(response=RESPONSES, at=st.integers(0, 9))
    def answer(self, response: messages.Response, at: int) -> None:
        peer_id, correlation_id = self.asked.pop(at % len(self.asked))
        if isinstance(response, messages.FetchResponse):
            self.given = response.batches
        self.step(events.ResponseReceived(peer_id=peer_id, correlation_id=correlation_id, message=response))

    @precondition(lambda self: self.asked)
    @rule(error=st.sampled_from([8, 35]), at=st.integers(0, 9))
    def fail(self, error: int, at: int) -> None:
        peer_id, correlation_id = self.asked.pop(at % len(self.asked))
        self.step(events.SendFailed(peer_id=peer_id, correlation_id=correlation_id, error=error))

    @precondition(lambda self: self.asked)
    @rule()
    def grant_all(self) -> None:
        """Without this nobody ever led."""
        self.flush(count=99)
        for peer_id, correlation_id in list(self.asked):
            epoch = max(0, self.raft.epoch)
            self.step(
                events.ResponseReceived(
                    peer_id=peer_id, correlation_id=correlation_id, message=voted(epoch=epoch, leader_id=None)
                )
            )

    @rule(count=st.integers(1, 4))
    def flush(self, count: int) -> None:
        done, self.jobs = self.jobs[:count], self.jobs[count:]
        if done and not self.is_dead:
            self.durable, self.disk = done[-1]
            assert self.disk.election is None or self.disk.election.epoch >= self.epoch_on_disk
            self.epoch_on_disk = self.disk.election.epoch if self.disk.election else 0
            self.release()
            self.step(events.Persisted(io=Io(self.durable)))

    @rule(ms=st.one_of(st.integers(0, 50), st.integers(0, 4_000)))
    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.step(events.TimerDue())

    @rule()
    def wait_for_deadline(self) -> None:
        self.now_ms = max(self.now_ms, self.raft.next_deadline_ms() or 0)
        self.step(events.TimerDue())

    @rule(count=st.integers(0, 3), size_bytes=st.sampled_from([1, 9_000_000]))
    def propose(self, count: int, size_bytes: int) -> None:
        self.step(events.Proposed(handle=1, epoch=self.raft.epoch, count=count, size_bytes=size_bytes))

    @rule()
    def resign(self) -> None:
        self.step(events.ResignRequested(epoch=self.raft.epoch))

    @rule()
    def crash(self) -> None:
        self.start()

    @rule(timeout_ms=st.integers(0, 5_000))
    def shut_down(self, timeout_ms: int) -> None:
        self.step(events.ShutdownRequested(timeout_ms=timeout_ms))

    @invariant()
    def the_log_is_what_was_stored(self) -> None:
        if not hasattr(self, "raft"):
            return
        log = self.raft.log
        assert log.end_offset == len(self.memory.records)
        assert list(self.memory.records) == sorted(self.memory.records)
        assert (self.raft.high_watermark or 0) <= log.end_offset
        assert log.flushed_end_offset <= log.end_offset

    @invariant()
    def no_deadline_is_over(self) -> None:
        if hasattr(self, "raft") and not self.is_dead:
            deadline_ms = self.raft.next_deadline_ms()
            assert deadline_ms is None or deadline_ms > self.now_ms


TestOneReplica = OneReplica.TestCase
