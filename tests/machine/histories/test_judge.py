"""Our checker refuses what no order explains, and shows the smallest part of it.

Without Go the second checker is an error that says what to install, never a history that passes.

Histories are written and read, answers find their calls, and Knossos gets what it reads.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.errors import UsageError
from pykraft.sim.facts.history import SearchVerdict, check
from tests.machine.histories import independent
from tests.machine.histories.cases import (
    LINEARIZABLE,
    NOT_LINEARIZABLE,
    A,
    cas,
    delete,
    event,
    history,
    read,
    swap,
    write,
)
from tests.machine.histories.events import Call, Event, calls_of, edn, in_order, merged, written
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


def test_without_go_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(independent, "GO_PLACES", ())
    independent.program.cache_clear()
    with pytest.raises(UsageError, match="apt-get install golang-go"):
        independent.checked(written(history(LINEARIZABLE["one after the other"]), tmp_path / "history"))


def test_a_go_that_cannot_build_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "go"
    broken.write_text("#!/bin/sh\necho no such module >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    independent.program.cache_clear()
    with pytest.raises(UsageError, match="porcupine cannot be built: no such module"):
        independent.program()


def test_events_of_several_files_are_merged_in_the_order_of_time(tmp_path: Path) -> None:
    one, other = history([write(1, 1, 0, 5)]), history([read(2, None, 1, 2)])
    files = [written(one, tmp_path / "1"), written(other, tmp_path / "2")]
    assert merged(files) == history([write(1, 1, 0, 5), read(2, None, 1, 2)])
    keys = json.loads(files[0].read_text().splitlines()[0])
    assert keys.keys() == {"index", "process", "type", "f", "value", "time", "node", "leads"}


def test_a_line_that_a_kill_tore_and_other_lines_are_left_out(tmp_path: Path) -> None:
    file = written(history([write(1, 1, 0, 5)]), tmp_path / "1")
    with file.open("a") as out:
        out.write('{"type":"started","time":1}\n{"index":2,"proc')
    assert merged([file]) == history([write(1, 1, 0, 5)])


def test_answers_find_their_calls() -> None:
    failed = [event(3, "invoke", "write", [A, 5], 3), event(3, "fail", "write", [A, 5], 4)]
    unknown = [event(4, "invoke", "write", [A, 6], 5), event(4, "info", "write", [A, 6], 6)]
    calls = calls_of(history([write(1, 1, 0, 9), write(2, 2, 1, None), failed, unknown]))
    assert [(call.invoke.process, call.is_open) for call in calls] == [(1, False), (2, True), (4, True)]
    assert [each.time for each in in_order(calls)] == [0, 1, 5, 6, 9]


def test_a_process_has_one_call_at_a_time() -> None:
    asked, answered = history([write(1, 1, 0, 1)])
    with pytest.raises(ValueError, match="has a call already"):
        calls_of([asked, asked])
    with pytest.raises(ValueError, match="has no call"):
        calls_of([asked, answered, answered])
    unknown = event(1, "info", "write", [A, 1], 1)
    with pytest.raises(ValueError, match="has a call already"):
        calls_of([asked, unknown, asked])


def test_knossos_gets_a_register() -> None:
    calls = [write(1, 1, 0, 1), cas(2, 1, 2, 2, 3, True), cas(2, None, 2, 4, 5, False), delete(1, 6, 7, 1)]
    told = edn(history([*calls, read(2, None, 8, 9)]))
    assert told[0] == "{:index 0, :process 1, :type :invoke, :f :write, :value 1, :time 0}"
    assert [line.split(", :type ")[1].split(", :time")[0] for line in told[2:]] == [
        ":invoke, :f :cas, :value [1 2]",
        ":ok, :f :cas, :value [1 2]",
        ":invoke, :f :cas, :value [nil 2]",
        ":fail, :f :cas, :value [nil 2]",
        ":invoke, :f :write, :value nil",
        ":ok, :f :write, :value nil",
        ":invoke, :f :read, :value nil",
        ":ok, :f :read, :value nil",
    ]
    with pytest.raises(ValueError, match="two keys"):
        edn(history([swap(1, 3, 4, 0, 1, [None, None])]))
