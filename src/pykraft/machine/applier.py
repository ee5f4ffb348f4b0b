"""The listener of the node that feeds a replica, tells those who wait on this node, and keeps the leader's clock.

Invariants: whoever waits for an answer gets it when this node has applied the command, or when it loaded a snapshot
that contains it. A session numbers each command once, and ``acknowledged`` never passes one that somebody waits for.
After every `PIECE_COMMANDS` commands, or `PIECE_SIZE_BYTES` of them, the loop runs other tasks. The time in the log
goes on from the log's last time, by the monotonic clock, and never goes back while one node leads; after a change of
leader it may be behind the records of the former leader, and `pykraft.machine.replica` takes the larger time.

The log time is never further ahead of the last record than real time. While it matters, a leader writes it at least
every `Applier.tick_interval_ms`. A new leader therefore knows that the former one led for so long after the last
record, or for as long as it has had that record itself, and goes on from there: what a leader counted is not lost.

Source: ours (ADR 068, ADR 086, ADR 180).
"""

import asyncio
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, Final, Generic, TypeAlias, TypeVar

from pykraft.client.leadership import LeaderAndEpoch
from pykraft.client.node import Node
from pykraft.client.reader import Reader, StateReader
from pykraft.errors import BufferFullError, DeserializeError, NotLeaderError
from pykraft.machine.log_skips import wait_skipped
from pykraft.machine.records import encode_commands
from pykraft.machine.replica import (
    SESSION_TIMEOUT_MS,
    WINDOW,
    ClientNews,
    CommandAnswer,
    CommandAnswered,
    MachineReplica,
    SessionOpened,
)
from pykraft.machine.state_check import StateCheck
from pykraft.types import Epoch, Offset

Attempt: TypeAlias = tuple[int, bytes, "asyncio.Future[Any]", float]
"""A command that a caller waits for: number, bytes, the future of its answer, and until when (seconds of the loop)."""


HELD_SPAN: Final = 1_024
"""A command with an unknown outcome can be resumed for so many further ones: replicas keep all answers from it on."""


class ClientSession:
    """One open session."""

    def __init__(self, session_id: int) -> None:
        self.session_id = session_id
        self.waiters: dict[int, asyncio.Future[CommandAnswer]] = {}
        """Who waits for the answer to a command, by its number."""
        self.held: dict[int, None] = {}
        """Commands with an unknown outcome that may be resumed; each is a waiter, too."""
        self._next_sequence = 0
        self._acknowledged = 0
        """Nobody waits for a lower number."""

    def issue(self) -> tuple[int, asyncio.Future[CommandAnswer]]:
        """A number for a new command, and the future of its answer. Errors: BufferFullError."""
        sequence = self._next_sequence
        if self.held and sequence - (oldest := next(iter(self.held))) >= HELD_SPAN:
            self.release(oldest)
        if sequence - self._acknowledged >= WINDOW and sequence - self.acknowledged >= WINDOW:
            raise BufferFullError(f"{WINDOW} commands of this client already wait for their results: execute it later")
        self._next_sequence = sequence + 1
        future = self.waiters[sequence] = asyncio.get_running_loop().create_future()
        return sequence, future

    @property
    def room(self) -> int:
        """How many commands may be issued now."""
        return WINDOW - (self._next_sequence - self.acknowledged)

    def answered(self, sequence: int, answer: CommandAnswer) -> None:
        """This node has applied the command: tell who waits for it."""
        waiter = self.waiters.get(sequence)
        if waiter is not None and not waiter.done():
            waiter.set_result(answer)

    def hold(self, sequence: int) -> None:
        """Its caller may ask for the answer later, so replicas keep it."""
        self.held[sequence] = None

    def release(self, sequence: int) -> None:
        """Nobody asks for this answer any more."""
        del self.held[sequence]
        self.done(sequence)

    def done(self, sequence: int) -> None:
        """Nobody waits for this command any more: it has its answer, or was given up."""
        del self.waiters[sequence]

    @property
    def acknowledged(self) -> int:
        """The lowest number that somebody waits for."""
        sequence, end, waiters = self._acknowledged, self._next_sequence, self.waiters
        while sequence < end and sequence not in waiters:
            sequence += 1
        self._acknowledged = sequence
        return sequence

    def records(self, attempts: Sequence[Attempt], time_ms: int) -> list[bytes]:
        """The records of these commands for the log."""
        sequences, commands, _, _ = zip(*attempts, strict=True)
        return encode_commands(
            sequences, commands, time_ms=time_ms, session_id=self.session_id, acknowledged=self.acknowledged
        )


class LeaderClock:
    """Stands still until `start`, and after `stop`."""

    def __init__(self) -> None:
        self._started: tuple[int, float] | None = None

    @property
    def is_running(self) -> bool:
        """True while this node leads."""
        return self._started is not None

    def start(self, time_ms: int, mono_s: float) -> None:
        """This node leads from now on, and the log's last time is this."""
        self._started = (time_ms, mono_s)

    def stop(self) -> None:
        """This node no longer leads."""
        self._started = None

    def time_ms(self, applied_ms: int, mono_s: float) -> int:
        """The time for the next record, given that of the record that this node applied last."""
        if self._started is None:
            return applied_ms
        time_ms, started_s = self._started
        return max(applied_ms, time_ms + int((mono_s - started_s) * 1_000))


C = TypeVar("C")
R = TypeVar("R")
TICKS_BEFORE_DEADLINE: Final = 4
"""The leader writes the time whenever this share of the time to the machine's deadline has passed without a record."""
TICK_MS_MIN: Final = 1_000
"""It does so at most once in this time, before the deadline."""
PIECE_COMMANDS: Final = 200
"""Commands applied before other tasks of the loop run."""
PIECE_SIZE_BYTES: Final = 1 << 18
"""The same in bytes: a large command may take half a millisecond."""


class Applier(Generic[C, R]):
    """Registered with the node; called on the application's loop. See `pykraft.client.Listener`."""

    def __init__(self, node: Node[bytes], replica: MachineReplica[C, R]) -> None:
        self.replica = replica
        self.clock = LeaderClock()
        self.deadline_ms: int | None = None
        """The log time that the state machine waits for."""
        self.deadline_moved = asyncio.Event()
        """Set when ``deadline_ms`` changed, or whether this node leads."""
        self.versions: dict[asyncio.Future[None], int] = {}
        """Who waits until the nodes agree on a version of the code."""
        self.silence_ms_max = SESSION_TIMEOUT_MS
        """The leader writes the time when the log has been silent for so long, if anybody counts on it."""
        self._applied_s: float | None = None
        """When this node came to apply the last records, by the loop's clock: they had been written before."""
        self.openings: dict[bytes, asyncio.Future[int | None]] = {}
        """Who waits for a session, by nonce; None when there are too many."""
        self.sessions: dict[int, ClientSession] = {}
        """This node's own sessions that somebody waits in, by id."""
        self.replica.watchers = self.sessions
        self.check: StateCheck | None = None
        """Compares this replica with others, if the program wants that."""
        self.held_at: int | None = None
        """The offset of a command before which the machine stands, until it is skipped."""
        self.committed: Callable[[], Awaitable[Offset]]
        """Asks the leader what is committed."""
        self.loading_offset: Offset | None = None
        """End of the snapshot that is being loaded (exclusive): the state is a part of it until then."""
        self.loaded_end_offset = Offset(0)
        """End of the last snapshot that was loaded (exclusive)."""
        self.on_loaded: Callable[[], object] = lambda: None
        self._node = node

    async def handle_commit(self, reader: Reader[bytes]) -> None:
        left, left_bytes = PIECE_COMMANDS, PIECE_SIZE_BYTES
        for batch in reader:
            values, at = batch.records, 0
            if values:  # a new leader's control record has no time
                self._applied_s = asyncio.get_running_loop().time()
            while at < len(values):
                piece = _front(values, at, left, left_bytes)
                begin, at = at, at + await self._apply(piece, batch.base_offset + at, batch.epoch)
                left -= at - begin
                left_bytes -= sum(map(len, values[begin:at]))
                if left <= 0 or left_bytes <= 0:
                    left, left_bytes = PIECE_COMMANDS, PIECE_SIZE_BYTES
                    await asyncio.sleep(0)
        self._look_at_deadline()
        if self.versions:
            self._look_at_version()

    def handle_leader_change(self, leader_and_epoch: LeaderAndEpoch) -> None:
        # A leader hears this when it has applied everything before its epoch, so the log's last time is known.
        if leader_and_epoch.is_leader(self._node.node_id):
            now_s = asyncio.get_running_loop().time()
            had_ms = 0 if self._applied_s is None else int((now_s - self._applied_s) * 1_000)
            # A longer silence was one without a leader.
            self.clock.start(self.replica.time_ms + min(had_ms, self.tick_interval_ms()), now_s)
        else:
            self.clock.stop()
        self.deadline_moved.set()

    def handle_save_snapshot(self) -> Iterable[bytes]:
        return self.replica.save()

    async def handle_load_snapshot(self, reader: StateReader[bytes]) -> None:
        self.loading_offset = reader.snapshot_id.offset
        await self.replica.load(record async for batch in reader for record in batch.records)
        self.loading_offset = None
        self._applied_s = asyncio.get_running_loop().time()
        if self.check is not None:
            self.check.loaded()
        self._look_at_deadline()
        if self.versions:
            self._look_at_version()
        commands = [(at, sequence) for at, session in self.sessions.items() for sequence in session.waiters]
        for news in self.replica.kept_news(self.openings, commands):
            self._notify(news)
        self.loaded_end_offset = reader.snapshot_id.offset
        self.on_loaded()

    def time_ms(self) -> int:
        """The log time for a record that this node writes now."""
        return self.clock.time_ms(self.replica.time_ms, asyncio.get_running_loop().time())

    def leader_time_ms(self) -> int:
        """The same for commands, which only a leader writes.

        Errors: NotLeaderError while this node has not applied what came before its epoch. It does not know the log's
        time yet: a lease that began at an older one would end early.
        """
        if not self.clock.is_running:
            known = self._node.leader_and_epoch
            raise NotLeaderError(known.leader_id, known.epoch)
        return self.time_ms()

    def tick_interval_ms(self) -> int:
        """How long a leader leaves the log without a record, while anybody counts on its time."""
        deadline_ms = self.replica.machine.deadline_ms()
        if deadline_ms is None:
            return self.silence_ms_max
        left_ms = deadline_ms - self.replica.time_ms
        return min(self.silence_ms_max, max(TICK_MS_MIN, left_ms // TICKS_BEFORE_DEADLINE))

    async def _apply(self, values: Sequence[bytes], base_offset: int, epoch: Epoch) -> int:
        try:
            count = self.replica.apply_commands(values, base_offset, epoch)
        except DeserializeError as error:
            # Those before it are applied; the next call begins with it.
            await self._pass_over(error)
            return error.offset - base_offset
        if count:
            return count
        news = self.replica.apply(values[0], Offset(base_offset), epoch)
        if isinstance(news, (CommandAnswered, SessionOpened)):
            self._notify(news)
        elif news is not None and self.check is not None:
            await self.check.met(news, base_offset)
        return 1

    async def _pass_over(self, error: DeserializeError) -> None:
        """Return when this command is skipped. Errors: the given one."""
        self.held_at = error.offset
        await wait_skipped(self._node, error, self.committed)
        self.replica.skips[error.offset] = False
        self.held_at = None

    def _look_at_version(self) -> None:
        agreed = self.replica.code_version
        for waiter in [waiter for waiter, version in self.versions.items() if version <= agreed]:
            del self.versions[waiter]
            if not waiter.done():
                waiter.set_result(None)

    def _look_at_deadline(self) -> None:
        deadline_ms = self.replica.machine.deadline_ms()
        if deadline_ms != self.deadline_ms:
            self.deadline_ms = deadline_ms
            self.deadline_moved.set()

    def _notify(self, news: ClientNews) -> None:
        if isinstance(news, SessionOpened):
            opening = self.openings.get(news.nonce)
            # The first copy that is applied counts: a later one has opened another session, which nobody uses.
            if opening is not None and not opening.done():
                opening.set_result(news.session_id)
        else:
            session = self.sessions.get(news.session_id)
            if session is not None:
                session.answered(news.sequence, news.answer)


def _front(values: Sequence[bytes], at: int, count_max: int, size_bytes_max: int) -> Sequence[bytes]:
    """The records from this place on, up to the first with which they are so many, or so many bytes."""
    front = values[at : at + count_max]
    if sum(map(len, front)) < size_bytes_max:
        return front
    ends = [*accumulate(map(len, front))]
    return front[: bisect_left(ends, size_bytes_max) + 1]
