"""A voter change that a leader has started: one at a time, dropped when it commits or times out.

Data only; the rules are in ``core.on``. The record of a change that timed out may still commit later. A change with
``is_answered`` has had its response, and only keeps other changes away until it commits.

Source: KIP-853 §AddRaftVoter, §RemoveRaftVoter, KIP-1186, KAFKA-20661; Kafka ``AddVoterHandlerState``,
``RemoveVoterHandlerState``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pykraft.types import Offset, Voter


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """A new voter: first asked for its supported levels, then appended in a voter set at ``offset``.

    With ``ack_when_committed`` the request is answered when that set commits, otherwise when it is appended.
    Deadline in mono ms.
    """

    request_id: int
    voter: Voter
    ack_when_committed: bool
    deadline_ms: int
    offset: Offset | None = None
    is_answered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What a voter told of itself: first asked for its supported levels at its new endpoint, then in force.

    At level 1 it is in the voter set at ``offset``, and the request is answered when that is appended; at level 0 it
    is in the leader's memory, and the change ends. The answer names the leader's endpoints on ``listener``, where the
    request came in. Deadline in mono ms.
    """

    request_id: int
    listener: str
    voter: Voter
    deadline_ms: int
    ask_ms: int | None = None
    """When a voter that moved is asked, unless it fetches before (mono ms); None once it was asked."""
    offset: Offset | None = None
    is_answered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A voter that the voter set at ``offset`` no longer contains. Deadline in mono ms."""

    request_id: int
    deadline_ms: int
    offset: Offset
    is_answered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """The upgrade record with the static voters, at ``offset``. Deadline in mono ms."""

    request_id: int
    deadline_ms: int
    offset: Offset
    is_answered: bool = False


VoterChange: TypeAlias = Addition | Update | Removal | Upgrade
