"""One replica of a state machine: the state, the sessions and the log time, changed by the records of the log alone.

This module decides which command is applied, once, and what its result is. It knows no loop, no clock and no node, so
the simulator runs the same code. Invariant: the same records give the same state, sessions and results everywhere.

How a retry applies once:

1. A client has a session and numbers its commands. A retry has the number of the first copy.
2. The first copy in the log is applied, and its result is kept in the session. A later copy gets the kept result.
3. Each command says up to which number the client needs no results (``acknowledged``). The session drops those, and a
   copy below that number is ignored: its client gave it up or has its result.
4. A session that is unused for `SESSION_TIMEOUT_MS` of log time ends. A command of a session that ended is refused and
   never applied, since nobody knows any more whether an earlier copy was.

What a replica cannot apply:

- Bytes that no version of this module writes are passed over, on all replicas alike, and reported.
- A command that its serde cannot read ends this replica. The leader refused to append what it could not read, so this
  node has older code, and others may go on differently.
- A command that the operator gave up is rejected on all replicas: a SKIP in the log names it, behind it. A replica that
  has applied it before it read the SKIP stops there. Who reads the log ahead says what is skipped, see
  `pykraft.machine.log_skips`.
- A version of the machine's code that this replica lacks ends it before the first command of that version.
- An exception of ``apply`` or of the serde of results is an answer as a rejection is, since all replicas get the same
  one, and reported. Those of `OF_THIS_NODE` may be of this node alone, and end it.

Log time comes with the records: a leader writes the time of the last record that it applied, plus what its monotonic
clock has advanced since it leads. No wall clock ends a session, and time stands still while nobody leads.

Source: Raft dissertation §6.3; ours (ADR 068, ADR 138).
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from pykraft.client.listener import StableRecords
from pykraft.errors import (
    BufferFullError,
    CodeVersionError,
    CommandRejectedError,
    DeserializeError,
    ForeignRecordError,
    ReplicasPartedError,
    UnknownRecordError,
    UsageError,
)
from pykraft.machine.records import (
    COMMAND_HEAD,
    COMMAND_KIND,
    COMMAND_OVERHEAD_BYTES,
    VERSION,
    AgreedRecord,
    CheckRecord,
    CommandRecord,
    DigestRecord,
    OpenRecord,
    ResultRecord,
    SessionRecord,
    SkippedRecord,
    SkipRecord,
    StateRecord,
    TimeRecord,
    VersionRecord,
    decode_log_record,
    decode_snapshot_record,
    encode_snapshot_record,
)
from pykraft.machine.state_machine import Applied, StateMachine
from pykraft.types import Epoch, Offset

C = TypeVar("C")
R = TypeVar("R")
SESSION_TIMEOUT_MS: Final = 60_000
"""A session ends after this log time without a record of it. Part of the format: all replicas must agree."""
SWEEP_INTERVAL_MS: Final = 1_000
"""Sessions that ended leave memory at most once in this log time. Part of the format, as above."""
SWEPT_MAX: Final = 5_000
"""So many leave at a time: more would hold up the commands of all clients. Part of the format, as above."""
SESSIONS_MAX: Final = 100_000
"""Open sessions; one more is refused. Part of the format, as above."""
WINDOW: Final = 16_384
"""Commands of one session that may wait for their results; one more is refused. Part of the format, as above."""

OF_THIS_NODE: Final = (MemoryError, RecursionError, OSError)
"""Exceptions of ``apply`` that other replicas need not have: they have other machines, and stacks of other depths."""
READ_AHEAD_MAX: Final = 1_024
"""Commands that are kept as they were read before they were appended; longer ones than `READ_AHEAD_BYTES` are not."""
READ_AHEAD_BYTES: Final = 1_024


class HeldError(DeserializeError):
    """This replica stands before a command that must not be applied; nothing of it was."""


class CommandVerdict(Enum):
    """What became of a command."""

    APPLIED = "applied"
    REJECTED = "rejected"
    REFUSED = "refused"


# An attribute of an Enum takes as long as three calls, and each command asks for it several times.
APPLIED: Final = CommandVerdict.APPLIED
REFUSED: Final = CommandVerdict.REFUSED
_new: Final = tuple.__new__
"""Makes a named tuple in half the time of its class."""


class CommandAnswer(NamedTuple):
    """What became of one command: its serialized result, why ``apply`` rejected it, or why this copy was not applied.

    The result is kept as bytes: a caller gets an object of its own, and a state that the result shares objects with may
    change on.
    """

    verdict: CommandVerdict
    value: bytes


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """A session was opened; ``session_id`` is None when there are too many."""

    nonce: bytes
    session_id: int | None


class CommandAnswered(NamedTuple):
    """A command of this session has its answer."""

    session_id: int
    sequence: int
    answer: CommandAnswer


ClientNews: TypeAlias = SessionOpened | CommandAnswered


@dataclass(frozen=True, slots=True)
class NotApplied:
    """What all replicas pass over: a foreign record, a command that an operator gave up, or one on which apply failed.

    ``error`` is None for one that was given up.
    """

    offset: int
    epoch: int
    error: Exception | None


class SessionWatcher(Protocol):
    """Hears the answers to the commands of one session, on the node whose clients use it."""

    def answered(self, sequence: int, answer: CommandAnswer, /) -> None:
        """This command has its answer."""


@dataclass(slots=True, kw_only=True)
class _Session:
    nonce: bytes
    used_ms: int
    acknowledged: int = 0
    answers: dict[int, bytes] = field(default_factory=dict)
    """Kept answers by sequence number, all at or above ``acknowledged``: `_APPLIED` or `_REJECTED`, then the value.

    The garbage collector passes over bytes; for the answers of 100,000 sessions as objects it took 70 ms.
    """


class MachineReplica(Generic[C, R]):
    """A state machine with its sessions."""

    def __init__(
        self,
        machine: StateMachine[C, R],
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        hold_at: Collection[int] = (),
    ) -> None:
        self.machine = machine
        self._hold_at = frozenset(hold_at)
        self.skips: dict[int, bool] = {}
        """Commands that a SKIP in the log names, and whether this replica has passed over them."""
        self._session_timeout_ms = session_timeout_ms
        self.time_ms = 0
        """The log time of the last record."""
        self.code_version = 0
        """On which all nodes have agreed."""
        self.watchers: Mapping[int, SessionWatcher] = {}
        """Who waits for answers on this node, by session."""
        self.on_carried_out: Callable[[CommandRecord, Offset, CommandAnswer], None] | None = None
        """Called after each command that was carried out, for `pykraft.machine.state_check`."""
        self.on_not_applied: Callable[[NotApplied], object] = lambda _: None
        """Called for what is passed over; a simulated world makes a failure of it."""
        self._read_ahead: dict[bytes, C] = {}
        # A serde that checks types reads what is in the log in whatever form older code wrote it.
        self._read_new = getattr(machine.commands, "deserialize_new", machine.commands.deserialize)
        self.has_versions = getattr(machine.version_of, "__func__", None) is not StateMachine.version_of
        """False while each command is of the first version of the code: then nobody asks for it."""
        self._waits_for_time = getattr(machine.deadline_ms, "__func__", None) is not StateMachine.deadline_ms
        self._swept_ms = 0
        self._sessions: OrderedDict[int, _Session] = OrderedDict()
        """In the order of their last use, so those that end first are in front."""

    @property
    def sessions_count(self) -> int:
        """How many sessions are open, or ended since the last sweep."""
        return len(self._sessions)

    def apply(self, value: bytes, offset: Offset, epoch: Epoch) -> ClientNews | CheckRecord | DigestRecord | None:
        """Apply a record of the log; returns what a client may wait for, or what concerns the comparison of replicas.

        Errors: UnknownRecordError; CodeVersionError; DeserializeError for a command that the serde cannot read, and
        what apply raises of `OF_THIS_NODE`: this replica must stop then, since others may go on differently.
        """
        try:
            record = decode_log_record(value)
        except ForeignRecordError as error:
            self.on_not_applied(NotApplied(offset, epoch, error))
            return None
        self._advance(record.time_ms, offset, epoch)
        if isinstance(record, CommandRecord):
            _, session_id, sequence, acknowledged, command = record
            answer = self._on_command(session_id, sequence, acknowledged, command, offset, epoch)
            return None if answer is None else CommandAnswered(session_id, sequence, answer)
        if isinstance(record, OpenRecord):
            return self._on_open(record, offset)
        if isinstance(record, VersionRecord):
            self.code_version = max(self.code_version, self._known(record.version))
            return None
        if isinstance(record, SkipRecord):
            self._require_skipped(record.offset)
            return None
        return record if isinstance(record, CheckRecord | DigestRecord) else None

    def apply_commands(self, values: Sequence[bytes], base_offset: int, epoch: Epoch) -> int:
        """Apply the commands at the front of these records, and tell their watchers; returns how many there are.

        It is `apply` for many records, of which nearly all are commands. DeserializeError names the command that was
        not applied; those before it were.

        Errors: as `apply`.
        """
        unpack, watchers, waits_for_time = COMMAND_HEAD.unpack_from, self.watchers, self._waits_for_time
        for offset, value in enumerate(values, base_offset):
            if len(value) < COMMAND_OVERHEAD_BYTES:
                return offset - base_offset
            version, kind, time_ms, session_id, sequence, acknowledged = unpack(value)
            if kind != COMMAND_KIND or version != VERSION:
                return offset - base_offset
            if time_ms > self.time_ms or waits_for_time:
                self._advance(time_ms, Offset(offset), epoch)
            command = value[COMMAND_OVERHEAD_BYTES:]
            answer = self._on_command(session_id, sequence, acknowledged, command, offset, epoch)
            watcher = watchers.get(session_id)
            if watcher is not None and answer is not None:
                watcher.answered(sequence, answer)
        return len(values)

    def read_ahead(self, commands: Iterable[bytes]) -> None:
        """Read commands before they are appended, for the leader: what it cannot read must not be in the log.

        They are kept for `apply`, so that each is read once. Errors: UsageError for what no replica could apply;
        BufferFullError for a command of a version that not all replicas are known to have.
        """
        machine, kept, read = self.machine, self._read_ahead, self._read_new
        for data in commands:
            if data in kept:
                continue
            try:
                command = read(data)
                machine.validate(command)
            except Exception as error:
                text = f"the leader's state machine refuses a command of {len(data)} bytes"
                raise UsageError(f"{text}: {type(error).__name__}: {error!s:.200}") from error
            if self.has_versions and self.is_newer(command):
                raise BufferFullError(f"{self._too_new(command)}: execute it later")
            if len(kept) >= READ_AHEAD_MAX:
                kept.clear()  # others were never committed
            if len(data) <= READ_AHEAD_BYTES:
                kept[data] = command

    def kept_news(self, nonces: Iterable[bytes], commands: Iterable[tuple[int, int]]) -> Iterator[ClientNews]:
        """What these clients would have heard, had this replica not loaded a snapshot instead."""
        wanted = set(nonces)
        if wanted:
            for session_id, session in self._sessions.items():
                if session.nonce in wanted:
                    yield SessionOpened(session.nonce, session_id)
        for session_id, sequence in commands:
            found = self._sessions.get(session_id)
            if found is not None and sequence in found.answers:
                yield CommandAnswered(session_id, sequence, _unpacked(found.answers[sequence]))

    def save(self) -> Iterable[bytes]:
        """The records of a snapshot: time, sessions, results, then the state; stable if those of the machine are."""
        head = TimeRecord(self.time_ms, self._swept_ms)
        sessions = [
            (session_id, one.nonce, one.used_ms, one.acknowledged, tuple(one.answers.items()))
            for session_id, one in self._sessions.items()
        ]
        state = self.machine.snapshot()
        marks: list[AgreedRecord | SkippedRecord] = [AgreedRecord(self.code_version)] if self.code_version else []
        marks += [SkippedRecord(offset) for offset, is_passed in sorted(self.skips.items()) if is_passed]
        records = _snapshot_records(head, sessions, state, marks)
        return StableRecords(records) if isinstance(state, StableRecords | list | tuple) else records

    async def load(self, values: AsyncIterator[bytes]) -> None:
        """Replace everything by a snapshot.

        Errors: UnknownRecordError; CodeVersionError; any exception of the state machine.
        """
        head = decode_snapshot_record(await anext(values, b""))
        if not isinstance(head, TimeRecord):
            raise UnknownRecordError("the snapshot does not begin with the time of a state machine")
        sessions: OrderedDict[int, _Session] = OrderedDict()
        first: bytes | None = None
        code_version, skips = 0, {}
        async for value in values:
            match decode_snapshot_record(value):
                case SessionRecord(session_id, nonce, used_ms, acknowledged):
                    sessions[session_id] = _Session(nonce=nonce, used_ms=used_ms, acknowledged=acknowledged)
                case ResultRecord(session_id, sequence, is_rejection, kept):
                    sessions[session_id].answers[sequence] = (_REJECTED if is_rejection else _APPLIED) + kept
                case AgreedRecord(version):
                    code_version = self._known(version)
                case SkippedRecord(offset):
                    skips[offset] = True
                case TimeRecord():
                    raise UnknownRecordError("the snapshot has the time of a state machine twice")
                case StateRecord(first):
                    break
        await self.machine.restore_stream(_state_records(first, values))
        # Older versions wrote sessions in the order of their opening.
        self._sessions = OrderedDict(sorted(sessions.items(), key=lambda each: each[1].used_ms))
        self.time_ms, self._swept_ms = head.time_ms, head.swept_ms
        self.code_version, self.skips = code_version, skips

    def _on_open(self, record: OpenRecord, offset: Offset) -> SessionOpened:
        if len(self._sessions) >= SESSIONS_MAX:
            self._forget(1)
        if len(self._sessions) >= SESSIONS_MAX:
            return SessionOpened(record.nonce, None)
        self._sessions[offset] = _Session(nonce=record.nonce, used_ms=self.time_ms)
        return SessionOpened(record.nonce, offset)

    def _advance(self, time_ms: int, offset: Offset, epoch: Epoch) -> None:
        """The log time is that of the next record, unless it is behind already."""
        if time_ms > self.time_ms:
            self.time_ms = time_ms
            if time_ms - self._swept_ms >= SWEEP_INTERVAL_MS:
                self._swept_ms = time_ms
                self._forget(SWEPT_MAX)
        deadline_ms = self.machine.deadline_ms()
        if deadline_ms is not None and self.time_ms >= deadline_ms:
            self.machine.elapse(Applied(offset, epoch, self.time_ms, -1, self.code_version))

    def _on_command(
        self, session_id: int, sequence: int, acknowledged: int, command: bytes, offset: int, epoch: int
    ) -> CommandAnswer | None:
        session = self._sessions.get(session_id)
        # 4. Nobody knows any more whether an earlier copy was applied.
        if session is None or (session.used_ms != self.time_ms and self._is_over(session)):
            text = f"session {session_id} has ended: it was unused for too long"
            return CommandAnswer(REFUSED, text.encode())
        if session.used_ms != self.time_ms:
            session.used_ms = self.time_ms
            self._sessions.move_to_end(session_id)
        # 3. The client needs nothing below: what comes from there is a late copy.
        if acknowledged > session.acknowledged:
            self._acknowledge(session, acknowledged)
        if sequence < session.acknowledged:
            return None
        # 1. All copies have the number of the first.
        answers = session.answers
        kept = answers.get(sequence)
        if kept is not None:
            return _unpacked(kept)
        if len(answers) >= WINDOW:
            text = f"session {session_id} has {WINDOW} results that its client has not got"
            return CommandAnswer(REFUSED, text.encode())
        # 2. The first copy: its answer is kept for later ones.
        answer = self._carry_out(command, session_id, offset, epoch)
        answers[sequence] = (_APPLIED if answer.verdict is APPLIED else _REJECTED) + answer.value
        if self.on_carried_out is not None:
            record = CommandRecord(self.time_ms, session_id, sequence, acknowledged, command)
            self.on_carried_out(record, Offset(offset), answer)
        return answer

    def _carry_out(self, command: bytes, session_id: int, offset: int, epoch: int) -> CommandAnswer:
        machine = self.machine
        if offset in self.skips:
            self.skips[offset] = True
            self.on_not_applied(NotApplied(offset, epoch, None))
            return CommandAnswer(CommandVerdict.REJECTED, b"the operator skipped this command")
        if offset in self._hold_at:
            raise HeldError(Offset(offset), Epoch(epoch), "the operator wants it held until the log has a skip for it")
        try:
            kept = self._read_ahead.pop(command, None) if self._read_ahead else None
            told = machine.commands.deserialize(command) if kept is None else kept
        except Exception as error:
            # Not a rejection: a replica with newer code may read it, and would then part from this one.
            problem = (
                f"{type(error).__name__}: {error}: give this node the code that reads it, or, if no node can read it, "
                f"start all with hold_at=[{offset}] and skip it, see docs/new-code.md"
            )
            raise DeserializeError(Offset(offset), Epoch(epoch), problem) from error
        if self.has_versions and self.is_newer(told):  # a leader whose code does not look at versions let it in
            return CommandAnswer(CommandVerdict.REJECTED, self._too_new(told).encode())
        try:
            result = machine.apply(told, _new(Applied, (offset, epoch, self.time_ms, session_id, self.code_version)))
            return _new(CommandAnswer, (APPLIED, machine.results.serialize(result)))
        except CommandRejectedError as error:
            return CommandAnswer(CommandVerdict.REJECTED, str(error).encode())
        except OF_THIS_NODE:
            raise
        except Exception as error:  # noqa: BLE001 - a bug of the program, and each replica has it
            self.on_not_applied(NotApplied(offset, epoch, error))
            # The kind alone: a text may contain what differs between processes, such as addresses of objects.
            text = f"apply failed on every replica alike, with {type(error).__name__}: the nodes' logs say more"
            return CommandAnswer(CommandVerdict.REJECTED, text.encode())

    def _require_skipped(self, offset: int) -> None:
        """Errors: ReplicasPartedError when this replica has applied what others skip."""
        if not self.skips.get(offset):
            text = f"the operator skipped the command at offset {offset}, which this node had applied: start it with an"
            raise ReplicasPartedError(offset, f"{text} emptied directory, and it fetches the state of the others")

    def _known(self, version: int) -> int:
        """This version of the code. Errors: CodeVersionError when the machine does not have it."""
        if version > self.machine.code_version:
            raise CodeVersionError(self.machine.code_version, version)
        return version

    def is_newer(self, command: C) -> bool:
        """True for a command of a version on which the nodes have not agreed."""
        return self.machine.version_of(command) > self.code_version

    def _too_new(self, command: C) -> str:
        needed = self.machine.version_of(command)
        return f"the command needs version {needed} of the code, and all nodes have agreed on {self.code_version} only"

    @staticmethod
    def _acknowledge(session: _Session, acknowledged: int) -> None:
        if acknowledged - session.acknowledged <= len(session.answers):
            for sequence in range(session.acknowledged, acknowledged):
                session.answers.pop(sequence, None)
        else:  # fewer answers than numbers: look at the answers
            session.answers = {at: answer for at, answer in session.answers.items() if at >= acknowledged}
        session.acknowledged = acknowledged

    def _is_over(self, session: _Session) -> bool:
        return self.time_ms - session.used_ms > self._session_timeout_ms

    def _forget(self, count: int) -> None:
        """Forget at most so many sessions that have ended; only memory depends on it."""
        sessions = self._sessions
        while count and sessions and self._is_over(next(iter(sessions.values()))):
            sessions.popitem(last=False)
            count -= 1


_APPLIED: Final = b"="
_REJECTED: Final = b"!"
"""What a kept answer begins with."""


def _unpacked(kept: bytes) -> CommandAnswer:
    return CommandAnswer(CommandVerdict.REJECTED if kept.startswith(_REJECTED) else APPLIED, kept[1:])


def _snapshot_records(
    head: TimeRecord,
    sessions: list[tuple[int, bytes, int, int, tuple[tuple[int, bytes], ...]]],
    state: Iterable[bytes],
    marks: Sequence[AgreedRecord | SkippedRecord] = (),
) -> Iterator[bytes]:
    yield encode_snapshot_record(head)
    yield from map(encode_snapshot_record, marks)
    for session_id, nonce, used_ms, acknowledged, answers in sessions:
        yield encode_snapshot_record(SessionRecord(session_id, nonce, used_ms, acknowledged))
        for sequence, kept in answers:
            is_rejection = kept.startswith(_REJECTED)
            yield encode_snapshot_record(ResultRecord(session_id, sequence, is_rejection, kept[1:]))
    for record in state:
        yield encode_snapshot_record(StateRecord(record))


async def _state_records(first: bytes | None, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The machine's records: all that is left. Errors: UnknownRecordError."""
    if first is not None:
        yield first
    async for value in rest:
        record = decode_snapshot_record(value)
        if not isinstance(record, StateRecord):
            raise UnknownRecordError(f"the snapshot has a {type(record).__name__} among the records of the state")
        yield record.value
