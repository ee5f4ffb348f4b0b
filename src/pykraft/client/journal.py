"""A journal: what nodes said they had committed, one JSON object a line, kept outside of them.

Owns the words of a journal as values. `pykraft server --ack-fd` writes them into a pipe; whoever started the node reads
them there, so that a node that is killed cannot take back what it said. Invariant: what was parsed has the right types
and ranges. It refuses to know logs (`pykraft.client.journal_check`) and who keeps the lines where.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from math import inf
from typing import Final, TypeAlias

from pykraft.errors import ProtocolError
from pykraft.types import Epoch, NodeId, Offset

RUN_SIZE_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Claim:
    """One node's leadership in one epoch, as the records of the workload name it."""

    run: bytes
    epoch: Epoch

    def __str__(self) -> str:
        return f"run {self.run.hex()} epoch {self.epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A node serves; ``run`` is in the records of every claim until it stops, and empty if it writes none."""

    node: NodeId
    run: bytes
    pid: int
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Led:
    """A node leads: its LeaderChange is committed."""

    node: NodeId
    run: bytes
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """``count`` records of a claim are committed from ``base_offset`` on. Latency from the append to the commit."""

    node: NodeId
    run: bytes
    epoch: Epoch
    first_sequence: int
    count: int
    base_offset: Offset
    wall_ms: int
    latency_ms: float

    @property
    def claim(self) -> Claim:
        """Whose records they are."""
        return Claim(self.run, self.epoch)

    @property
    def end_sequence(self) -> int:
        """The sequence after the last one."""
        return self.first_sequence + self.count

    @property
    def end_offset(self) -> Offset:
        """The offset after the last record."""
        return Offset(self.base_offset + self.count)

    @property
    def shift(self) -> int:
        """What must be added to a sequence to get its offset."""
        return self.base_offset - self.first_sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Resigned:
    """A node no longer leads; what it had not acknowledged may or may not be in the log."""

    node: NodeId
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The last line of a node that ended by itself."""

    node: NodeId


Event: TypeAlias = Started | Led | Acknowledged | Resigned | Stopped

_KINDS: Final[dict[str, type[Event]]] = {
    "started": Started,
    "leader": Led,
    "ack": Acknowledged,
    "resigned": Resigned,
    "stopped": Stopped,
}


def parse_event(line: str | bytes) -> Event:
    """One line of a journal. Fields that this version does not know are passed over.

    Errors: ProtocolError for anything that is not such a line.
    """
    try:
        found = json.loads(line)
        kind = _KINDS[found["event"]]
        make: Callable[..., Event] = kind
        return make(**{field.name: _checked(field.name, found[field.name]) for field in fields(kind)})
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ProtocolError(f"not a line of a journal ({type(error).__name__}: {error}): {line[:200]!r}") from None


def _checked(name: str, value: object) -> bytes | int | float:
    """The value of a field, if it is one that the field can have. Errors: ValueError."""
    if name == "run":
        if isinstance(value, str) and len(run := bytes.fromhex(value)) in (0, RUN_SIZE_BYTES):
            return run
    elif isinstance(value, bool):
        pass
    elif name == "latency_ms":
        if isinstance(value, int | float) and 0 <= value < inf:
            return value
    elif isinstance(value, int) and value >= (1 if name == "count" else 0):
        return value
    raise ValueError(f"{name} is {value!r}")
