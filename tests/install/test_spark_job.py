"""The extra `spark` brings what a job needs, and `plots` what the report needs; the environment is not activated.

The first python3 on the PATH is one that cannot do anything, so a worker that Spark started by that name would fail.
"""

import os
from pathlib import Path

import pytest

from pykraft.spark.session.java import java_home
from tests.install.fresh import Fresh, Published
from tests.spark.archive import QUICKLY, SUBMIT_OPTIONS
from tests.spark.logs import three_batches, write_segment

JOB = """
import sys
from pyspark.sql import SparkSession
from pykraft.spark.source import register

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
register(builder.getOrCreate())
print(builder.getOrCreate().read.format("pykraft").load(sys.argv[1]).count(), "rows")
"""

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def environment(published: Published, tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    """An environment after ``pip install pykraft[spark,plots]``."""
    return Fresh(tmp_path_factory.mktemp("spark"), published.wheel, "spark", "plots")


def test_a_users_own_session_finds_its_python(environment: Fresh, tmp_path: Path) -> None:
    write_segment(tmp_path / "n1" / "p-0", b"".join(three_batches()))
    other = tmp_path / "path" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho 'the wrong python3' >&2\nexit 1\n")
    other.chmod(0o755)
    variables = {
        "PATH": f"{other.parent}{os.pathsep}{os.environ['PATH']}",
        "JAVA_HOME": str(java_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        SUBMIT_OPTIONS: f"{QUICKLY} {os.environ.get(SUBMIT_OPTIONS, '')}".strip(),
    }
    done = environment.run("python", "-c", JOB, str(tmp_path / "n*" / "p-0"), environment=variables)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "6 rows\n"


def test_pipeline_and_report_find_their_packages(environment: Fresh) -> None:
    modules = ("pipeline.run", "pipeline.status", "pipeline.report")
    done = environment.run("python", "-c", "\n".join(f"import pykraft.spark.{module}" for module in modules))
    assert (done.returncode, done.stderr) == (0, "")
