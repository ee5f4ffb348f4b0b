"""Histories are written and read, answers find their calls, and Knossos gets what it reads."""

import json
from pathlib import Path

import pytest

from tests.machine.histories.cases import A, cas, delete, event, history, read, swap, write
from tests.machine.histories.events import calls_of, edn, in_order, merged, written


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
