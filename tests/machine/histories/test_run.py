"""What does not pass is told as a person reads it."""

from dataclasses import replace

import pytest

from tests.machine.histories.cases import NOT_LINEARIZABLE, history, write
from tests.machine.histories.run import Outcome, story

PASSED = Outcome(
    seed=1, nodes=3, seconds=60, episodes=9, faults={}, calls=1, open_calls=0, reads=1, follower_reads=1, groups=1
)


@pytest.mark.parametrize(
    "found",
    [
        {"refused": {"ours": ["r1-0"], "porcupine": []}},
        {"refused": {"ours": [], "porcupine": ["r1-0"]}},
        {"undecided": {"ours": [], "porcupine": ["r1-0"]}},
        {"error": "node 1 ended with 1, though nobody had ended it"},
    ],
)
def test_both_checkers_and_the_quorum_must_agree(found: dict[str, object]) -> None:
    assert PASSED.has_passed
    assert not replace(PASSED, **found).has_passed  # type: ignore[arg-type]


def test_a_part_is_told_call_by_call() -> None:
    told = story(history([*NOT_LINEARIZABLE["a lost put"], write(4, 9, 2_000_000, None)])).splitlines()
    assert " ".join(told[0].split()) == '0.000 0.000 node 1 process 1 write ["r1-0/a", 1] -> ["r1-0/a", 1]'
    assert " ".join(told[-1].split()) == '2.000 never node 4 process 4 write ["r1-0/a", 9] -> unknown'


def test_nothing_is_told_of_nothing() -> None:
    assert story([]) == ""
