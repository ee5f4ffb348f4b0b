"""What the demo asks of Spark, and one line for whatever Spark raises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from pykraft.errors import LocalQuorumError
from pykraft.spark.demo import ask
from pykraft.spark.demo.ask import ask_spark, reason_of
from tests.spark.logs import three_batches, write_segment

pytestmark = pytest.mark.spark


@pytest.fixture
def stops(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The session of all tests in place of one of its own; how often it was stopped."""
    stopped: list[str] = []
    session = SimpleNamespace(
        read=spark.read, createDataFrame=spark.createDataFrame, stop=lambda: stopped.append("stop")
    )
    monkeypatch.setattr(ask, "local_session", lambda _: session)
    return stopped


def silent(text: str, *, is_passing: bool = False) -> None:
    """Nobody listens."""


def test_all_replicas_are_asked_for(stops: list[str], tmp_path: Path) -> None:
    partitions = [write_segment(tmp_path / name / "p,0", b"".join(three_batches())).parent for name in ("n1", "n2")]
    found = ask_spark(partitions, [], until_offset=6, tell=silent)
    assert (found.spark_rows, found.replicas_identical) == (6, True)
    assert stops == ["stop"]


def test_a_damaged_log_is_one_line_with_its_place(stops: list[str], tmp_path: Path) -> None:
    first, second, third = three_batches()
    segment = write_segment(tmp_path / "n1", first + second[:-1] + b"!" + third)
    with pytest.raises(LocalQuorumError) as caught:
        ask_spark([segment.parent], [], until_offset=6, tell=silent)
    said = str(caught.value)
    assert said.startswith(f"Spark has no answer: {segment}: at position {len(first)}: expected a valid batch")
    assert "\n" not in said
    assert stops == ["stop"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[GATEWAY] Java gateway process exited\nmore", "[GATEWAY] Java gateway process exited"),
        ("\n\n first \n", "first"),
        ("An exception\npykraft.errors.UsageError: no file\n  at Java", "no file"),
        ("", "PySparkRuntimeError"),
    ],
)
def test_the_reason_is_the_line_that_says_it(text: str, reason: str) -> None:
    error = PySparkRuntimeError(text)
    assert reason_of(error) == reason


def test_a_session_that_does_not_start_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(_: str) -> None:
        raise PySparkRuntimeError("[JAVA_GATEWAY_EXITED] it ended")

    starter: Callable[[str], None] = fail
    monkeypatch.setattr(ask, "local_session", starter)
    with pytest.raises(LocalQuorumError, match=r"Spark has no answer: \[JAVA_GATEWAY_EXITED\] it ended"):
        ask_spark([tmp_path], [], until_offset=0, tell=silent)
