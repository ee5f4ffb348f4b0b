"""Our checker refuses what no order explains, and shows the smallest part of it."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.sim.facts.history import SearchVerdict, check
from tests.machine.histories.cases import LINEARIZABLE, NOT_LINEARIZABLE, A, history, read, write
from tests.machine.histories.events import Call, Event, calls_of
from tests.machine.histories.judge import is_smallest, judge, search, smallest
from tests.machine.histories.model import StoreModel, object_call


@pytest.mark.parametrize("name", LINEARIZABLE)
def test_a_history_with_an_order_passes(name: str) -> None:
    judgement = judge(history(LINEARIZABLE[name]))
    assert (judgement.refused, judgement.undecided) == ({}, [])


@pytest.mark.parametrize("name", NOT_LINEARIZABLE)
def test_a_history_without_one_is_refused(name: str) -> None:
    [(group, calls)] = judge(history(NOT_LINEARIZABLE[name])).refused.items()
    assert {call.invoke.group for call in calls} == {group}
    assert len(calls) <= len(NOT_LINEARIZABLE[name])


def noise(count: int, rng: Random) -> list[list[Event]]:
    """Clients that write unique values one after the other, and readers that find them."""
    calls = []
    for number in range(count):
        begin = 10 * number
        calls.append(write(1, 1_000 + number, begin, begin + rng.randrange(2, 9)))
        calls.append(read(2, 1_000 + number, begin + 9, begin + 9))
    return calls


def test_of_a_long_history_only_the_part_remains_that_shows_it() -> None:
    begin, rng = 4_000, Random(1)
    stale = [write(1, 1, begin, begin + 1), write(3, 2, begin + 2, begin + 3), read(2, 1, begin + 4, begin + 5)]
    later = [[*read(2, 5, begin + 6, begin + 7)], write(1, 5, begin + 6, begin + 7)]
    kept = judge(history([*noise(150, rng), *stale, *later])).refused["r1-0"]
    assert [(call.invoke.f, call.invoke.value) for call in kept] == [
        ("write", [A, 1]),
        ("write", [A, 2]),
        ("read", [A, None]),
    ]


def test_a_change_stays_while_somebody_tells_of_it() -> None:
    """Without the write of 2 this would be refused as well, for another reason."""
    calls = calls_of(history([write(1, 2, 0, 1), read(1, 2, 2, 3), write(1, 3, 4, 5), read(1, 2, 6, 7)]))
    kept = smallest(calls)
    assert [call.invoke.f for call in kept] == ["write", "write", "read"]
    assert search(kept) is SearchVerdict.NOT_LINEARIZABLE
    assert is_smallest(kept)
    assert not is_smallest(calls)  # the write of 3 may be missing
    assert not is_smallest(kept[:2])  # nothing is wrong with it


def test_failed_calls_and_other_groups_do_not_count() -> None:
    judgement = judge(history([write(1, 1, 0, 1), read(2, 1, 2, 3), write(3, 9, 4, None, key="p7-1/b")]))
    assert (judgement.groups, judgement.calls, judgement.open_calls) == (2, 3, 1)


@st.composite
def calls(draw: st.DrawFn) -> list[Call]:
    """Calls to one key, of which some are open, and reads that may be wrong."""
    found: list[list[Event]] = []
    for process in range(draw(st.integers(1, 7))):
        begin = draw(st.integers(0, 12))
        end = draw(st.sampled_from([begin + 1, begin + 6, None]))
        value = draw(st.integers(1, 3))
        if end is None or draw(st.booleans()):
            found.append(write(process, value, begin, end))
        else:
            found.append(read(process, draw(st.sampled_from([None, 1, 2, 3])), begin, end))
    return calls_of(history(found))


@given(calls())
def test_leaving_out_open_calls_without_a_trace_changes_no_verdict(found: Sequence[Call]) -> None:
    assert search(found) is check([object_call(call) for call in found], StoreModel())
