"""What the clients of a world asked for, when, and what they were told: the material of the linearizability checker.

A value of the workload is a number, then what it does: it writes a register, or it reads one through the log. The
register follows from the number. Invariant: an operation is answered at most once, and not before it was invoked.

Source: Jepsen's histories (invoke, ok, fail, info); Herlihy and Wing 1990.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from pykraft.sim.facts.linearizability import NEVER_US, Call

REGISTERS = 4
NUMBER_DIGITS = 12
WRITE, READ = b"w", b"r"


class Answer(Enum):
    """What a client was told."""

    COMMITTED = auto()
    REJECTED = auto()
    UNKNOWN = auto()


@dataclass(slots=True, kw_only=True)
class Operation:
    """One proposal of a client: its values, one after the other; times in virtual microseconds."""

    number: int
    node_id: int
    epoch: int
    values: tuple[bytes, ...]
    invoked_us: int
    invoked_mono_ms: int
    """As the clock of its node shows it."""
    is_alive: Callable[[], bool]
    """Whether the process that took it still runs."""
    is_prepared: bool = False
    """True when it waits in its leader's buffer until it is scheduled."""
    base_offset: int | None = None
    """Where its values are, once they have offsets."""
    answer: Answer | None = None
    answered_us: int | None = None
    lacked_room: bool = False
    """True when it was refused because a buffer was full."""
    read: int | None = None
    """What a read found, and when: the number in the register, 0 for none."""
    read_us: int | None = None

    @property
    def is_read(self) -> bool:
        """True when it reads a register and writes none."""
        return is_read(self.values[0])

    @property
    def end_offset(self) -> int:
        """Offset (exclusive) behind its values, which have offsets."""
        assert self.base_offset is not None
        return self.base_offset + len(self.values)


@dataclass(slots=True)
class History:
    """All operations, in the order in which they were invoked."""

    operations: list[Operation] = field(default_factory=list)
    asked_node_ids: set[int] = field(default_factory=set)
    """Nodes whose application waits to be asked for its snapshots."""


class Registers:
    """The state of one listener: what each register holds after all values that it was given."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def apply(self, value: bytes) -> int:
        """Apply the next value; returns what its register holds then, 0 for nothing."""
        key = register_of(value)
        if not is_read(value):
            self._numbers[key] = number_of(value)
        return self._numbers.get(key, 0)

    def numbers(self) -> list[tuple[int, int]]:
        """What each register holds that holds anything, in order."""
        return sorted(self._numbers.items())

    def put(self, key: int, number: int) -> None:
        """What a register holds from now on."""
        self._numbers[key] = number


def value_of(number: int, kind: bytes, padding_size_bytes: int) -> bytes:
    """A value of the workload."""
    return b"%012d" % number + kind + bytes(padding_size_bytes)


def number_of(value: bytes) -> int:
    """The number of a value."""
    return int(value[:NUMBER_DIGITS])


def register_of(value: bytes) -> int:
    """The register that a value writes or reads."""
    return number_of(value) % REGISTERS


def is_read(value: bytes) -> bool:
    """True for a value that reads."""
    return value[NUMBER_DIGITS : NUMBER_DIGITS + 1] == READ


def register_calls(operations: Iterable[Operation]) -> Mapping[int, Sequence[Call]]:
    """The calls to each register: writes that may have happened, and reads that have an answer."""
    calls: defaultdict[int, list[Call]] = defaultdict(list)
    for operation in operations:
        if operation.is_read:
            if operation.read is not None and operation.read_us is not None:
                call = Call(operation.invoked_us, operation.read_us, ("read", operation.read))
                calls[register_of(operation.values[0])].append(call)
        elif operation.answer is not Answer.REJECTED:
            is_certain = operation.answer is Answer.COMMITTED and operation.answered_us is not None
            answered_us = operation.answered_us if is_certain and operation.answered_us is not None else NEVER_US
            for value in operation.values:
                calls[register_of(value)].append(Call(operation.invoked_us, answered_us, ("write", number_of(value))))
    return {key: _without_unseen(found) for key, found in sorted(calls.items())}


def offset_calls(operations: Iterable[Operation]) -> Sequence[Call]:
    """The appends whose offsets were told."""
    return [
        Call(operation.invoked_us, operation.answered_us, ("append", operation.base_offset, operation.end_offset))
        for operation in operations
        if operation.answer is Answer.COMMITTED and operation.answered_us is not None
    ]


def _without_unseen(calls: Sequence[Call]) -> Sequence[Call]:
    """Without open writes that nobody read: whatever order there is without them, they can come after all of it."""
    seen = {call.what[1] for call in calls if call.what[0] == "read"}
    return [call for call in calls if call.answered_us < NEVER_US or call.what[1] in seen]
