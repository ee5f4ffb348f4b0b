"""Brings commands into the log, with retries, until their answer is known or their time is over.

Commands of callers that run in the same turn of the loop, or while requests to the leader are under way, make a group:
it is sent as one batch, and tried again as one.
Invariant: ``copies`` of a group counts how often its records are or may be in the log. Only an error that says that
they certainly are not takes that off again. So when the time is over, a command without copies was certainly not
applied.

1. The node opens a session with the first command, and a new one when the log says that it has ended.
2. Each command gets a number in the session, and all its copies have that number.
3. Copies are sent to the leader. When they may be in the log, the answers come from this node's own replica, as soon as
   it applies the commands.
4. If no answer came, other copies follow after a pause: to another leader, perhaps.

Source: Raft dissertation §6.3; ours (ADR 068).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from math import inf
from typing import Any, Final, Generic, TypeVar

from pykraft import errors
from pykraft.client.node import Node
from pykraft.client.proposals import twin
from pykraft.core.status import Status
from pykraft.host.leaderless import own_problem
from pykraft.machine.applier import HELD_SPAN, Applier, Attempt, ClientSession
from pykraft.machine.forwarder import BATCH_SIZE_BYTES_MAX, RECORD_OVERHEAD_BYTES, Forwarder
from pykraft.machine.records import COMMAND_OVERHEAD_BYTES, NONCE_SIZE_BYTES, OpenRecord, encode_log_record
from pykraft.machine.replica import REFUSED, WINDOW, CommandAnswer
from pykraft.types import Offset

C = TypeVar("C")
R = TypeVar("R")
PAUSE_S_MIN: Final = 0.01
PAUSE_S_MAX: Final = 0.25
"""Pauses between two copies of a record; each is twice as long as the one before."""
OPENING_LOST: Final = -1
"""In place of a session's id: see `Submission._check_opening`."""
ALARM_PAUSE_S: Final = 0.01
"""Least time between two alarms, by which a timeout may be late."""
RUNG_MAX: Final = 500
"""Callers whose time is over that get their answers in one turn of the loop."""


class Submission(Generic[C, R]):
    """The commands of one node."""

    def __init__(
        self, node: Node[bytes], applier: Applier[C, R], forwarder: Forwarder, random_bytes: Callable[[int], bytes]
    ) -> None:
        self.group_size_bytes_max = BATCH_SIZE_BYTES_MAX
        """A group is one batch of the log and fits into a request to the leader; a larger command is alone."""
        self._node = node
        self._forwarder = forwarder
        self._random_bytes = random_bytes
        self._applier = applier
        applier.on_loaded = self._check_opening
        self._session: ClientSession | None = None
        self._opening: asyncio.Task[ClientSession] | None = None
        self._newcomers: dict[asyncio.Future[ClientSession], float] = {}
        """Callers that wait for it, and until when (seconds of the loop)."""
        self._crowd: dict[asyncio.Future[None], float] = {}
        """Callers that wait for room in the session, in their order, and until when."""
        self._problem: asyncio.Task[str] | None = None
        self._hindrance: str | None = None
        """Why no session opens, once that is asked: for those whose time is over now."""
        self._opening_group: _CommandGroup | None = None
        """The record that opens it."""
        self._group: _CommandGroup | None = None
        """What callers execute until it is sent."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._groups: dict[_CommandGroup, None] = {}
        """Groups with commands that somebody waits for, in their order."""
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_s = inf
        """When the first of those commands has waited long enough, or earlier; then the alarm rings."""

    async def execute(self, command: bytes, begun_s: float, timeout_ms: int) -> CommandAnswer:
        """Bring this command into the log and wait for its answer, from ``begun_s`` (seconds of the loop) on.

        Errors: UsageError for what this node's machine refuses where it leads; NotAppliedError, BufferFullError,
        NotRunningError, OutcomeUnknownError.
        """
        deadline_s = begun_s + timeout_ms / 1_000
        while True:
            # 1. The first command opens a session, and so does the first after its end.
            # All waits are here and in no call: an outage has thousands who wait, and Python's collector stops the loop
            # for each frame of theirs.
            session = self._session
            if session is None:
                newcomer = self._newcomer(deadline_s)
                try:
                    session = await newcomer
                except TimeoutError as error:
                    raise _not_applied(f"no answer within {timeout_ms} ms{error}") from None
                except errors.RefusedError as error:
                    raise _not_applied(str(error)) from error
                finally:
                    self._newcomers.pop(newcomer, None)
            group = self._group_for(session, command)
            if group.is_local:  # so that a command that is refused concerns its caller alone
                try:
                    self._applier.replica.read_ahead((command,))
                except errors.UsageError:
                    self._let_in(1)  # it does not use its room
                    raise
            # 2. All copies have this number.
            try:
                sequence, future = session.issue()
            except errors.BufferFullError:
                place = self._place(deadline_s)
                try:
                    await place
                except BaseException as error:
                    self._give_up(place, error, timeout_ms)
                    raise
                continue
            attempt = sequence, command, future, deadline_s
            self._join(group, attempt)
            try:
                answer: CommandAnswer = await future
            except (TimeoutError, errors.PykraftError) as error:
                failure = self._failure(session, group, attempt, error, timeout_ms)
                raise failure from failure.__cause__
            finally:
                self._left(session, group, sequence)
            if answer.verdict is not REFUSED:
                return answer
            # The session has ended, or another client's copy of us filled it: use it no more.
            self._leave(session)
            if group.copies > 1:
                text = f"{answer.value.decode()}; an earlier copy of the command may have been applied"
                raise errors.OutcomeUnknownError(text)

    async def resume(self, unfinished: errors.UnfinishedCommand, begun_s: float, timeout_ms: int) -> CommandAnswer:
        """Bring another copy of this command into the log, which is applied only if no earlier one was.

        Errors: UsageError while another call resumes it; NotRunningError; OutcomeUnknownError.
        """
        deadline_s = begun_s + timeout_ms / 1_000
        session_id, sequence, command = unfinished
        session = self._applier.sessions.get(session_id)
        is_own = session is not None and session is self._session
        if session is None:
            session = self._applier.sessions[session_id] = ClientSession(session_id)
        waiter = session.waiters.get(sequence)
        if waiter is not None and not waiter.done():
            raise errors.UsageError("another call waits for the answer to this command")
        if is_own and waiter is None:
            raise errors.OutcomeUnknownError(f"the answer is kept no more: there were {HELD_SPAN} newer commands")
        future = session.waiters[sequence] = asyncio.get_running_loop().create_future()
        group = _CommandGroup(session.records, session)
        self._begin(group)
        attempt = sequence, command, future, deadline_s
        self._join(group, attempt)
        try:
            answer: CommandAnswer = await future
            session.held.pop(sequence, None)
        except (TimeoutError, errors.PykraftError) as error:
            failure = self._failure(session, group, attempt, error, timeout_ms)
            if isinstance(failure, errors.NotAppliedError):  # not this copy, but perhaps an earlier one
                unknown = errors.OutcomeUnknownError(str(failure))
                unknown.command = unfinished
                raise unknown from failure
            raise failure from failure.__cause__
        finally:
            self._left(session, group, sequence)
        if answer.verdict is REFUSED:
            raise errors.OutcomeUnknownError(f"{answer.value.decode()}; the command may have been applied before")
        return answer

    def _failure(
        self, session: ClientSession, group: _CommandGroup, attempt: Attempt, error: Exception, timeout_ms: int
    ) -> Exception:
        """What the caller of this attempt gets; a command whose outcome is unknown is held for `resume`."""
        failure = group.failure(error, timeout_ms)
        if isinstance(failure, errors.OutcomeUnknownError):
            sequence, command, _, _ = attempt
            session.hold(sequence)
            failure.command = errors.UnfinishedCommand(session.session_id, sequence, command)
        return failure

    def _left(self, session: ClientSession, group: _CommandGroup, sequence: int) -> None:
        """A caller waits no longer."""
        group.waiting -= 1
        if not group.waiting:
            del self._groups[group]
        if sequence not in session.held:
            session.done(sequence)
        if self._crowd:
            self._let_in(session.room)
        if session is not self._session:
            self._leave(session)

    @property
    def waiting_count(self) -> int:
        """Callers that wait for an answer, a session or room."""
        return sum(group.waiting for group in self._groups) + len(self._newcomers) + len(self._crowd)

    async def close(self) -> None:
        """The node has ended: nobody gets an answer any more."""
        waiters: list[asyncio.Future[Any]] = [*self._applier.openings.values(), *self._newcomers, *self._crowd]
        waiters += [future for group in self._groups for _, _, future, _ in group.attempts]
        for waiter in waiters:
            _fail(waiter, errors.NotRunningError("the node has ended"))
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._alarm is not None:
            self._alarm.cancel()

    def _group_for(self, session: ClientSession, command: bytes) -> _CommandGroup:
        size_bytes = len(command) + COMMAND_OVERHEAD_BYTES + RECORD_OVERHEAD_BYTES
        group = self._group
        if group is None or group.session is not session or group.size_bytes + size_bytes > self.group_size_bytes_max:
            group = self._group = _CommandGroup(session.records, session, is_local=not self._forwarder.is_needed)
            self._begin(group)
        group.size_bytes += size_bytes
        return group

    def _join(self, group: _CommandGroup, attempt: Attempt) -> None:
        self._groups[group] = None  # those who waited before may be gone while it waits for its turn
        group.attempts.append(attempt)
        group.waiting += 1
        if attempt[3] < self._alarm_s:  # the common case needs no call
            self._wake_by(attempt[3])

    def _begin(self, group: _CommandGroup) -> None:
        """Send this group once the tasks that are ready now have run: they may add to it."""
        task = asyncio.get_running_loop().create_task(self._bring(group), name="pykraft commands")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _leave(self, session: ClientSession) -> None:
        if self._session is session:
            self._session = None
            self._let_in(len(self._crowd))  # the next session has room
        for sequence in [*session.held]:
            session.release(sequence)
        if not session.waiters:
            self._applier.sessions.pop(session.session_id, None)

    def _newcomer(self, deadline_s: float) -> asyncio.Future[ClientSession]:
        """Gets the session that this caller opens, or another one.

        Errors: TimeoutError when the time is over; BufferFullError, RefusedError, NotRunningError.
        """
        loop = asyncio.get_running_loop()
        if self._opening is None:
            self._opening = loop.create_task(self._open(), name="pykraft session")
            self._opening.add_done_callback(self._opening_ended)
        # A future of its own: to take a callback off a task that thousands wait for costs as many steps.
        newcomer: asyncio.Future[ClientSession] = loop.create_future()
        self._newcomers[newcomer] = deadline_s
        self._wake_by(deadline_s)
        return newcomer

    def _place(self, deadline_s: float) -> asyncio.Future[None]:
        """Done when there is room in the session. Errors: TimeoutError when the time is over; NotRunningError."""
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._crowd[place] = deadline_s
        self._wake_by(deadline_s)
        return place

    def _give_up(self, place: asyncio.Future[None], error: BaseException, timeout_ms: int) -> None:
        """A caller waits no longer for room, because of this error. Errors: NotAppliedError if its time is over."""
        if place in self._crowd:
            del self._crowd[place]
        else:
            self._let_in(1)  # it was let in, and does not come
        if isinstance(error, TimeoutError):
            text = f"{WINDOW} commands of this node already wait for their results"
            raise _not_applied(f"no answer within {timeout_ms} ms ({text})") from None

    def _let_in(self, count: int) -> None:
        for waiter in [*islice(self._crowd, count)]:
            del self._crowd[waiter]
            if not waiter.done():
                waiter.set_result(None)

    def _problem_known(self, due_s: float, problem: asyncio.Task[str]) -> None:
        self._problem = None
        self._hindrance = "" if problem.cancelled() or problem.exception() is not None else problem.result()
        self._wake_by(due_s)

    async def _ask_problem(self) -> str:
        """Why no session opens, as far as this node knows. Errors: NotRunningError."""
        status: Status = await self._node.ask(lambda host, answer: answer(host.status))
        own = None if self._node.node_id is None else status.voters.get(self._node.node_id)
        problem = own_problem(status, None if own is None else own.key, it="this node", its="this node's", path_of=str)
        error = self._opening_group and self._opening_group.error
        known = "; ".join(str(each) for each in (error, problem) if each is not None)
        return known and f" ({known})"

    def _opening_ended(self, opening: asyncio.Task[ClientSession]) -> None:
        self._opening = None
        error = asyncio.CancelledError() if opening.cancelled() else opening.exception()
        newcomers, self._newcomers = self._newcomers, {}
        for waiter in newcomers:
            if error is not None:
                _fail(waiter, twin(error))
            elif not waiter.done():
                waiter.set_result(opening.result())

    async def _open(self) -> ClientSession:
        session_id: int | None = OPENING_LOST
        while session_id == OPENING_LOST:
            nonce = self._random_bytes(NONCE_SIZE_BYTES)
            session_id = await self._opening_of(nonce)
        if session_id is None:
            raise errors.BufferFullError("there are too many open sessions: execute it later")
        self._session = self._applier.sessions[session_id] = ClientSession(session_id)
        return self._session

    def _check_opening(self) -> None:
        """Give up an opening below a snapshot that does not have the session, which has ended: no answer will come."""
        group = self._opening_group
        if group is not None and group.base_offset is not None and group.base_offset < self._applier.loaded_end_offset:
            _, _, future, _ = group.attempts[0]
            if not future.done():
                future.set_result(OPENING_LOST)

    async def _opening_of(self, nonce: bytes) -> int | None:
        future: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._applier.openings[nonce] = future
        try:
            group = _CommandGroup(lambda _, time_ms: [encode_log_record(OpenRecord(time_ms, nonce))])
            self._opening_group = group
            group.attempts.append((0, b"", future, inf))
            self._begin(group)
            return await future
        finally:
            del self._applier.openings[nonce]

    async def _bring(self, group: _CommandGroup) -> None:
        pause_s = PAUSE_S_MIN
        while True:
            async with self._forwarder.turn():
                if self._group is group:
                    self._group = None  # who comes from now on makes another group
                # An earlier copy may have brought the answer meanwhile, and a caller may be gone.
                waiting = [attempt for attempt in group.attempts if not attempt[2].done()]
                if not waiting or await self._has_brought(group, waiting):
                    return
            # 4. Another leader may take the next copies.
            await asyncio.sleep(pause_s)
            pause_s = min(PAUSE_S_MAX, pause_s * 2)

    async def _has_brought(self, group: _CommandGroup, waiting: Sequence[Attempt]) -> bool:
        group.copies += 1
        try:
            is_remote = self._forwarder.is_needed
            if group.session is not None and not is_remote:
                # The leader reads its own commands, too; most were read when their callers came.
                self._applier.replica.read_ahead(command for _, command, _, _ in waiting)
            # A leader elsewhere writes its own time over this.
            time_ms = self._applier.time_ms() if is_remote else self._applier.leader_time_ms()
            group.base_offset = await self._send(group.records(waiting, time_ms))
            if group is self._opening_group:
                self._check_opening()
        except errors.OutcomeUnknownError as error:
            group.error = error
            return False
        except errors.PykraftError as error:
            group.copies -= 1
            group.error = error
            if isinstance(error, errors.NotLeaderError | errors.BufferFullError | errors.UnreachableError):
                return False
            for _, _, future, _ in waiting:
                _fail(future, twin(error))
        # 3. When it is committed, this node's replica will have the answers.
        return True

    async def _send(self, records: Sequence[bytes]) -> Offset:
        """Append these records as one batch, here or at the leader; returns their offset when they are committed.

        Errors: see `pykraft.client.Node.propose` and `pykraft.machine.forwarder.ForwardConnection.ask`.
        """
        if self._forwarder.is_needed:
            return await self._forwarder.append(records)
        return (await self._node.propose(records)).base_offset

    def _wake_by(self, deadline_s: float) -> None:
        if deadline_s >= self._alarm_s:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_s = deadline_s
        self._alarm = asyncio.get_running_loop().call_at(deadline_s, self._ring, deadline_s)

    def _ring(self, due_s: float) -> None:
        """Answer those whose time is over."""
        self._alarm, self._alarm_s = None, inf
        if self._newcomers and self._hindrance is None and self._problem is None:
            self._problem = asyncio.get_running_loop().create_task(self._ask_problem(), name="pykraft problem")
            self._problem.add_done_callback(partial(self._problem_known, due_s))
        # Loops round times, so the clock may lack a fraction of a millisecond: the same alarm would ring at once again.
        now_s, next_s = max(due_s, asyncio.get_running_loop().time()), inf
        left = RUNG_MAX
        for future, deadline_s in self._waiting():
            if future.done():
                continue
            if deadline_s > now_s:
                next_s = min(next_s, deadline_s)
                continue
            if not left:
                next_s = now_s  # the others in the next turn: thousands at once would hold up the loop
                break
            left -= 1
            _fail(future, TimeoutError(self._hindrance))
        if left:
            self._hindrance = None
        if next_s < inf:
            # Each alarm looks at all who wait, so it does not ring for each of them.
            self._wake_by(max(next_s, now_s + ALARM_PAUSE_S) if left else now_s)

    def _waiting(self) -> Iterator[tuple[asyncio.Future[Any], float]]:
        for group in self._groups:
            for _, _, future, deadline_s in group.attempts:
                yield future, deadline_s
        if self._hindrance is not None:
            yield from self._newcomers.items()
        yield from self._crowd.items()


class _CommandGroup:
    """Commands of one session that are sent together, or the opening of a session."""

    __slots__ = (
        "attempts",
        "base_offset",
        "copies",
        "error",
        "is_local",
        "records",
        "session",
        "size_bytes",
        "waiting",
    )

    def __init__(
        self,
        records: Callable[[Sequence[Attempt], int], list[bytes]],
        session: ClientSession | None = None,
        *,
        is_local: bool = False,
    ) -> None:
        """``records`` makes copies of some of them, given the log time; ``is_local`` where no other node led."""
        self.records = records
        self.session = session
        self.is_local = is_local
        self.attempts: list[Attempt] = []
        self.base_offset: Offset | None = None
        """Where the last copies are in the log, once that is known."""
        self.size_bytes = 0
        self.waiting = 0
        """Callers that wait for an answer."""
        self.copies = 0
        self.error: Exception | None = None
        """The last one."""

    def failure(self, error: Exception, timeout_ms: int) -> Exception:
        """What a caller who waits no longer gets for this error."""
        is_late = isinstance(error, TimeoutError)
        if not (is_late or self.copies or isinstance(error, errors.RefusedError)):
            return error
        last = "" if self.error is None else f" (the last try: {self.error})"
        text = f"no answer within {timeout_ms} ms{last}" if is_late else f"{error}{last}"
        failure: Exception = _not_applied(text)
        if self.copies:
            failure = errors.OutcomeUnknownError(f"{text}: the command may be applied, or not")
        failure.__cause__ = self.error if is_late else error
        return failure


def _not_applied(reason: str) -> errors.NotAppliedError:
    return errors.NotAppliedError(f"{reason}: the command was not applied, and will not be")


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # its caller may have heard of the end from the node already
