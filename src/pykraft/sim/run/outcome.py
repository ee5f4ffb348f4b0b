"""The result of one world that broke no rule."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The counts and digests of one run."""

    seed: int
    voters: int
    observers: int
    committed: int
    acknowledged: int
    epochs: int
    faults: dict[str, int]
    digest: str
    """Covers all lines of the trace and all frames that arrived."""
    virtual_ms: int
    states: dict[str, dict[str, int]] = field(default_factory=dict)
    """By kind of fault: how often it hit a node in each role."""
    events: int = 0
    """Number of all events: frames, disk turns, timers, client calls, fault decisions."""
    wordless_digest: str = ""
    """The digest without the text of the trace lines: rewording a message does not change it."""
