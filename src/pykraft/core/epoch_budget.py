"""How far, and how often, requests of others may raise the epoch of this replica.

An epoch is a number of 31 bits that never falls. Whoever reaches the port can name one, and one request with the last
epoch would end elections for good. So requests raise it only within a budget over time: `EPOCHS_PER_DAY`, with as much
in hand at the start. Honest elections need a few epochs in an hour; at this pace the epochs last for five years of
attack.

Raising it by one is enough to end a leadership. So a sender that raised it a few times, and under which nothing was
committed since, waits longer and longer until it is heard again: a stranger always, a voter only while the leader is
known to be alive. All strangers count as one sender, since an id costs nothing.

Pure data; times are mono ms. Bounded: one entry for each voter, and one for all others. It is forgotten at a restart.

Source: ours; Raft dissertation §6.2 (disruptive servers); Kafka adopts every epoch.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pykraft.types import NodeId

EPOCHS_PER_DAY = 2**20
DAY_MS = 86_400_000
FREE_RAISES = 3
"""How often a sender may raise the epoch before it has to wait."""
DOUBLINGS_MAX = 6
"""A pause is at most so many times doubled."""
STRANGERS = NodeId(-1)
"""The one entry of all senders that are no voters."""


@dataclass(frozen=True, slots=True)
class _Raises:
    count: int
    heard_again_ms: int
    """When the next one may raise the epoch (mono)."""


class EpochBudget:
    """Of one replica, since its start."""

    def __init__(self) -> None:
        self._left = EPOCHS_PER_DAY * DAY_MS
        self._refilled_ms: int | None = None
        self._raises: dict[NodeId, _Raises] = {}

    def spend(self, epochs: int, now_ms: int) -> bool:
        """Take so many epochs from the budget, if there are as many left."""
        before_ms = now_ms if self._refilled_ms is None else self._refilled_ms
        self._left = min(EPOCHS_PER_DAY * DAY_MS, self._left + (now_ms - before_ms) * EPOCHS_PER_DAY)
        self._refilled_ms = now_ms
        if epochs * DAY_MS > self._left:
            return False
        self._left -= epochs * DAY_MS
        return True

    def must_wait(self, sender: NodeId, now_ms: int) -> bool:
        """True while this sender, a voter's id or `STRANGERS`, is not heard."""
        raises = self._raises.get(sender)
        return raises is not None and now_ms < raises.heard_again_ms

    def raised(self, sender: NodeId, now_ms: int, pause_ms: int) -> int:
        """Note that it has raised the epoch; returns for how long it is not heard (ms).

        ``pause_ms`` is the first pause. Who was quiet for as long as the longest one begins anew.
        """
        longest_ms = pause_ms << DOUBLINGS_MAX
        before = self._raises.get(sender)
        is_old = before is not None and now_ms - before.heard_again_ms >= longest_ms
        count = 1 if before is None or is_old else before.count + 1
        over = count - FREE_RAISES
        wait_ms = pause_ms << min(over - 1, DOUBLINGS_MAX) if over > 0 else 0
        self._raises[sender] = _Raises(count, now_ms + wait_ms)
        return wait_ms

    def won(self, sender: NodeId) -> None:
        """Something was committed under this leader: it raised the epoch for a reason."""
        self._raises.pop(sender, None)

    def keep(self, voters: Collection[NodeId]) -> None:
        """Forget who is no voter any more."""
        self._raises = {sender: raises for sender, raises in self._raises.items() if sender in (STRANGERS, *voters)}
