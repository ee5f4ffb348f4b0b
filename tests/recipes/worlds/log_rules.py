"""What must hold at every position of the log of a world whose programs use the recipes; no clock counts here.

Keys of the programs: those of the recipes, ``fenced`` with the token of its last writer, and ``ended/N``, the effect of
a job.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from pykraft.errors import CommandRejectedError
from pykraft.machine.testing.recorded import AppliedCall
from pykraft.recipes import Item, KeyChange, KeyValues
from pykraft.recipes.coordination import AFTER_DIGITS, namespace
from pykraft.sim.invariants.violation import ViolationError
from tests.recipes.worlds.model import StoreModel

LOCKS: Final = (namespace("lock", "lock"), namespace("lock", "chief"))
MAIL: Final = namespace("queue", "mail")
START: Final = namespace("barrier", "start")
ATTEMPTS: Final = 2
HELD_MS_MAX: Final = 2_500
"""Log time: a program holds a lock or a job for half of that, and what it does not hold any more it gives up."""
PARTIES: Final = 2


class LogRules:
    """Follows the log with a model, and judges each change."""

    def __init__(self, changes_max: int, digest_of: Callable[[Sequence[bytes]], str]) -> None:
        self.model = StoreModel(changes_max)
        self.holders: dict[str, list[tuple[int, str | None]]] = {name: [(0, None)] for name in LOCKS}
        """Who held each lock from when on (true time in µs, as the first replica applied it)."""
        self.workers: dict[tuple[int, int], str] = {}
        """The worker of each token with which a job was taken, by token and number."""
        self._digest_of = digest_of
        self._seen = 0
        self._held: dict[tuple[str, int], int] = {}
        """The log time since which somebody holds a lock, or a job with this claim."""
        self._candidates: Counter[tuple[str, str]] = Counter()

    def applied(self, call: AppliedCall, now_us: int) -> None:
        """The first replica has applied this. Errors: ViolationError."""
        self.model.elapse(call.context.time_ms)
        before = dict(self.model.items)
        if call.command is not None:
            self._compare_answer(call)
        if self._digest_of(self.model.records()) != call.digest:
            raise ViolationError("StoreIsAsTold", f"the store differs from its model after {call.story}")
        changes, self._seen = self.model.history[self._seen :], len(self.model.history)
        for change in changes:
            self._look_at(change, before)
        self._look_at_barrier(changes, before)
        for name, known in self.holders.items():
            keys = self.model.keys(name, name + AFTER_DIGITS)
            holder = self.model.items[keys[0]].value if keys else None
            if holder != known[-1][1]:
                known.append((now_us, holder))

    def check_progress(self, time_ms: int) -> None:
        """Nobody holds a lock or a job for ever. Errors: ViolationError."""
        held = {
            key: item.created
            for key, item in self.model.items.items()
            if item.value and key.startswith(f"{MAIL}claim/")
        }
        for name in LOCKS:
            if keys := self.model.keys(name, name + AFTER_DIGITS):
                held[keys[0]] = 0
        self._held = {at: self._held.get(at, time_ms) for at in held.items()}
        for (key, _), since_ms in self._held.items():
            if time_ms - since_ms > HELD_MS_MAX:
                raise ViolationError("NothingIsHeldForEver", f"{key} is held since {since_ms}, and it is {time_ms}")

    def lost_jobs(self, acknowledged: Sequence[int]) -> list[int]:
        """The jobs that were put, and neither wait nor were ended."""
        items = self.model.items
        return [
            one
            for one in acknowledged
            if not {f"{MAIL}job/{one:016d}", f"{MAIL}buried/{one:016d}", f"ended/{one}"} & items.keys()
        ]

    def _compare_answer(self, call: AppliedCall) -> None:
        try:
            result = self.model.apply(call.command, call.offset, call.context.time_ms)
        except CommandRejectedError:
            if not call.answer.startswith("rejected: "):
                raise ViolationError("StoreIsAsTold", f"{call.story} was not rejected: {call.answer}") from None
            return
        expected = repr(KeyValues.results.serialize(result))
        if call.answer != expected:
            raise ViolationError("StoreIsAsTold", f"{call.story} has the result {call.answer}, not {expected}")

    def _look_at(self, change: KeyChange, before: dict[str, Item]) -> None:
        item, key = change.item, change.key
        if item is not None and key.startswith(LOCKS) and item.version == 1 and "/own/" not in key:
            name = key.rpartition("/")[0]
            self._candidates[name, item.value] += 1
            if self._candidates[name, item.value] > 1:
                raise ViolationError("OneTokenPerCandidate", f"{item.value} waits for {name} a second time, with {key}")
        if item is not None and key == "fenced":
            former = before.get(key)
            if former is not None and int(item.value) < int(former.value):
                raise ViolationError("TokensGrow", f"token {item.value} wrote after {former.value}")
            holders = [one for one in before if one.startswith(LOCKS[0]) and "/own/" not in one]
            if not holders or int(min(holders).rpartition("/")[2]) != int(item.value):
                raise ViolationError(
                    "OneHolder", f"token {item.value} wrote while {min(holders, default=None)} holds it"
                )
        if item is not None and key.startswith(f"{MAIL}tries/") and not 0 <= int(item.value) <= ATTEMPTS:
            raise ViolationError("AttemptsAreCounted", f"{key} counts {item.value}")
        if item is not None and key.startswith(f"{MAIL}claim/"):
            former = before.get(key)
            if former is not None and former.lease in self.model.leases and item.version == 1:
                raise ViolationError("OneWorker", f"{key} was claimed by two")
        if item is not None and key.startswith("ended/"):
            if item.version > 1:
                raise ViolationError("JobEndsOnce", f"job {key} ended twice")
            number = key.partition("/")[2]
            claim = before.get(f"{MAIL}claim/{int(number):016d}")
            owner = None if claim is None else self.workers.get((claim.created, int(number)))
            if owner != item.value:
                raise ViolationError("JobOfItsWorker", f"job {number} was ended by {item.value}, and {owner} has it")

    def _look_at_barrier(self, changes: Sequence[KeyChange], before: dict[str, Item]) -> None:
        marked = [
            one.item
            for one in changes
            if one.item and one.key.startswith(START) and one.item.version > 1 and "/own/" not in one.key
        ]
        if not marked:
            return
        places = sorted(item.value for item in marked)
        if places != [str(place) for place in range(PARTIES)] or any(item.version > 2 for item in marked):
            raise ViolationError(
                "BarrierOpensOnce", f"places {places} of {PARTIES} parties at revision {marked[0].modified}"
            )
        if any(item.lease not in self.model.leases for item in marked):
            raise ViolationError("BarrierCountsTheLiving", f"{marked[0].key} opened for a party without a lease")
