"""What clients called and were told, one line of JSON for each event, with the keys of Jepsen's histories.

    {"index": 7, "process": 1003, "type": "invoke", "f": "cas", "value": ["p12-1/a", [3, 7]], "time": 8123,
     "node": 2, "leads": false}

``type`` is invoke, ok, fail (certainly not applied) or info (unknown: it may be applied at any later time). ``time`` is
in nanoseconds of the machine's monotonic clock, which all its processes share. A process has one call at a time, and
none after an info. ``leads`` says whether the node of the client led then, as far as it knew. An invoke without an
answer, since its program was killed, is as open as one with an info.

| f | value | value when it is ok |
|---|---|---|
| read | [key, null] | [key, value] |
| write | [key, value] | the same |
| delete | [key, null] | [key, how many keys there were] |
| cas | [key, [expected, value]] | [key, [expected, value], whether it was the expected one] |
| range | [group, null] | [group, [value of a, value of b]] |
| txn | [group, {"if": [[key, value]], "then": [micro-operation], "else": [micro-operation]}] | as below |

A micro-operation is ["r", key, null], ["w", key, value] or ["d", key]. The answer to a txn has what each "r" of the
chosen branch found, and also "succeeded" and "deleted". A value is a whole number, or null for a key that does not
exist. The keys of a group, ``<group>/a`` and ``<group>/b``, are judged together, and groups apart from each other.

Source: Jepsen's and Knossos' histories; Herlihy and Wing, "Linearizability" (TOPLAS 1990), for locality.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

TYPES: Final = ("invoke", "ok", "fail", "info")
NAMES: Final = ("process", "type", "f", "value", "time", "node", "leads")
KINDS: Final = ("read", "write", "delete", "cas", "range", "txn")


@dataclass(frozen=True, slots=True)
class Event:
    """One line."""

    process: int
    type: str
    f: str
    value: Any
    time: int
    node: int
    leads: bool = False

    @property
    def group(self) -> str:
        """The group that it concerns."""
        return str(self.value[0]).partition("/")[0]


@dataclass(frozen=True, slots=True)
class Call:
    """An invoke and its answer; None while it has none."""

    invoke: Event
    answer: Event | None

    @property
    def is_open(self) -> bool:
        """True if nobody knows whether it was applied."""
        return self.answer is None or self.answer.type == "info"

    @property
    def events(self) -> list[Event]:
        """Its lines."""
        return [self.invoke] if self.answer is None else [self.invoke, self.answer]


def merged(files: Iterable[Path]) -> list[Event]:
    """All events of these files, in the order of time. Other lines, and one that a kill tore, are left out."""
    events = []
    for file in files:
        for line in file.read_bytes().split(b"\n")[:-1]:
            found = json.loads(line)
            if found["type"] in TYPES:
                events.append(Event(**{name: found[name] for name in NAMES}))
    return sorted(events, key=lambda event: (event.time, event.type != "invoke"))


def written(events: Iterable[Event], file: Path) -> Path:
    """Write a history; returns the file."""
    with file.open("w") as out:
        for index, event in enumerate(events):
            out.write(json.dumps({"index": index, **_plain(event)}, separators=(",", ":")) + "\n")
    return file


def calls_of(events: Sequence[Event]) -> list[Call]:
    """All calls in the order of their invokes, without those that failed: they were certainly not applied.

    Errors: ValueError for an answer without a call, and a second call of a process that has one.
    """
    waiting: dict[int, Event] = {}
    answers: dict[int, Event] = {}
    order: list[tuple[int, Event]] = []
    for event in events:
        if event.type == "invoke":
            if event.process in waiting:
                raise ValueError(f"process {event.process} has a call already: {event}")
            waiting[event.process] = event
            order.append((id(event), event))
        elif event.process not in waiting:
            raise ValueError(f"process {event.process} has no call: {event}")
        elif event.type == "info":
            answers[id(waiting[event.process])] = event  # and it stays: a process calls nothing after an info
        else:
            answers[id(waiting.pop(event.process))] = event
    calls = [Call(invoke, answers.get(at)) for at, invoke in order]
    return [call for call in calls if call.answer is None or call.answer.type != "fail"]


def by_group(calls: Iterable[Call]) -> Mapping[str, list[Call]]:
    """The calls of each group."""
    groups: dict[str, list[Call]] = {}
    for call in calls:
        groups.setdefault(call.invoke.group, []).append(call)
    return groups


def in_order(calls: Iterable[Call]) -> list[Event]:
    """The events of some calls, in the order of time."""
    events = [event for call in calls for event in call.events]
    return sorted(events, key=lambda event: (event.time, event.type != "invoke"))


def edn(events: Iterable[Event]) -> list[str]:
    """A group of one key as Knossos reads it, for its model cas-register: one map of EDN a line.

    A delete writes nil there, and a cas that found another value fails. Errors: ValueError for a group of two keys.
    """
    lines = []
    for index, event in enumerate(events):
        kind, value, type_ = event.f, event.value[1], event.type
        if kind in {"range", "txn"}:
            raise ValueError(f"{event.group} has two keys: Knossos' model has one")
        if kind == "delete":
            kind, value = "write", None
        elif kind == "cas" and type_ == "ok" and not event.value[2]:
            type_ = "fail"
        told = f"[{' '.join(map(_nil, value))}]" if kind == "cas" else _nil(value)
        lines.append(
            f"{{:index {index}, :process {event.process}, :type :{type_}, :f :{kind}, :value {told}, "
            f":time {event.time}}}"
        )
    return lines


def _nil(value: int | None) -> str:
    return "nil" if value is None else str(value)


def _plain(event: Event) -> dict[str, Any]:
    return {name: getattr(event, name) for name in NAMES}
