"""A stream out of one quorum into another, under kill -9: each record is in the second quorum once."""

from pathlib import Path

import pytest

from tests.spark.sink_rounds import problems_of, run

pytestmark = pytest.mark.spark


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_round(tmp_path: Path) -> None:
    assert run(tmp_path, rounds=1, throughput=100, seed=2) == []


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ([b"a", b"b", b"c"], None),
        ([b"a", b"c"], "missing: 1 record, the first one is b'b'"),
        ([b"a", b"b", b"b", b"c"], "doubled: 1 record, the first one is b'b'"),
        ([b"a", b"b", b"c", b"d"], "foreign: 1 record"),
        ([b"a", b"c", b"b"], "the records are in another order"),
    ],
)
def test_what_is_wrong_is_told(found: list[bytes], problem: str | None) -> None:
    problems = problems_of([b"a", b"b", b"c"], found)
    assert len(problems) == (problem is not None)
    assert all(each.startswith(problem or "") for each in problems)
