"""A query whose Python process died is restarted; one with an error of ours, or that dies repeatedly, ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from pykraft.errors import PykraftError, UsageError
from pykraft.spark.pipeline.keep import RESTARTS_MAX, KeptQuery

pytestmark = pytest.mark.spark

DIED = "[STREAM_FAILED] Query terminated with exception:\n=== Streaming Query ===\n"


class Query:
    """One that did these micro-batches, and then ended well, or with a story."""

    def __init__(self, batch_ids: Sequence[int], story: str | None = None) -> None:
        self.recentProgress = [{"batchId": number, "numInputRows": 5} for number in batch_ids]
        self._story = story

    def awaitTermination(self, timeout_s: float) -> bool:  # noqa: N802 - Spark's name
        if self._story is not None:
            raise StreamingQueryException(self._story)
        return True


def kept(*queries: Query) -> KeptQuery:
    waiting = list(queries)
    return KeptQuery(lambda: waiting.pop(0))


def ids(query: KeptQuery) -> list[Any]:
    return [progress["batchId"] for progress in query.progress()]


def test_what_died_goes_on_and_each_micro_batch_is_told_once() -> None:
    last = Query([1, 2])
    query = kept(Query([0, 1], DIED), last)
    assert not query.wait(0)
    assert query.restarts == 1
    assert ids(query) == [0, 1, 2]
    assert query.wait(0)
    assert ids(query) == []


def test_micro_batches_without_rows_are_not_told() -> None:
    idle = Query([0])
    idle.recentProgress[0]["numInputRows"] = 0
    query = kept(idle)
    assert query.newest is None
    assert ids(query) == []
    assert query.newest == {"batchId": 0, "numInputRows": 0}


def test_one_that_dies_again_and_again_ends() -> None:
    query = kept(*(Query([], DIED) for _ in range(RESTARTS_MAX + 1)))
    for _ in range(RESTARTS_MAX):
        assert not query.wait(0)
    with pytest.raises(PykraftError, match=r"^the query ended: \[STREAM_FAILED\] Query terminated with exception:$"):
        query.wait(0)


def test_one_that_gets_on_may_die_as_often_as_it_likes() -> None:
    query = kept(*(Query([number], DIED) for number in range(3 * RESTARTS_MAX)), Query([]))
    for _ in range(3 * RESTARTS_MAX):
        assert not query.wait(0)
    assert query.wait(0)


def test_an_error_of_ours_is_told_and_nothing_is_tried_again() -> None:
    query = kept(Query([], f"{DIED}pykraft.errors.UsageError: the log was cut back\n\tat x"))
    with pytest.raises(UsageError, match=r"^the log was cut back$"):
        query.wait(0)
    assert query.restarts == 0
