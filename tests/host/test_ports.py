"""A check in steps, as an environment without threads carries it out.

Source: ours (ADR 201).
"""

from collections.abc import Generator

import pytest

from pykraft.host.ports import CheckInSteps


def test_a_check_ends_with_the_result_of_its_last_step_or_with_its_error() -> None:
    seen: list[int] = []

    def steps(*, fails: bool) -> Generator[None, None, str]:
        for number in range(3):
            seen.append(number)
            yield
        if fails:
            raise ValueError("wrong")
        return "sound"

    assert CheckInSteps(steps(fails=False), lambda _: None, (0,)).run() == "sound"
    assert seen == [0, 1, 2]
    with pytest.raises(ValueError, match="wrong"):
        CheckInSteps(steps(fails=True), lambda _: None, (0,)).run()
