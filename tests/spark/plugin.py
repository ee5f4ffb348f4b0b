"""The Spark session of all tests that need one, and which tests those are. It takes about 12 s to come up.

Modules that import pyspark are not even collected where it is not installed, as in a stage without Spark. The stage
that is for Spark then finds no test at all, which pytest reports as an error.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.archive import FEW_ROWS, QUICKLY

if TYPE_CHECKING:  # slow to import, and every run of pytest collects this file
    from pyspark.sql import SparkSession

TESTS = Path(__file__).parents[1]
PLACES = (
    TESTS / "spark",
    TESTS / "examples" / "test_spark_recipes.py",
    TESTS / "object_storage" / "test_delta_tables.py",
    TESTS / "lab" / "demo",
    TESTS / "lab" / "cli" / "test_demo.py",
    TESTS / "lab" / "campaign" / "test_on_spark.py",
    TESTS / "lab" / "benchmarks" / "test_spark_source.py",
)
"""Folders, and files elsewhere, with tests that need pyspark."""
WITHOUT_PYSPARK = {
    f"test_{name}.py"
    for names in (
        ("file_plan", "home", "java", "master", "stream_metrics", "walk"),
        ("commit_rows", "shared_folder", "sink_options", "staged"),
        ("directory", "image", "quorum", "tables"),
    )
    for name in names
}
"""Modules that the stages without Spark can import; the tests of all others are the stage spark's, marked or not."""


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what cannot be imported here."""
    return True if needs_pyspark(collection_path) and find_spec("pyspark") is None else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what the other stages do not collect, or no stage would run it.

    Tests of the session have one worker of xdist, or two (`tests.spark.workers`). Together they take longer than any
    other test, so they are long ones, and begin first.
    """
    for item in items:
        if needs_pyspark(item.path):
            item.add_marker("spark")
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("the Spark session"))
            item.add_marker("long")
            if item.get_closest_marker("timeout") is None:
                # The first one opens the session, which takes minutes beside much other work.
                item.add_marker(pytest.mark.timeout(400))


def needs_pyspark(path: Path) -> bool:
    """True for a module of tests that can only be imported with pyspark."""
    is_test = path.suffix == ".py" and path.name.startswith("test_") and path.name not in WITHOUT_PYSPARK
    return is_test and any(path.is_relative_to(place) for place in PLACES)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session as the demo has it; what it changed in the environment is put back."""
    from pykraft.spark.session.local import open_session, prepare_environment, session_settings

    before = dict(os.environ)
    prepare_environment()
    # Each query is small and different: to optimize its code for a long run costs more than the run. The demo, the
    # documentation's programs and the cluster of `tests.spark.test_standalone` are as users have them.
    settings = session_settings("pykraft tests") | FEW_ROWS
    settings["spark.driver.extraJavaOptions"] += f" {QUICKLY}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # pyspark leaves its pipe to the JVM's launcher open
        session = open_session(settings)
    yield session
    session.stop()
    os.environ.clear()
    os.environ.update(before)
