"""Small histories that are linearizable, and others that are not: both checkers must tell them apart."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.machine.histories.events import Event

A: Final = "r1-0/a"
G: Final = "p1-1"
PA: Final = "p1-1/a"
PB: Final = "p1-1/b"


def event(process: int, type_: str, f: str, value: Any, time: int) -> Event:
    """An event of a node that has the number of its process."""
    return Event(process=process, type=type_, f=f, value=value, time=time, node=process)


def call(process: int, f: str, asked: Any, begin: int, end: int | None, answer: Any = None) -> list[Event]:
    """A call and its answer; ``end`` None: its outcome is unknown. Without ``answer`` the answer repeats the call."""
    asked_event = event(process, "invoke", f, asked, begin)
    if end is None:
        return [asked_event]
    return [asked_event, event(process, "ok", f, asked if answer is None else answer, end)]


def read(process: int, value: int | None, begin: int, end: int, key: str = A) -> list[Event]:
    """A read that found this."""
    return call(process, "read", [key, None], begin, end, [key, value])


def write(process: int, value: int, begin: int, end: int | None, key: str = A) -> list[Event]:
    """A write."""
    return call(process, "write", [key, value], begin, end)


def cas(process: int, expected: int | None, value: int, begin: int, end: int | None, has_set: bool) -> list[Event]:
    """A compare-and-set."""
    return call(process, "cas", [A, [expected, value]], begin, end, [A, [expected, value], has_set])


def delete(process: int, begin: int, end: int | None, deleted: int) -> list[Event]:
    """A delete that found so many."""
    return call(process, "delete", [A, None], begin, end, [A, deleted])


def both(process: int, values: Sequence[int | None], begin: int, end: int) -> list[Event]:
    """A read of both keys of a group."""
    return call(process, "range", [G, None], begin, end, [G, list(values)])


def swap(process: int, a: int, b: int, begin: int, end: int | None, found: Sequence[int | None]) -> list[Event]:
    """A transaction that reads both keys and writes both, if b is 2 or does not exist; else it reads a."""
    then = [["r", PA, None], ["r", PB, None], ["w", PA, a], ["w", PB, b]]
    asked = {"if": [[PB, 2]], "then": then, "else": [["r", PA, None]]}
    succeeded = len(found) == 2
    reads = [["r", key, value] for key, value in zip((PA, PB), found, strict=False)]
    told = {**asked, **({"then": [*reads, *then[2:]]} if succeeded else {"else": reads})}
    return call(process, "txn", [G, asked], begin, end, [G, {**told, "succeeded": succeeded, "deleted": 0}])


LINEARIZABLE: Final[Mapping[str, list[list[Event]]]] = {
    "nothing happened": [],
    "one after the other": [write(1, 1, 0, 1), read(2, 1, 2, 3), delete(1, 4, 5, 1), read(2, None, 6, 7)],
    "a read beside a write": [write(1, 1, 0, 9), read(2, None, 1, 2), read(2, 1, 3, 4), read(3, 1, 5, 6)],
    "an open write, seen late": [write(1, 1, 0, None), write(2, 2, 1, 2), read(2, 2, 3, 4), read(2, 1, 5, 6)],
    "an open write, never seen": [write(1, 1, 0, None), write(2, 2, 1, 2), read(2, 2, 3, 4)],
    "a refused cas beside an open write": [write(1, 1, 0, 1), write(3, 2, 2, None), cas(2, 1, 3, 3, 4, False)],
    "a chain of cas": [cas(1, None, 1, 0, 1, True), cas(2, 1, 2, 2, 3, True), cas(1, 1, 3, 4, 5, False)],
    "two keys at once": [write(1, 1, 0, 1, PA), write(1, 2, 2, 3, PB), both(2, [1, 2], 4, 5)],
    "a transaction": [
        write(1, 1, 0, 1, PA),
        write(1, 2, 2, 3, PB),
        swap(2, 3, 4, 4, 5, [1, 2]),
        swap(2, 5, 6, 6, 7, [3]),
        both(1, [3, 4], 8, 9),
    ],
}
NOT_LINEARIZABLE: Final[Mapping[str, list[list[Event]]]] = {
    "a stale read on a follower": [
        write(1, 1, 0, 1),
        read(2, 1, 2, 3),
        write(1, 2, 4, 5),
        read(3, 2, 6, 7),
        read(2, 1, 8, 9),
    ],
    "a lost put": [write(1, 1, 0, 1), write(2, 2, 2, 3), read(1, 1, 4, 5), read(3, 1, 6, 7)],
    "a cas that was applied twice": [
        write(1, 1, 0, 1),
        cas(2, 1, 2, 2, 3, True),
        read(1, 2, 4, 5),
        write(1, 1, 6, 7),
        read(3, 1, 8, 9),
        read(1, 2, 10, 11),
    ],
    "a put that was applied twice": [write(1, 1, 0, 1), write(2, 2, 2, 3), read(1, 2, 4, 5), read(1, 1, 6, 7)],
    "a cas that succeeded wrongly": [write(1, 1, 0, 1), cas(2, 3, 4, 2, 3, True)],
    "a cas that was refused wrongly": [write(1, 1, 0, 1), cas(2, 1, 2, 2, 3, False)],
    "a delete that found too much": [write(1, 1, 0, 1), delete(1, 2, 3, 1), delete(2, 4, 5, 1)],
    "a failed write that was seen": [
        [event(1, "invoke", "write", [A, 7], 0), event(1, "fail", "write", [A, 7], 1)],
        read(2, 7, 2, 3),
    ],
    "an open write that was seen and lost": [write(1, 1, 0, None), read(2, 1, 1, 2), read(2, None, 3, 4)],
    "half of a transaction": [
        write(1, 1, 0, 1, PA),
        write(1, 2, 2, 3, PB),
        swap(2, 3, 4, 4, 9, [1, 2]),
        both(1, [3, 2], 5, 6),
    ],
    "a transaction of a former state": [
        write(1, 1, 0, 1, PA),
        write(1, 2, 2, 3, PB),
        write(1, 5, 4, 5, PA),
        swap(2, 3, 4, 6, 7, [1, 2]),
    ],
}


def history(calls: Sequence[Sequence[Event]]) -> list[Event]:
    """The events of these calls in the order of time."""
    events = [each for one in calls for each in one]
    return sorted(events, key=lambda each: (each.time, each.type != "invoke"))
