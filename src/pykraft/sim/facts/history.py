"""What clients asked for, when, and what they were told; whether an order explains it; and what a listener made of it.

A value of the workload consists of a number and an action: it writes a register, or reads one through the log. The
number determines the register. Invariant: an operation is answered at most once, and not before it was invoked.

`check` is the search of Wing and Gong with Lowe's two improvements: calls that have taken effect are removed from a
linked list of invocations and answers, and no state is visited twice with the same set of calls done. The caller checks
histories of different registers one by one (locality). An open call, one whose answer is unknown, may take effect at
any time after its invocation, or never. When the search reaches its bound the result is undecided, which is not a
violation. An object is a function from a state and a call to the next state.

`ApplicationState` depends only on the committed batches that the listener was given, or that a snapshot replaced. A
snapshot names every one of these batches. So an oracle can tell which state a snapshot holds, and two replicas that
take a snapshot at the same offset write the same records. `read_snapshot` shares only the reading of a batch with the
program under test, which reads snapshots as a stream.

| record | what it is |
|---|---|
| ``E``, base offset int64, end offset int64, epoch int32, CRC uint32 | one committed batch, in order |
| ``R``, register uint8, number int64 | what a register holds |

Source: Jepsen's histories (invoke, ok, fail, info); Herlihy and Wing, "Linearizability" (TOPLAS 1990); Wing and Gong,
"Testing and verifying concurrent objects" (1993); Lowe, "Testing for linearizability" (2017); KIP-98; KIP-630.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

from pykraft.errors import ErrorCode, ProtocolError, UsageError
from pykraft.host.delivery import CommittedBatch
from pykraft.protocol.batch import check_crc
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.records import decode_control, decode_values, read_header
from pykraft.protocol.schema import Body
from pykraft.sim.machine.ledger import Entry
from pykraft.sim.machine.node import Process
from pykraft.types import ControlRecord, KRaftVoters, SnapshotFooter, SnapshotHeader, VoterSet

NEVER_US = 2**63 - 1
"""Time of the answer of an open call."""
STEPS_MAX = 200_000
"""Bound on the steps of one search; the history of a world takes a few steps per call."""

ObjectState: TypeAlias = int
Object: TypeAlias = Callable[[ObjectState, tuple[Any, ...]], ObjectState | None]
"""Returns the state after a call, or None when the call cannot take effect in this state. States begin at 0."""


class ObjectCall(NamedTuple):
    """One operation: when it was invoked and answered (`NEVER_US`: open), and what it did."""

    invoked_us: int
    answered_us: int
    what: tuple[Any, ...]


class SearchVerdict(Enum):
    """The result of a search."""

    LINEARIZABLE = auto()
    NOT_LINEARIZABLE = auto()
    UNDECIDED = auto()
    """The search reached its bound."""


def register(state: ObjectState, what: tuple[Any, ...]) -> ObjectState | None:
    """A register that holds a number: ``("write", n)`` sets it, ``("read", n)`` reads n from it."""
    kind, number = what
    if kind == "write":
        return int(number)
    return state if state == number else None


def offsets(state: ObjectState, what: tuple[Any, ...]) -> ObjectState | None:
    """A log that grows: ``("append", base offset, end offset)`` takes effect at or after the former end."""
    _, base_offset, end_offset = what
    return int(end_offset) if base_offset >= state else None


@dataclass(slots=True, eq=False)
class _Entry:
    """An invocation or an answer of a call that has not taken effect; ``answer`` is None in an answer."""

    number: int
    what: tuple[Any, ...]
    answer: _Entry | None = None
    is_open: bool = False
    before: _Entry | None = None
    after: _Entry | None = None

    def take_out(self) -> None:
        """Remove the invocation and its answer from the list."""
        for entry in (self, self.answer):
            assert entry is not None
            assert entry.before is not None
            entry.before.after = entry.after
            if entry.after is not None:
                entry.after.before = entry.before

    def put_back(self) -> None:
        """Put both back; calls must be in the reverse order of `take_out`."""
        for entry in (self.answer, self):
            assert entry is not None
            assert entry.before is not None
            entry.before.after = entry
            if entry.after is not None:
                entry.after.before = entry


def check(calls: Sequence[ObjectCall], behaves: Object, *, steps_max: int = STEPS_MAX) -> SearchVerdict:
    """Look for an order in which each call takes effect between its invocation and its answer.

    1. Try the invocations before the first answer, one after the other; 2. one that the object allows takes effect,
    unless that was tried; 3. at an answer whose call has not taken effect, the last one is taken back.
    """
    head = _listed(calls)
    certain = sum(call.answered_us < NEVER_US for call in calls)
    taken: list[tuple[_Entry, ObjectState]] = []
    tried: set[tuple[int, ObjectState]] = set()
    behind, state, done = 0, 0, 0
    entry = head.after
    for _ in range(steps_max):
        if done == certain or entry is None:
            return SearchVerdict.LINEARIZABLE
        if entry.answer is not None:
            following = behaves(state, entry.what)
            mark = behind | 1 << entry.number
            if following is not None and (mark, following) not in tried:
                tried.add((mark, following))
                taken.append((entry, state))
                behind, state = mark, following
                done += not entry.is_open
                entry.take_out()
                entry = head.after
            else:
                entry = entry.after
            continue
        if not taken:
            return SearchVerdict.NOT_LINEARIZABLE
        last, state = taken.pop()
        behind &= ~(1 << last.number)
        done -= not last.is_open
        last.put_back()
        entry = last.after
    return SearchVerdict.UNDECIDED


def _listed(calls: Sequence[ObjectCall]) -> _Entry:
    moments: list[tuple[int, int, int, _Entry]] = []
    for number, call in enumerate(calls):
        assert call.invoked_us <= call.answered_us, "an answer comes after its question"
        answer = _Entry(number, call.what)
        invocation = _Entry(number, call.what, answer, call.answered_us == NEVER_US)
        moments += [(call.invoked_us, 0, number, invocation), (call.answered_us, 1, number, answer)]
    head = last = _Entry(-1, ())
    for *_, entry in sorted(moments, key=lambda moment: moment[:3]):
        entry.before, last.after = last, entry
        last = entry
    return head


class VisitQuestion(Enum):
    """The request that the client sends: its API, and its version."""

    DESCRIBE_QUORUM = (ApiKey.DESCRIBE_QUORUM, 2)
    DESCRIBE_CLUSTER = (ApiKey.DESCRIBE_CLUSTER, 1)
    DESCRIBE_BROKERS = (ApiKey.DESCRIBE_CLUSTER, 1, "brokers")
    ADD_IMPOSSIBLE_VOTER = (ApiKey.ADD_RAFT_VOTER, 1)
    FETCH_COMMITTED = (ApiKey.FETCH, 18)

    @property
    def api_key(self) -> ApiKey:
        return ApiKey(self.value[0])

    @property
    def version(self) -> int:
        return int(self.value[1])


@dataclass(slots=True, kw_only=True, eq=False)
class Visit:
    """One question to one process; ``answer`` is the response body, None until it comes."""

    question: VisitQuestion
    process: Process
    asked_us: int
    answer: Body | None = None
    is_refused: bool = False
    """True when the process closed the connection instead of an answer."""

    @property
    def is_open(self) -> bool:
        """True while an answer may still come."""
        return self.answer is None and not self.is_refused and self.process.is_running


class Ownership(NamedTuple):
    """The member of a group that was told that the partition is its own."""

    group_id: str
    member: str
    generation: int
    """Or the epoch of the member, in the protocol of KIP-848."""


@dataclass(slots=True, kw_only=True, eq=False)
class GroupRead:
    """A member's question for the committed offset; ``offset`` is None until the answer comes."""

    group_id: str
    generation: int
    offset: int | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class GroupCommit:
    """An offset that a member commits; ``error`` is None until the answer comes, which may be never."""

    group_id: str
    member: str
    generation: int
    offset: int
    asked_us: int
    error: ErrorCode | None = None


REGISTERS = 4
"""Few, so that concurrent calls often meet at one register."""
NUMBER_DIGITS = 12
WRITE, READ = b"w", b"r"


class OperationOutcome(Enum):
    """The outcome that a client was told."""

    COMMITTED = auto()
    REJECTED = auto()
    UNKNOWN = auto()


@dataclass(slots=True, kw_only=True)
class Operation:
    """One proposal of a client with its values in order; times are in virtual microseconds."""

    number: int
    node_id: int
    epoch: int
    values: tuple[bytes, ...]
    invoked_us: int
    invoked_mono_ms: int
    """By the monotonic clock of its node."""
    is_alive: Callable[[], bool]
    """Whether the process that accepted it still runs."""
    is_prepared: bool = False
    """True when it waits in the leader's buffer until it is scheduled."""
    base_offset: int | None = None
    """Offset of its first value, once it has one."""
    answer: OperationOutcome | None = None
    answered_us: int | None = None
    lacked_room: bool = False
    """True when it was rejected because a buffer was full."""
    read: int | None = None
    """The number that a read found in its register; 0 for an empty register."""
    read_us: int | None = None

    @property
    def is_read(self) -> bool:
        """True for a read; it writes nothing."""
        return is_read(self.values[0])

    @property
    def end_offset(self) -> int:
        """End offset (exclusive) of its values; only once they have offsets."""
        assert self.base_offset is not None
        return self.base_offset + len(self.values)


@dataclass(slots=True)
class History:
    """All operations in the order of invocation."""

    operations: list[Operation] = field(default_factory=list)
    asked_node_ids: set[int] = field(default_factory=set)
    """Nodes whose application takes snapshots only when the host asks for them."""


class Registers:
    """What each register holds after the values that a listener was given."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def apply(self, value: bytes) -> int:
        """Apply the next value; returns what its register holds then, 0 for empty."""
        key = register_of(value)
        if not is_read(value):
            self._numbers[key] = number_of(value)
        return self._numbers.get(key, 0)

    def numbers(self) -> list[tuple[int, int]]:
        """The registers that hold something, in order."""
        return sorted(self._numbers.items())

    def put(self, key: int, number: int) -> None:
        self._numbers[key] = number


def value_of(number: int, kind: bytes, padding_size_bytes: int) -> bytes:
    return b"%012d" % number + kind + bytes(padding_size_bytes)


def number_of(value: bytes) -> int:
    return int(value[:NUMBER_DIGITS])


def register_of(value: bytes) -> int:
    return number_of(value) % REGISTERS


def is_read(value: bytes) -> bool:
    return value[NUMBER_DIGITS : NUMBER_DIGITS + 1] == READ


def register_calls(operations: Iterable[Operation]) -> Mapping[int, Sequence[ObjectCall]]:
    """The calls to each register: writes that may have happened, and reads that were answered."""
    calls: defaultdict[int, list[ObjectCall]] = defaultdict(list)
    for operation in operations:
        if operation.is_read:
            if operation.read is not None and operation.read_us is not None:
                call = ObjectCall(operation.invoked_us, operation.read_us, ("read", operation.read))
                calls[register_of(operation.values[0])].append(call)
        elif operation.answer is not OperationOutcome.REJECTED:
            is_certain = operation.answer is OperationOutcome.COMMITTED and operation.answered_us is not None
            answered_us = operation.answered_us if is_certain and operation.answered_us is not None else NEVER_US
            for value in operation.values:
                calls[register_of(value)].append(
                    ObjectCall(operation.invoked_us, answered_us, ("write", number_of(value)))
                )
    return {key: _without_unseen(found) for key, found in sorted(calls.items())}


def offset_calls(operations: Iterable[Operation]) -> Sequence[ObjectCall]:
    """The appends whose offsets a client was told."""
    return [
        ObjectCall(operation.invoked_us, operation.answered_us, ("append", operation.base_offset, operation.end_offset))
        for operation in operations
        if operation.answer is OperationOutcome.COMMITTED and operation.answered_us is not None
    ]


def _without_unseen(calls: Sequence[ObjectCall]) -> Sequence[ObjectCall]:
    """Drop open writes that no read saw: if the rest has an order, they can follow it."""
    seen = {call.what[1] for call in calls if call.what[0] == "read"}
    return [call for call in calls if call.answered_us < NEVER_US or call.what[1] in seen]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerAnswer:
    """The answer to one batch that its producer still waited for."""

    node_id: int
    """The node that answered."""
    operation: Operation
    producer_id: int
    producer_epoch: int
    base_sequence: int
    error: ErrorCode
    base_offset: int
    is_next: bool
    """True when every earlier batch of this producer id and epoch was acknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedId:
    """A producer id that a node gave away."""

    node_id: int
    producer_id: int


ENTRY: Final = Struct(">cqqiI")
REGISTER: Final = Struct(">cBq")


class ApplicationState:
    """Registers and, if the state goes into snapshots, the batches."""

    def __init__(self, *, keeps_entries: bool) -> None:
        self.registers = Registers()
        self.entries: list[Entry] = []
        self._keeps_entries = keeps_entries

    def note(self, batch: CommittedBatch) -> None:
        """Add a batch to the state; its values are applied to the registers separately."""
        if self._keeps_entries:
            self.entries.append(Entry.of(read_header(batch.data)))

    def records(self) -> list[bytes]:
        found = [ENTRY.pack(b"E", each.base_offset, each.end_offset, each.epoch, each.crc) for each in self.entries]
        return found + [REGISTER.pack(b"R", key, number) for key, number in self.registers.numbers()]

    @classmethod
    def of(cls, records: Iterable[bytes]) -> ApplicationState:
        """Read a state from the records of a snapshot. Errors: UsageError for any other record."""
        state = cls(keeps_entries=True)
        for record in records:
            if record[:1] == b"E" and len(record) == ENTRY.size:
                state.entries.append(Entry(*ENTRY.unpack(record)[1:]))
            elif record[:1] == b"R" and len(record) == REGISTER.size:
                state.registers.put(*REGISTER.unpack(record)[1:])
            else:
                raise UsageError(f"{record!r} is no record of a snapshot of the simulated application")
        return state


class Plain:
    """A serde of records that are already bytes."""

    def serialize(self, record: bytes) -> bytes:
        """See `pykraft.snapshot.writer.Serializer`."""
        return record

    def deserialize(self, data: bytes) -> bytes:
        """See `pykraft.snapshot.head.Deserializer`."""
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotContent:
    """``is_whole``: begins with a header and ends with a footer; ``epoch`` is that of all batches."""

    state: ApplicationState
    epoch: int
    is_whole: bool
    voters: VoterSet | None = None
    """The voter set in it; None without one."""


@lru_cache(maxsize=64)
def read_snapshot(content: bytes) -> SnapshotContent | None:
    """Decode a snapshot; None unless the bytes are sound batches of one epoch without a gap."""
    values: list[bytes] = []
    controls: list[ControlRecord] = []
    epochs: set[int] = set()
    position = next_offset = 0
    try:
        while position < len(content):
            header = read_header(content, position)
            check_crc(content, position, header)
            if header.base_offset != next_offset:
                return None
            batch = content[position : position + header.size_bytes]
            if header.is_control:
                controls += decode_control(batch)
            else:
                values += decode_values(batch)
            epochs.add(header.epoch)
            position, next_offset = position + header.size_bytes, header.end_offset
        state = ApplicationState.of(values)
    except (ProtocolError, UsageError):
        return None
    if len(epochs) != 1:
        return None
    kinds = [type(record) for record in controls]
    voters = next((record.voters for record in controls if isinstance(record, KRaftVoters)), None)
    is_whole = kinds[:1] == [SnapshotHeader] and kinds[-1:] == [SnapshotFooter]
    return SnapshotContent(state=state, epoch=epochs.pop(), is_whole=is_whole, voters=voters)
