"""Our checker: judges each group of a history by itself, and makes what it refuses as small as it can.

A group is linearizable if an order of its calls explains all answers. Invariant: what `smallest` keeps is refused for
a reason of the whole history: it may leave answers out, and changes of which nobody tells who stays.

Source: `pykraft.sim.facts.history`; Zeller, "Yesterday, my program worked" (1999) for the idea of the latter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pykraft.sim.facts.history import SearchVerdict, check
from tests.machine.histories.events import Call, Event, by_group, calls_of
from tests.machine.histories.model import StoreModel, deed_of, object_call

STEPS_MAX: Final = 1_000_000
"""Steps of the search for one group; most take a few for each call."""
STEPS_WHILE_SMALLER: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """``refused`` and ``undecided`` name groups; the calls of each refused one are as few as possible."""

    groups: int
    calls: int
    open_calls: int
    refused: Mapping[str, Sequence[Call]]
    undecided: Sequence[str]


def judge(events: Sequence[Event], *, is_smaller_wanted: bool = True) -> Judgement:
    """Judge a whole history."""
    calls = calls_of(events)
    groups = by_group(calls)
    verdicts = {name: search(found) for name, found in groups.items()}
    refused = [name for name, verdict in verdicts.items() if verdict is SearchVerdict.NOT_LINEARIZABLE]
    return Judgement(
        groups=len(groups),
        calls=len(calls),
        open_calls=sum(call.is_open for call in calls),
        refused={name: smallest(groups[name]) if is_smaller_wanted else groups[name] for name in refused},
        undecided=[name for name, verdict in verdicts.items() if verdict is SearchVerdict.UNDECIDED],
    )


def search(calls: Sequence[Call], *, steps_max: int = STEPS_MAX) -> SearchVerdict:
    """Look for an order of one group's calls.

    Open calls make a search long, and most of them left no trace. So it is tried without those first: an order of the
    others is an order of all, since an open call may never take effect.
    """
    seen = {told for call in calls for told in deed_of(call).saw}
    traced = [call for call in calls if not call.is_open or seen.intersection(deed_of(call).changes)]
    verdict = _searched(traced, steps_max)
    if verdict is SearchVerdict.LINEARIZABLE or len(traced) == len(calls):
        return verdict
    return _searched(calls, steps_max)


def smallest(calls: Sequence[Call]) -> list[Call]:
    """As few of a refused group's calls as are still refused."""
    kept = _without(_shortest_begin(calls))
    for at in reversed(range(len(kept))):
        forgotten = [*kept[:at], _forgotten(kept[at]), *kept[at + 1 :]]
        if kept[at].answer is not None and _is_refused(forgotten):
            kept = forgotten
    return _without(kept)


def is_smallest(calls: Sequence[Call]) -> bool:
    """Whether these calls are refused, and each of them is needed for that."""
    return _is_refused(calls) and not any(_is_superfluous(calls, at) for at in range(len(calls)))


def _without(kept: list[Call]) -> list[Call]:
    """Without the calls that may be missing, as long as the rest is refused: many at once first."""
    for size in (64, 16, 4):
        kept = _without_some(kept, size)
    while len(less := _without_some(kept, 1)) < len(kept):  # a change may leave after the last one who tells of it
        kept = less
    return kept


def _without_some(kept: list[Call], size: int) -> list[Call]:
    for at in range(len(kept) - size, -1, -size):
        if _is_superfluous(kept, at, size):
            kept = [*kept[:at], *kept[at + size :]]
    return kept


def _is_superfluous(kept: Sequence[Call], at: int, size: int = 1) -> bool:
    """Whether the others are refused without these calls."""
    rest = [*kept[:at], *kept[at + size :]]
    return _may_be_missing(kept[at : at + size], rest) and _is_refused(rest)


def _forgotten(call: Call) -> Call:
    """Without its answer; its process called more afterwards, so the call gets a process of its own."""
    return call if call.answer is None else Call(replace(call.invoke, process=call.invoke.time), None)


def _shortest_begin(calls: Sequence[Call]) -> list[Call]:
    """The calls up to the first answer that nothing explains: later answers are taken as not yet given."""
    times = sorted(call.answer.time for call in calls if call.answer is not None and not call.is_open)
    low, high = 0, len(times) - 1
    while low < high:
        middle = (low + high) // 2
        if _is_refused(_until(calls, times[middle])):
            high = middle
        else:
            low = middle + 1
    return _until(calls, times[low])


def _until(calls: Sequence[Call], time: int) -> list[Call]:
    found = []
    for call in calls:
        if call.invoke.time <= time:
            has_answer = call.answer is not None and not call.is_open and call.answer.time <= time
            found.append(call if has_answer else Call(call.invoke, None))
    return found


def _may_be_missing(gone: Sequence[Call], rest: Sequence[Call]) -> bool:
    """True unless somebody who stays tells of what one who goes changed."""
    changes = {change for call in gone for change in deed_of(call).changes}
    keys = {key for key, _ in changes}
    deeds = [deed_of(call) for call in rest] if changes else []
    return not any(changes & deed.saw or keys & deed.met_some_other for deed in deeds)


def _is_refused(calls: Sequence[Call]) -> bool:
    return search(calls, steps_max=STEPS_WHILE_SMALLER) is SearchVerdict.NOT_LINEARIZABLE


def _searched(calls: Sequence[Call], steps_max: int) -> SearchVerdict:
    return check([object_call(call) for call in calls], StoreModel(), steps_max=steps_max)
