"""The pipeline on a standalone cluster writes the same tables as here, and nothing twice while processes are killed."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykraft.spark.session.master import write_package
from tests.spark.archive import QUICKLY, quick_java
from tests.spark.kill_rounds import run as run_rounds
from tests.spark.known_log import COUNTS, DIGESTS, RECORDS_PER_TRIGGER, counts_of, digests_of, write_log
from tests.spark.standalone import EXECUTOR_MEMORY, environment, standalone_cluster, submit_command
from tests.tidy.repository import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]

EXAMPLE = str(ROOT / "examples" / "spark_pipeline.py")
CONF = {
    "spark.executor.memory": EXECUTOR_MEMORY,
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": QUICKLY,
    "spark.executor.extraJavaOptions": quick_java(),
}


def submit(url: str, package: Path, *words: str) -> str:
    """What the example prints, which must end well."""
    confs = [word for key, value in CONF.items() for word in ("--conf", f"{key}={value}")]
    command = [*submit_command("--master", url, "--py-files", str(package)), *confs, EXAMPLE, *words]
    done = subprocess.run(
        command, env=os.environ | environment(), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-5_000:]
    return done.stdout


def sent_packages(folder: Path) -> set[str]:
    """Names of the packages that executors have got."""
    return {found.name for found in folder.glob("worker-*/app-*/*/pykraft*.zip")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the cluster's processes write."""
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """The cluster."""
    with standalone_cluster(folder) as url:
        yield url


def test_a_cluster_makes_the_same_tables(url: str, folder: Path, tmp_path: Path) -> None:
    path, package, tables = write_log(tmp_path / "log"), tmp_path / "pykraft-submitted.zip", tmp_path / "tables"
    write_package(package)
    words = ["--tables", str(tables), "--path", path, "--records-per-trigger", str(RECORDS_PER_TRIGGER)]
    told = submit(url, package, *words)
    assert package.name in sent_packages(folder)
    assert "silver_records: 222 rows" in told
    assert '{"leader_id": 1, "records": 100}' in told
    assert counts_of(tables) == COUNTS
    assert digests_of(tables) == DIGESTS


def test_a_round_of_kills_while_copies_of_tasks_run(url: str, folder: Path, tmp_path: Path) -> None:
    """Of the command, which sends its package itself."""
    before = sent_packages(folder)
    assert run_rounds(tmp_path, rounds=1, throughput=100, seed=4, master=url) == []
    assert sent_packages(folder) > before
