"""Counts agree with their nouns.

Durations have one form each, in seconds for limits and in ms for measurements.

Percentiles weighted by records: the nearest rank, compared with a count of all records.

Suggestions for misspelled names.

Tables of text: aligned, and never cut.
"""

import io
import math
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.text.table import block_lines, folded, is_numeric, table_lines, terminal_width
from pykraft.text.words import about, closest, counted, did_you_mean, in_ms, in_seconds, ms_number, percentiles


@pytest.mark.parametrize(
    ("count", "noun", "plural", "text"),
    [
        (1, "batch", None, "1 batch"),
        (2, "batch", None, "2 batches"),
        (0, "segment", None, "0 segments"),
        (1, "other entry", "other entries", "1 other entry"),
        (3, "other entry", "other entries", "3 other entries"),
        (1_234, "row", None, "1,234 rows"),
    ],
)
def test_the_noun_agrees_with_its_count(count: int, noun: str, plural: str | None, text: str) -> None:
    assert counted(count, noun, plural) == text


@pytest.mark.parametrize(
    ("duration_ms", "told"),
    [(15_000, "15 s"), (1_500, "1.5 s"), (50, "0.05 s"), (1, "0.001 s"), (3_600_000, "3,600 s")],
)
def test_a_limit_is_told_in_seconds_as_it_was_typed(duration_ms: int, told: str) -> None:
    assert in_seconds(duration_ms) == told


@pytest.mark.parametrize(
    ("duration_ms", "told"),
    [(2_063, "2,063"), (6_969.0, "6,969"), (7, "7"), (4.25, "4.2"), (99.94, "99.9"), (99.96, "100"), (0.0, "0.0")],
)
def test_a_measurement_has_as_many_digits_as_say_something(duration_ms: float, told: str) -> None:
    assert ms_number(duration_ms) == told
    assert in_ms(duration_ms) == f"{told} ms"


def test_a_rough_duration_is_in_seconds_or_minutes() -> None:
    assert (about(99.4), about(150)) == ("about 99 s", "about 2 minutes")


SHARES = {"p50": 0.5, "p99": 0.99, "max": 1.0}


def test_without_values_all_are_zero() -> None:
    assert percentiles((), SHARES) == {"p50": 0.0, "p99": 0.0, "max": 0.0}


def test_a_value_weighs_as_many_records_as_it_stands_for() -> None:
    assert percentiles([(7.0, 1), (1.0, 99)], SHARES) == {"p50": 1.0, "p99": 1.0, "max": 7.0}
    assert percentiles([(7.0, 2), (1.0, 98)], SHARES) == {"p50": 1.0, "p99": 7.0, "max": 7.0}


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(1, 20)), min_size=1), st.sampled_from([0.01, 0.5, 0.75, 1.0]))
def test_they_are_the_nearest_ranks(values: list[tuple[float, int]], share: float) -> None:
    everything = sorted(value for value, count in values for _ in range(count))
    rank = max(1, math.ceil(len(everything) * share))
    assert percentiles(values, {"it": share}) == {"it": everything[rank - 1]}


@pytest.mark.parametrize(
    ("word", "name"), [("sever", "server"), ("dmup", "dump"), ("serv", "server"), ("xyz", None), ("", None)]
)
def test_only_a_similar_name_is_suggested(word: str, name: str | None) -> None:
    assert closest(word, iter(["dump", "server", "sim"])) == name


def test_the_words_for_a_message() -> None:
    assert did_you_mean("sever", ["server"]) == "; did you mean server?"
    assert did_you_mean("sever", ["dump"]) == ""


def test_how_similar_a_name_must_be_is_the_callers_choice() -> None:
    assert closest("num.partitions", ["num.io.threads"], similarity_min=0.3) == "num.io.threads"
    assert closest("num.partitions", ["num.io.threads"], similarity_min=0.8) is None


HEADS = ("fault", "times", "ms")
ROWS = (("kill", "1,234", "5"), ("power loss", "7", "-"))
ALIGNED = ["fault       times  ms", "kill        1,234   5", "power loss      7   -"]


@pytest.mark.parametrize("width", [None, 21, 200])
def test_a_table_that_fits_has_columns(width: int | None) -> None:
    assert list(table_lines(HEADS, ROWS, width=width)) == ALIGNED


def test_a_table_that_does_not_fit_is_a_block_for_each_row() -> None:
    blocks = ["fault: kill", "  times: 1,234", "  ms: 5", "fault: power loss", "  times: 7"]
    assert list(table_lines(HEADS, ROWS, width=20)) == blocks


def test_a_last_column_of_text_is_folded_below_itself() -> None:
    rows = [("kill", "7", "leader 4, observer 3, follower 2, unattached 2"), ("split", "1", "")]
    assert list(table_lines(("fault", "times", "happened to"), rows, width=40)) == [
        "fault  times  happened to",
        "kill       7  leader 4, observer 3,",
        "              follower 2, unattached 2",
        "split      1",
    ]
    assert next(table_lines(("fault", "times", "happened to"), rows, width=37)) == "fault: kill"


def test_prose_is_folded_between_words() -> None:
    line = "  note: /a/path-with/hyphens: 5 bytes do not count"
    assert folded(line, None) == folded(line, len(line)) == [line]
    assert folded(line, 24) == ["  note:", "    /a/path-with/hyphens:", "    5 bytes do not count"]


def test_name_and_value_are_one_line() -> None:
    assert list(block_lines(("what", "value"), [("records", "5"), ("bytes", "60")])) == ["records: 5", "bytes: 60"]


def test_a_column_without_a_head_names_its_row() -> None:
    assert list(block_lines(("", "a", "b"), [("ours", "1", "2")])) == ["ours", "  a: 1", "  b: 2"]


@pytest.mark.parametrize(
    ("cells", "is_so"), [(["1", "-2.5", ""], True), (["1,000", "-"], True), (["-", ""], False), (["1", "a"], False)]
)
def test_numbers_are_recognized(cells: list[str], is_so: bool) -> None:
    assert is_numeric(cells) is is_so


def test_a_pipe_has_no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert terminal_width() is None
    monkeypatch.setattr("sys.stdout", None)
    assert terminal_width() is None


def test_a_terminal_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    _, terminal = os.openpty()
    monkeypatch.setenv("COLUMNS", "44")
    with os.fdopen(terminal, "w") as file:
        monkeypatch.setattr("sys.stdout", file)
        assert terminal_width() == 44
