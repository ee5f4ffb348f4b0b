"""A journal: JSON lines with what nodes said that they committed, kept outside the nodes.

This module defines the events of a journal. `pykraft server --ack-fd` writes them into a pipe, and the process that
started the node reads them there, so a killed node cannot take back what it said. Invariant: a parsed event has the
right types and ranges. `pykraft.client.journal_check` compares a journal with a log.
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
    """One node's leadership in one epoch, as it appears in the workload's records."""

    run: bytes
    epoch: Epoch

    def __str__(self) -> str:
        return f"run {self.run.hex()} epoch {self.epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A node serves; ``run`` is in the records of all its claims until it stops, and empty if it writes none."""

    node: NodeId
    run: bytes
    pid: int
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Led:
    """A node became leader: its LeaderChange is committed."""

    node: NodeId
    run: bytes
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """``count`` records of a claim are committed from ``base_offset`` on. Latency is from append to commit."""

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
        """The claim whose records these are."""
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
        """The difference between a record's offset and its sequence."""
        return self.base_offset - self.first_sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipEnded:
    """A node no longer leads; records that it did not acknowledge may or may not be in the log."""

    node: NodeId
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The last line of a node that was not killed."""

    node: NodeId


JournalEvent: TypeAlias = Started | Led | Acknowledged | LeadershipEnded | Stopped

_KINDS: Final[dict[str, type[JournalEvent]]] = {
    "started": Started,
    "leader": Led,
    "ack": Acknowledged,
    "resigned": LeadershipEnded,
    "stopped": Stopped,
}


def parse_event(line: str | bytes) -> JournalEvent:
    """Parse one line of a journal; unknown fields are ignored.

    Errors: ProtocolError for anything that is not such a line.
    """
    try:
        found = json.loads(line)
        kind = _KINDS[found["event"]]
        make: Callable[..., JournalEvent] = kind
        return make(**{field.name: _checked(field.name, found[field.name]) for field in fields(kind)})
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ProtocolError(f"not a line of a journal ({type(error).__name__}: {error}): {line[:200]!r}") from None


def _checked(name: str, value: object) -> bytes | int | float:
    """The value of a field, if it is valid for that field. Errors: ValueError."""
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
