"""The list of lines is whole, and what nobody would understand is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.registry import Line, lines


def line(*, state: str = "required", is_open: str | None = None) -> Line:
    return Line(number=1, section="s", statement="It holds.", state=state, open=is_open)


def test_all_lines_are_there() -> None:
    assert list(lines()) == list(range(1, 152))
    assert len({each.statement for each in lines().values()}) == 151
    assert [each.number for each in lines().values() if not each.statement.endswith(".")] == []


def test_what_may_wait_is_what_needs_snapshots() -> None:
    waiting = {each.number for each in lines().values() if each.state.startswith("later")}
    assert waiting == {128}


@pytest.mark.parametrize("state", ["", "someday", "later: when there is time", "does not apply: "])
def test_a_state_that_says_nothing_is_refused(state: str) -> None:
    with pytest.raises(ValueError, match="unknown state"):
        line(state=state)


def test_what_waits_is_not_open_in_part() -> None:
    assert line(is_open="a part: snapshots").is_required
    with pytest.raises(ValueError, match="only what is required"):
        line(state="later: snapshots", is_open="a part")


@pytest.mark.parametrize("numbers", [(1, 3), (1, 1), (2,), (2, 1)])
def test_a_list_with_a_hole_is_refused(tmp_path: Path, numbers: tuple[int, ...]) -> None:
    path = tmp_path / "lines.toml"
    rows = [f'[[line]]\nnumber = {n}\nsection = "s"\nstatement = "It holds."\nstate = "required"' for n in numbers]
    path.write_text("\n".join(rows))
    with pytest.raises(ValueError, match="the numbers are not"):
        lines(path)
