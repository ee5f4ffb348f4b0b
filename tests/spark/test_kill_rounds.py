"""Driver, Python worker and leader are killed with -9 in turn: each record is in the tables once."""

from pathlib import Path

import pytest

from tests.spark import directory_rounds
from tests.spark.kill_rounds import run

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]


def test_two_rounds(tmp_path: Path) -> None:
    """The second and the third; the first, of a task and the driver's Python, is the cluster's."""
    assert run(tmp_path, first=1, rounds=2, throughput=100, seed=3) == []


def test_a_round_over_directories_that_come_and_move_and_are_restored(tmp_path: Path) -> None:
    assert directory_rounds.run(tmp_path, rounds=1, throughput=100, seed=3) == []
