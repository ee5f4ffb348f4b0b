"""Who holds what at this moment of true time: leases, locks and jobs that programs believe to be theirs.

A program that did not run meanwhile, or whose clock goes wrong, hears too late that it lost what it held; the docs say
so. Invariant: whoever is judged ran all the time, by right clocks.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pykraft.machine.testing.workload import ProcessSeat
from pykraft.sim.facts.facts import Facts
from pykraft.sim.invariants.violation import ViolationError
from pykraft.sim.machine.node import Process, SimulatedNode
from tests.recipes.worlds.model import StoreModel


@dataclass(frozen=True, slots=True, eq=False)
class Holding:
    """Something that a program holds; ``is_there`` says whether the store agrees."""

    name: str
    machine: SimulatedNode
    process: Process | None
    asked_us: int
    is_there: Callable[[StoreModel], bool]


class Holdings:
    """All holdings of a world."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._open: list[Holding] = []
        self._tokens: dict[str, list[int]] = {}

    @contextmanager
    def held(
        self, name: str, seat: ProcessSeat, asked_us: int, is_there: Callable[[StoreModel], bool]
    ) -> Iterator[None]:
        """In this block a program holds something that it asked for at that time. Errors: ViolationError."""
        new = Holding(name, seat.machine, seat.machine.process, asked_us, is_there)
        for other in self._open:
            if other.name == name and self._is_judged(other) and self._is_judged(new):
                seen = f"node {new.machine.node_id} has {name}, and so has node {other.machine.node_id}"
                raise ViolationError("OneHolderAtATime", seen)
        self._open.append(new)
        try:
            yield
        finally:
            self._open.remove(new)

    def token(self, name: str, token: int, seat: ProcessSeat, asked_us: int) -> None:
        """A program holds a lock with this fencing token. Errors: ViolationError."""
        tokens = self._tokens.setdefault(name, [])
        if token in tokens:
            raise ViolationError(
                "TokensAreNew", f"node {seat.machine.node_id} has token {token} of {name}, as another had"
            )
        is_late = self.is_skewed or seat.machine.was_paused_since(asked_us)
        if tokens and token < max(tokens) and not is_late:
            raise ViolationError(
                "TokensGrow", f"node {seat.machine.node_id} has token {token} of {name} after {max(tokens)}"
            )
        tokens.append(token)

    def check(self, model: StoreModel) -> None:
        """The store has changed: nobody holds what is no longer there. Errors: ViolationError."""
        for one in self._open:
            if not one.is_there(model) and self._is_judged(one):
                seen = f"node {one.machine.node_id} still holds {one.name}, which has ended in the log"
                raise ViolationError("HolderGivesUpFirst", seen)

    @property
    def is_skewed(self) -> bool:
        """Whether clocks went wrong in this world."""
        return self._facts.counts["clock skew"] > 0

    def _is_judged(self, one: Holding) -> bool:
        lives = one.machine.process is one.process
        return lives and not self.is_skewed and not one.machine.was_paused_since(one.asked_us)
