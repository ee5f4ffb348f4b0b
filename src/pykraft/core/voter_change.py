"""A change of the voters that a leader has begun: one at a time, forgotten when it is committed or out of time.

Data only; the rules are in ``core.on``. The record of a change that was given up may still be committed later.

Source: KIP-853 §AddRaftVoter, §RemoveRaftVoter, KIP-1186; Kafka ``AddVoterHandlerState``, ``RemoveVoterHandlerState``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pykraft.types import Offset, Voter


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """A voter to be: first asked what it supports, then written into the log at ``offset``.

    ``is_answered`` when the request wanted no more than the append. Deadline in mono ms.
    """

    request_id: int
    voter: Voter
    ack_when_committed: bool
    deadline_ms: int
    offset: Offset | None = None
    is_answered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A voter that the set at ``offset`` does not have any more. Deadline in mono ms."""

    request_id: int
    deadline_ms: int
    offset: Offset
    is_answered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """The static voters, written into the log at ``offset``. Deadline in mono ms."""

    request_id: int
    deadline_ms: int
    offset: Offset
    is_answered: bool = False


VoterChange: TypeAlias = Addition | Removal | Upgrade
