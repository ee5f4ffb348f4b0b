"""What one world came to, in numbers."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run in numbers."""

    seed: int
    voters: int
    observers: int
    committed: int
    acknowledged: int
    epochs: int
    faults: dict[str, int]
    digest: str
    """Of all lines of the trace and all frames that arrived."""
    virtual_ms: int
    states: dict[str, dict[str, int]] = field(default_factory=dict)
    """By kind of fault: the roles of the nodes that it happened to."""
    events: int = 0
    """What happened in all: frames, turns of disks, alarms, calls of clients, decisions to do harm."""
    wordless_digest: str = ""
    """As the digest, without what the lines say: a change that only rewords the trace keeps it."""
