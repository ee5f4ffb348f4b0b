"""The list of lines is complete, and malformed entries are rejected."""

import re
from pathlib import Path

import pytest

from tests.conformance.registry import HISTORY, LINES, Line, lines, read


def line(*, state: str = "required", is_open: str | None = None) -> Line:
    return Line(number=1, section="s", statement="It holds.", state=state, open=is_open)


def test_all_lines_are_there() -> None:
    assert [each.number for each in read(LINES)] == list(range(1, 152))
    assert [each.number for each in read(HISTORY, letter="H")] == [f"H{number}" for number in range(1, 92)]
    assert len({each.statement for each in lines().values()}) == len(lines()) == 151 + 91
    assert [each.number for each in lines().values() if not each.statement.endswith(".")] == []


def test_each_row_of_the_history_has_a_source() -> None:
    sources = re.compile(r"KAFKA-\d{5}|apache/kafka#\d{4,5}|KIP-\d{3}")
    assert [each.number for each in read(HISTORY, letter="H") if not sources.fullmatch(each.source or "")] == []


def test_nothing_waits() -> None:
    assert [each.number for each in lines().values() if each.state.startswith("later")] == []


def test_little_does_not_apply() -> None:
    assert sum(each.is_not_ours for each in lines().values()) <= 10


@pytest.mark.parametrize("state", ["", "someday", "later: when there is time", "does not apply: "])
def test_a_state_that_says_nothing_is_refused(state: str) -> None:
    with pytest.raises(ValueError, match="unknown state"):
        line(state=state)


def test_what_waits_is_not_open_in_part() -> None:
    assert line(is_open="a part: snapshots").is_required
    with pytest.raises(ValueError, match="only what is required"):
        line(state="later: Kafka's client APIs", is_open="a part")


@pytest.mark.parametrize("numbers", [(1, 3), (1, 1), (2,), (2, 1)])
def test_a_list_with_a_hole_is_refused(tmp_path: Path, numbers: tuple[int, ...]) -> None:
    path = tmp_path / "lines.toml"
    rows = [f'[[line]]\nnumber = {n}\nsection = "s"\nstatement = "It holds."\nstate = "required"' for n in numbers]
    path.write_text("\n".join(rows))
    with pytest.raises(ValueError, match="the numbers are not"):
        read(path)


@pytest.mark.parametrize("number", ["1", "h1", "H01", "H2"])
def test_rows_of_the_history_are_numbered_with_their_letter(tmp_path: Path, number: str) -> None:
    path = tmp_path / "history.toml"
    path.write_text(f'[[line]]\nnumber = "{number}"\nsection = "s"\nstatement = "It holds."\nstate = "required"')
    with pytest.raises(ValueError, match="not H1 to H1"):
        read(path, letter="H")
