"""One replica among peers that send anything in any order, with a lagging disk, crashes and clock jumps.

What must hold whatever others send: no exception, the epoch never goes back, nothing is said of an epoch that is not
on disk, one vote in an epoch however often it restarts, and no deadline that is over and changes nothing. One seed
decides a whole life; half of what it brings is nearly right, so that lives get somewhere.

Source: Raft paper §5.1 (epochs never go back), §5.2 (one vote an epoch); KIP-595 §Vote.
"""

import dataclasses
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft import types
from pykraft.config import RaftConfig
from pykraft.core import effects, events, messages
from pykraft.core.effects import Effect
from pykraft.core.log_view import LogView
from pykraft.core.messages import FetchedBatch
from pykraft.core.raft import Raft
from pykraft.core.replica import LocalReplica
from pykraft.core.voter_history import VoterHistory
from pykraft.errors import ErrorCode
from tests.core.replicas import LISTENER, directory, key, listeners, voter_set
from tests.core.said import batch, begin, begun, end, ended, fetch, fetch_snapshot, fetched, update_voter, vote, voted

STEPS = 300


class Liar:
    """Makes up messages; knows the replica well enough to be right now and then."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.download_epoch = types.Epoch(0)

    def epoch(self, near: int) -> int:
        if self.rng.random() < 0.002:
            return self.rng.choice((-1, types.EPOCH_MAX, types.EPOCH_MAX + 1))
        return max(0, near + self.rng.choice((-2, -1, 0, 0, 0, 0, 0, 0, 0, 1)))

    def place(self, log: LogView) -> tuple[int, int]:
        if self.rng.random() < 0.5:
            return log.end_offset, log.last_epoch
        return self.rng.choice((-1, 2**63 - 1, *range(12))), self.epoch(log.last_epoch)

    def any_listeners(self) -> types.Listeners:
        return self.rng.choice((types.NO_LISTENERS, *(listeners(node_id) for node_id in range(4))))

    def voter(self) -> types.ReplicaKey | None:
        return self.rng.choice((None, None, key(1), types.ReplicaKey(types.NodeId(1), directory(9))))

    def request(self, raft: Raft) -> messages.Request:
        rng, epoch = self.rng, self.epoch(raft.status.epoch)
        somebody = rng.randrange(6)
        match rng.randrange(9):
            case 0 | 1:
                return vote(
                    epoch=epoch,
                    candidate=rng.randint(-1, 5),
                    end=self.place(raft.log),
                    pre_vote=rng.random() < 0.4,
                    voter=self.voter(),
                )
            case 2:
                return begin(epoch=epoch, leader_id=somebody, voter=self.voter(), told=self.any_listeners())
            case 3:
                successors = rng.sample(range(6), rng.randrange(4))
                return end(epoch=epoch, leader_id=somebody, successors=successors, told=self.any_listeners())
            case 4 | 5:
                place = self.place(raft.log)
                return fetch(replica=rng.choice((None, somebody)), epoch=epoch, at=place, wait_ms=rng.randint(-1, 600))
            case 6:
                return fetch_snapshot(replica=rng.choice((None, somebody)), epoch=epoch)
            case 7:
                return update_voter(epoch=epoch)
            case _:
                return messages.DescribeQuorumRequest()

    def response(self, raft: Raft, request: messages.Request) -> messages.Response:
        rng, epoch = self.rng, self.epoch(raft.status.epoch)
        leader_id = rng.choice((raft.status.leader_id, raft.status.leader_id, None, rng.randrange(6)))
        error = rng.choice(list(ErrorCode)) if rng.random() < 0.2 else 0
        if rng.random() < 0.1:
            return messages.TopLevelError(error=error)
        match request:
            case messages.VoteRequest():
                granted = rng.random() < 0.7
                return voted(granted=granted, epoch=epoch, leader_id=leader_id, error=error, told=self.any_listeners())
            case messages.BeginQuorumEpochRequest():
                return begun(epoch=epoch, leader_id=leader_id, error=error)
            case messages.EndQuorumEpochRequest():
                return ended(epoch=epoch, leader_id=leader_id, error=error)
            case messages.FetchSnapshotRequest():
                return messages.FetchSnapshotResponse(
                    error=error,
                    epoch=rng.choice((None, types.Epoch(epoch), types.Epoch(epoch), types.Epoch(epoch))),
                    leader_id=None if leader_id is None else types.NodeId(leader_id),
                    snapshot_id=request.snapshot_id,
                    size_bytes=10,
                    position=request.position + rng.choice((0, 0, 0, 0, 1)),
                    received_bytes=rng.randrange(11),
                )
            case _:
                return fetched(
                    *self.batches(raft),
                    epoch=epoch,
                    leader_id=leader_id,
                    error=error,
                    high_watermark=rng.choice((None, rng.randrange(12))),
                    diverging=self.place(raft.log) if rng.random() < 0.2 else None,
                    snapshot=self.snapshot(raft.log) if rng.random() < 0.1 else None,
                    invalid="bytes" if rng.random() < 0.1 else None,
                    told=self.any_listeners(),
                )

    def snapshot(self, log: LogView) -> tuple[int, int]:
        return log.end_offset + self.rng.choice((-1, 0, 0, 1, 2)), self.epoch(log.last_epoch + 1)

    def download(self, effect: effects.BeginDownload | effects.AppendDownload) -> events.Event:
        """What the bulk lane makes of it."""
        if self.rng.random() < 0.1:
            return events.DownloadFailed(snapshot_id=effect.snapshot_id, reason="damaged")
        if isinstance(effect, effects.BeginDownload):
            self.download_epoch = effect.leader_epoch
            return self.advanced(effect.snapshot_id, self.rng.choice((0, 0, 5)))
        if effect.is_last:
            return events.SnapshotFrozen(snapshot_id=effect.snapshot_id)
        return self.advanced(effect.snapshot_id, effect.position + 1)

    def advanced(self, snapshot_id: types.OffsetAndEpoch, position: int) -> events.Event:
        return events.DownloadAdvanced(snapshot_id=snapshot_id, leader_epoch=self.download_epoch, position=position)

    def batches(self, raft: Raft) -> list[FetchedBatch]:
        rng = self.rng
        made, base, epoch = [], int(raft.log.end_offset), int(raft.log.last_epoch)
        for _ in range(rng.randrange(4)):
            base += rng.choice((-1, 0, 0, 0, 0, 0, 0, 1))
            epoch += rng.choice((-1, 0, 0, 0, 0, 1))
            made.append(batch(max(0, base), max(0, base) + rng.randint(1, 3), epoch))
            base = int(made[-1].end_offset)
        return made


@dataclasses.dataclass(frozen=True)
class Disk:
    """What survives: the election, and the epoch of each record."""

    election: types.Election | None = None
    records: tuple[int, ...] = ()


class Life:
    """Node 1, or an observer without id, from its first start through crashes; everything else is made up."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.liar = Liar(self.rng)
        voters = self.rng.choice(((1,), (1, 2), (1, 2, 3), (1, 2, 3), (2, 3)))
        self.voters = voter_set(*voters)
        self.local_id = types.NodeId(1) if 1 in voters or self.rng.random() < 0.5 else None
        is_hasty = self.rng.random() < 0.2
        self.config = RaftConfig(
            append_linger_ms=0 if is_hasty else 25,
            election_timeout_ms=0 if is_hasty else 1_000,
            leader_send_flushed_only=self.rng.random() < 0.2,
        )
        self.now_ms = 0
        self.votes: dict[int, types.ReplicaKey] = {}
        self.disk = Disk()
        self.epoch_on_disk = 0
        self.roles: set[str] = set()
        self.start()

    def start(self) -> None:
        self.memory = self.disk
        self.jobs: list[tuple[int, Disk]] = []
        self.held: list[tuple[int, Callable[[], None]]] = []
        self.durable = 0
        self.asked: dict[int, effects.Send] = {}
        self.given: tuple[FetchedBatch, ...] = ()
        self.bulk: list[events.Event] = []
        records = self.disk.records
        starts = [
            types.EpochStart(epoch=types.Epoch(epoch), start_offset=types.Offset(records.index(epoch)))
            for epoch in sorted(set(records))
        ]
        self.raft = Raft(
            config=self.config,
            local=LocalReplica(
                id=self.local_id, directory_id=directory(1), listeners=listeners(1), default_listener=LISTENER
            ),
            voter_history=VoterHistory(self.voters),
            bootstrap=(types.Endpoint("b", 1),),
            election=self.disk.election,
            log=LogView(start_offset=types.Offset(0), end_offset=types.Offset(len(records)), epochs=starts),
            rng=Random(1),
            now=self.now,
        )
        assert self.raft.status.epoch >= self.epoch_on_disk
        self.carry_out(self.raft.start(self.now))

    @property
    def now(self) -> types.Instant:
        return types.Instant(mono_ms=self.now_ms, wall_ms=self.now_ms)

    def step(self, event: events.Event) -> None:
        before = self.raft.status.epoch
        self.carry_out(self.raft.step(event, self.now))
        assert self.raft.status.epoch >= before

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
                case effects.InstallSnapshot(snapshot_id=snapshot_id):
                    held = (int(snapshot_id.epoch),) * snapshot_id.offset
                    self.job(effect.io, dataclasses.replace(self.memory, records=held))
                case effects.BeginDownload() | effects.AppendDownload():
                    self.bulk.append(self.liar.download(effect))
                case effects.Send():
                    self.asked[effect.peer.id] = effect
                    self.hold(effect.after, effect.message)
                case effects.Reply() | effects.ReplyFetch() | effects.ReplySnapshot():
                    self.hold(effect.after, effect.message)
                case _:
                    pass
        self.release()

    def job(self, io: types.Io, result: Disk) -> None:
        assert io > max([self.durable, *(number for number, _ in self.jobs)]), "storage numbers rise"
        self.jobs.append((io, result))
        self.memory = result

    def hold(self, after: types.Io, message: messages.Request | messages.Response) -> None:
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
            self.vote_for(message)

    def live(self) -> None:
        """One thing happens, then everything is looked at."""
        deeds: tuple[tuple[int, Callable[[], None]], ...] = (
            (30, self.ask),
            (40, self.answer),
            (4, self.fail),
            (30, self.flush),
            (12, self.wait),
            (8, self.propose),
            (10, self.do_bulk),
            (1, lambda: self.step(events.ResignRequested(epoch=self.raft.status.epoch))),
            (2, self.start),
            (1, lambda: self.step(events.ShutdownRequested(timeout_ms=self.rng.randrange(5_000)))),
        )
        weights, choices = zip(*deeds, strict=True)
        self.rng.choices(choices, weights)[0]()
        self.check()

    def ask(self) -> None:
        request = self.liar.request(self.raft)
        found = self.raft.step(events.RequestReceived(request_id=1, listener=LISTENER, message=request), self.now)
        if isinstance(request, messages.VoteRequest) and not request.pre_vote:
            grants = [
                effect
                for effect in found
                if isinstance(effect, effects.Reply)
                and isinstance(effect.message, messages.VoteResponse)
                and effect.message.vote_granted
            ]
            self.held += [(effect.after, lambda: self.vote_for(request)) for effect in grants]
        self.carry_out(found)

    def vote_for(self, request: messages.VoteRequest) -> None:
        """A vote leaves: its own when it asks for others', or another's."""
        assert self.votes.setdefault(request.epoch, request.candidate) == request.candidate, "two votes in an epoch"

    def answer(self) -> None:
        if not self.asked:
            return
        peer_id = self.rng.choice(sorted(self.asked))
        asked = self.asked.pop(peer_id)
        response = self.liar.response(self.raft, asked.message)
        if isinstance(response, messages.FetchResponse):
            self.given = response.batches
        self.step(events.ResponseReceived(peer_id=peer_id, correlation_id=asked.correlation_id, message=response))

    def fail(self) -> None:
        if self.asked:
            peer_id = self.rng.choice(sorted(self.asked))
            error = self.rng.choice((ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.UNSUPPORTED_VERSION))
            correlation_id = self.asked.pop(peer_id).correlation_id
            self.step(events.SendFailed(peer_id=peer_id, correlation_id=correlation_id, error=error))

    def flush(self) -> None:
        count = self.rng.randint(1, 4)
        done, self.jobs = self.jobs[:count], self.jobs[count:]
        if done:
            self.durable, self.disk = done[-1]
            assert self.disk.election is not None
            assert self.disk.election.epoch >= self.epoch_on_disk, "the epoch on disk never decreases"
            self.epoch_on_disk = self.disk.election.epoch
            self.release()
            self.step(events.Persisted(io=types.Io(self.durable)))

    def do_bulk(self) -> None:
        if self.bulk:
            self.step(self.bulk.pop(0))

    def wait(self) -> None:
        until_ms = self.raft.next_deadline_ms()
        if until_ms is None or self.rng.random() < 0.5:
            until_ms = self.now_ms + self.rng.choice((0, 1, 20, 600, 4_000))
        self.now_ms = max(self.now_ms, until_ms)
        self.step(events.TimerDue())

    def propose(self) -> None:
        count, size_bytes = self.rng.randrange(3), self.rng.choice((1, 1, 9_000_000))
        self.step(events.Proposed(handle=1, epoch=self.raft.status.epoch, count=count, size_bytes=size_bytes))

    def check(self) -> None:
        log = self.raft.log
        self.roles.add(self.raft.status.role)
        assert log.end_offset == len(self.memory.records)
        assert list(self.memory.records) == sorted(self.memory.records), "epochs never go backwards in a log"
        assert (self.raft.status.high_watermark or 0) <= log.end_offset
        assert log.flushed_end_offset <= log.end_offset
        deadline_ms = self.raft.next_deadline_ms()
        assert deadline_ms is None or deadline_ms > self.now_ms, "it would be woken in vain"


@given(st.integers(0, 2**32))
def test_whatever_the_others_say(seed: int) -> None:
    life = Life(seed)
    for _ in range(STEPS):
        life.live()


def test_lives_get_somewhere() -> None:
    """Else the test above shows nothing."""
    roles: set[str] = set()
    appended = 0
    for seed in range(30):
        life = Life(seed)
        for _ in range(STEPS):
            life.live()
        roles |= life.roles
        appended += len(life.disk.records)
    assert {"leader", "follower", "candidate", "resigned", "observer", "prospective-voted", "unattached"} <= roles
    assert appended > 100


@pytest.mark.parametrize("seed", [1, 2])
def test_a_seed_decides_everything(seed: int) -> None:
    lives = [Life(seed), Life(seed)]
    for _ in range(STEPS):
        for life in lives:
            life.live()
    assert lives[0].disk == lives[1].disk
    assert lives[0].votes == lives[1].votes
