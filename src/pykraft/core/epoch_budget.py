"""How far, and how often, messages of other nodes may raise this replica's epoch.

The epoch is an int31 that never decreases, and anyone who reaches the port can name one. A single message with the
highest epoch would end all elections for good. So messages raise the epoch only within a budget: `EPOCHS_PER_DAY`, with
one day's worth at the start, and only so far at a time (`EPOCHS_BY_REQUESTS`, `EPOCHS_AT_ONCE`). Normal elections need
a few epochs per hour; under attack, this budget makes the epochs last for five years.

Raising the epoch by one already ends a leadership. So a sender that raised it a few times waits longer and longer until
its requests count again. Nobody signs a request, so this counts the name in it, which may be forged; a commit under
that leader does not clear it. All strangers count as one sender, since an id costs nothing.

Data only; times are mono ms. One entry for each voter and one for all others. A restart forgets it.

Source: ours; Raft dissertation §6.2 (disruptive servers); Kafka adopts every epoch.
"""

from collections.abc import Collection
from dataclasses import dataclass

from pykraft.types import Endpoint, Epoch, NodeId

EPOCHS_PER_DAY = 2**20
EPOCHS_AT_ONCE = 1_000
"""No answer is believed that raises the epoch by more, unless another endpoint tells as much."""
EPOCHS_BY_REQUESTS = EPOCHS_AT_ONCE // 2
"""How far requests may raise it above the last epoch in this log, in which somebody was elected.

Whoever they misled, however often and over restarts, then stays so near to the others that its answers are believed.
"""
DAY_MS = 86_400_000
FREE_RAISES = 3
"""How often a sender may raise the epoch before its first pause."""
DOUBLINGS_MAX = 6
"""How often a pause may double."""
STRANGERS = NodeId(-1)
"""The sender id that stands for all senders outside the voter set."""


@dataclass(frozen=True, slots=True)
class _Raises:
    count: int
    heard_again_ms: int
    """When the sender may raise the epoch again (mono)."""


class EpochBudget:
    """The budget of one replica since its start."""

    def __init__(self) -> None:
        # Counted in epochs * DAY_MS, so that the refill per millisecond is a whole number.
        self._left = EPOCHS_PER_DAY * DAY_MS
        self._refilled_ms: int | None = None
        self._raises: dict[NodeId, _Raises] = {}
        self._asked_ms: dict[NodeId, int] = {}
        self._silent_since_ms: dict[NodeId, int] = {}
        """When each voter that has not answered since was first asked about a doubted request."""
        self._believed_ms: dict[NodeId, int] = {}
        """When a request in the name of a voter that cannot be asked was last believed."""
        self.told: dict[Endpoint, Epoch] = {}
        """The epochs, too high to be believed from one peer alone, that answers from these endpoints told."""
        self.alarmed_ms: int | None = None
        """When the last alarm about a refused epoch was raised (mono ms)."""

    def spend(self, epochs: int, now_ms: int) -> bool:
        """Take this many epochs from the budget; False when fewer are left."""
        before_ms = now_ms if self._refilled_ms is None else self._refilled_ms
        self._left = min(EPOCHS_PER_DAY * DAY_MS, self._left + (now_ms - before_ms) * EPOCHS_PER_DAY)
        self._refilled_ms = now_ms
        if epochs * DAY_MS > self._left:
            return False
        self._left -= epochs * DAY_MS
        return True

    def must_wait(self, sender: NodeId, now_ms: int) -> bool:
        """True while this sender, a voter's id or `STRANGERS`, may not raise the epoch."""
        raises = self._raises.get(sender)
        return raises is not None and now_ms < raises.heard_again_ms

    def raised(self, sender: NodeId, now_ms: int, pause_ms: int) -> int:
        """Note that the sender raised the epoch; returns how long it must now wait (ms).

        ``pause_ms`` is the first pause. A sender that was quiet for as long as the longest pause starts over.
        """
        longest_ms = pause_ms << DOUBLINGS_MAX
        before = self._raises.get(sender)
        is_old = before is not None and now_ms - before.heard_again_ms >= longest_ms
        count = 1 if before is None or is_old else before.count + 1
        over = count - FREE_RAISES
        wait_ms = pause_ms << min(over - 1, DOUBLINGS_MAX) if over > 0 else 0
        self._raises[sender] = _Raises(count, now_ms + wait_ms)
        return wait_ms

    def may_ask(self, voter: NodeId, now_ms: int, pause_ms: int) -> bool:
        """True when this voter was last asked about a doubted request at least ``pause_ms`` ago."""
        asked_ms = self._asked_ms.get(voter)
        return asked_ms is None or now_ms - asked_ms >= pause_ms

    def asked(self, voter: NodeId, now_ms: int) -> None:
        self._asked_ms[voter] = now_ms
        self._silent_since_ms.setdefault(voter, now_ms)

    def answered(self, peer_id: int) -> None:
        """A peer answered: it can be asked."""
        self._silent_since_ms.pop(NodeId(peer_id), None)

    def believe_silent(self, voter: NodeId, now_ms: int, *, silence_ms: int, pause_ms: int) -> bool:
        """True when this voter does not answer for so long, and was not believed for the longest pause; now it is."""
        since_ms, last_ms = self._silent_since_ms.get(voter), self._believed_ms.get(voter)
        if since_ms is None or now_ms - since_ms < silence_ms:
            return False
        if last_ms is not None and now_ms - last_ms < pause_ms << DOUBLINGS_MAX:
            return False
        self._believed_ms[voter] = now_ms
        return True

    def keep(self, voters: Collection[NodeId]) -> None:
        """Forget senders that are no longer voters."""
        kept = {STRANGERS, *voters}
        self._raises = {sender: raises for sender, raises in self._raises.items() if sender in kept}
        for by_voter in (self._asked_ms, self._silent_since_ms, self._believed_ms):
            for voter in by_voter.keys() - kept:
                del by_voter[voter]
