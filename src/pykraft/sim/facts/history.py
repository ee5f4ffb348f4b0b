"""What clients asked for, when, and what they were told: the input of oracles and of the linearizability checker.

A value of the workload consists of a number and an action: it writes a register, or reads one through the log. The
number determines the register. Invariant: an operation is answered at most once, and not before it was invoked.

Source: Jepsen's histories (invoke, ok, fail, info); Herlihy and Wing 1990; KIP-98 (producer id, epoch and sequence).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from pykraft.errors import ErrorCode
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.sim.facts.linearizability import NEVER_US, ObjectCall
from pykraft.sim.machine.node import Process


class VisitQuestion(Enum):
    """The request that the client sends: its API, and its version."""

    DESCRIBE_QUORUM = (ApiKey.DESCRIBE_QUORUM, 2)
    DESCRIBE_CLUSTER = (ApiKey.DESCRIBE_CLUSTER, 1)
    DESCRIBE_BROKERS = (ApiKey.DESCRIBE_CLUSTER, 1, "brokers")
    ADD_IMPOSSIBLE_VOTER = (ApiKey.ADD_RAFT_VOTER, 1)
    FETCH_COMMITTED = (ApiKey.FETCH, 18)

    @property
    def api_key(self) -> ApiKey:
        """Of the request."""
        return ApiKey(self.value[0])

    @property
    def version(self) -> int:
        """Of the request."""
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
        """Set a register."""
        self._numbers[key] = number


def value_of(number: int, kind: bytes, padding_size_bytes: int) -> bytes:
    """Encode a value of the workload."""
    return b"%012d" % number + kind + bytes(padding_size_bytes)


def number_of(value: bytes) -> int:
    """The number in a value."""
    return int(value[:NUMBER_DIGITS])


def register_of(value: bytes) -> int:
    """The register that a value writes or reads."""
    return number_of(value) % REGISTERS


def is_read(value: bytes) -> bool:
    """True for a value that reads."""
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
