"""A check in steps, all at once.

Source: ours (ADR 201).
"""

from collections.abc import Generator

import pytest

from pykraft.host.ports import CheckInSteps, run_steps


def test_a_check_ends_with_the_result_of_its_last_step_or_with_its_error() -> None:
    seen: list[int] = []

    def steps(*, fails: bool) -> Generator[None, None, str]:
        for number in range(3):
            seen.append(number)
            yield
        if fails:
            raise ValueError("wrong")
        return "sound"

    assert run_steps(steps(fails=False)) == "sound"
    assert seen == [0, 1, 2]
    with pytest.raises(ValueError, match="wrong"):
        run_steps(steps(fails=True))


def test_a_check_that_was_cancelled_before_its_result_came_passes_it_to_nobody() -> None:
    def steps() -> Generator[None, None, str]:
        yield
        return "sound"

    seen: list[object] = []
    check = CheckInSteps(steps(), seen.append, (0,))
    check.ended(run_steps(check.steps))
    check.is_cancelled = True
    check.ended("late")
    assert seen == ["sound"]
