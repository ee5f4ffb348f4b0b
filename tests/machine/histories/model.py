"""The key-value store as a function, for a search of an order: what one call does to a group of keys.

Every call is a transaction: conditions, what happens if they hold, and otherwise; and what its caller was told of it.
Gets find what was there before the transaction, as in `pykraft.recipes.Transaction`. Invariant: an open call, whose
caller was told nothing, fits every state.

Source: ours (ADR 087).
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

from pykraft.sim.facts.history import NEVER_US, ObjectCall
from tests.machine.histories.events import Call

Value: TypeAlias = int | None
Micro: TypeAlias = tuple[Any, ...]
"""("r", key), ("w", key, value) or ("d", key)."""


@dataclass(frozen=True, slots=True)
class Deed:
    """One call. What was told of it is None for an open call."""

    then: tuple[Micro, ...]
    conditions: tuple[tuple[str, Value], ...] = ()
    otherwise: tuple[Micro, ...] = ()
    is_open: bool = False
    succeeded: bool | None = None
    found: tuple[Value, ...] | None = None
    deleted: int | None = None

    @property
    def chosen(self) -> tuple[Micro, ...]:
        """What it did; of an open call, what it may have done."""
        if self.succeeded is None:
            return (*self.then, *self.otherwise)
        return self.then if self.succeeded else self.otherwise

    @property
    def changes(self) -> set[tuple[str, Value]]:
        """The keys that it changed, or may have changed, and their values; None for a deletion."""
        return {(each[1], each[2] if each[0] == "w" else None) for each in self.chosen if each[0] != "r"}

    @property
    def saw(self) -> set[tuple[str, Value]]:
        """The keys and values that it tells of: what it found, and what it expected and met."""
        read = [each[1] for each in self.chosen if each[0] == "r"]
        told = set() if self.found is None else set(zip(read, self.found, strict=True))
        if self.succeeded:
            told |= set(self.conditions)
        return told | ({(key, None) for key in self._deleted_keys} if self.deleted == 0 else set())

    @property
    def met_some_other(self) -> set[str]:
        """The keys of which it tells that they had some value, or another one, and not which."""
        if self.succeeded is False:
            return {key for key, _ in self.conditions}
        return self._deleted_keys if self.deleted else set()

    @property
    def _deleted_keys(self) -> set[str]:
        return {each[1] for each in self.chosen if each[0] == "d"}


class StoreModel:
    """A group's states are numbered as they are met; 0 is the group without any key."""

    def __init__(self) -> None:
        self._states: list[dict[str, int]] = [{}]
        self._numbers: dict[tuple[tuple[str, int], ...], int] = {(): 0}

    def __call__(self, number: int, what: tuple[Any, ...]) -> int | None:
        """See `pykraft.sim.facts.history.Object`."""
        [deed] = what
        state = self._states[number]
        succeeded = all(state.get(key) == value for key, value in deed.conditions)
        chosen = deed.then if succeeded else deed.otherwise
        if not deed.is_open:
            if deed.succeeded is not None and deed.succeeded != succeeded:
                return None
            if deed.found is not None and deed.found != tuple(state.get(one[1]) for one in chosen if one[0] == "r"):
                return None
        after, deleted = dict(state), 0
        for one in chosen:
            if one[0] == "w":
                after[one[1]] = one[2]
            elif one[0] == "d":
                deleted += after.pop(one[1], None) is not None
        if not deed.is_open and deed.deleted is not None and deed.deleted != deleted:
            return None
        return self._numbered(after)

    def _numbered(self, state: dict[str, int]) -> int:
        found = tuple(sorted(state.items()))
        number = self._numbers.setdefault(found, len(self._states))
        if number == len(self._states):
            self._states.append(state)
        return number


def object_call(call: Call) -> ObjectCall:
    """A call for the search; its times are in nanoseconds."""
    ended = NEVER_US if call.is_open or call.answer is None else call.answer.time
    return ObjectCall(call.invoke.time, ended, (deed_of(call),))


def deed_of(call: Call) -> Deed:
    """What the call does, and what was told of it. Errors: ValueError for an unknown ``f``."""
    f, (name, asked) = call.invoke.f, call.invoke.value[:2]
    told = None if call.is_open or call.answer is None else call.answer.value
    if f == "read":
        return Deed((("r", name),), is_open=told is None, found=None if told is None else (told[1],))
    if f == "write":
        return Deed((("w", name, asked),), is_open=told is None)
    if f == "delete":
        return Deed((("d", name),), is_open=told is None, deleted=None if told is None else told[1])
    if f == "cas":
        expected, value = asked
        succeeded = None if told is None else told[2]
        return Deed((("w", name, value),), ((name, expected),), is_open=told is None, succeeded=succeeded)
    if f == "range":
        both = (("r", f"{name}/a"), ("r", f"{name}/b"))
        return Deed(both, is_open=told is None, found=None if told is None else tuple(told[1]))
    if f == "txn":
        return _transaction(asked, None if told is None else told[1])
    raise ValueError(f"{f} is not a call of the store")


def _transaction(asked: dict[str, Any], told: dict[str, Any] | None) -> Deed:
    conditions = tuple((key, value) for key, value in asked["if"])
    then, otherwise = (tuple(map(_micro, asked[branch])) for branch in ("then", "else"))
    if told is None:
        return Deed(then, conditions, otherwise, is_open=True)
    chosen = told["then" if told["succeeded"] else "else"]
    found = tuple(one[2] for one in chosen if one[0] == "r")
    return Deed(then, conditions, otherwise, succeeded=told["succeeded"], found=found, deleted=told["deleted"])


def _micro(one: list[Any]) -> Micro:
    return tuple(one) if one[0] == "w" else (one[0], one[1])
