"""Groups: one for each of two sessions, one for each module with a fixture of its own, none for others."""

import pytest

from tests.spark.workers import group_of


@pytest.mark.parametrize(
    ("test", "group"),
    [
        ("tests/spark/pipeline/test_run.py::test_a", "the first Spark session"),
        ("tests/lab/demo/test_payloads.py::test_a", "the second Spark session"),
        ("tests/spark/test_source_at_uris.py::test_a", "the second Spark session"),
        ("tests/spark/test_standalone.py::test_a", "tests/spark/test_standalone.py"),
        ("tests/object_storage/test_files.py::test_a", "tests/object_storage/"),
        ("tests/lab/demo/test_report.py::test_a", "tests/lab/demo/test_report.py"),
        ("tests/install/test_spark_job.py::test_a", "tests/install/test_spark_job.py"),
        ("tests/spark/test_kill_rounds.py::test_a", "tests/spark/test_kill_rounds.py::test_a"),
    ],
)
def test_groups(test: str, group: str) -> None:
    assert group_of(test) == group
