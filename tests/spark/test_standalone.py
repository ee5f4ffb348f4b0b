"""The pipeline on a standalone cluster writes the same tables as here, and nothing twice while processes are killed."""

import os
import subprocess
import sys
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


def run(*command: str, conf: dict[str, str], words: list[str], with_sources: bool = False) -> str:
    """What a command prints, which must end well."""
    confs = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    done = subprocess.run(
        [*command, *confs, *words],
        env=os.environ | environment(with_sources=with_sources),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5_000:]
    return done.stdout


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
    path = write_log(tmp_path / "log")
    package = tmp_path / "pykraft.zip"
    write_package(package)
    submitted, commanded = (tmp_path / name for name in ("submitted", "commanded"))
    trigger = str(RECORDS_PER_TRIGGER)
    command = submit_command("--master", url, "--py-files", str(package))
    told = run(
        *command,
        conf=CONF | {"spark.cores.max": "1"},  # one worker: the command below uses both
        words=[EXAMPLE, "--tables", str(submitted), "--path", path, "--records-per-trigger", trigger],
    )
    words = ["--tables", str(commanded), "--path", path, "--max-records-per-trigger", trigger, "--master", url]
    run(sys.executable, "-m", "pykraft", "pipeline", "run", conf=CONF, words=words, with_sources=True)
    sent = {found.name for found in folder.glob("worker-*/app-*/*/pykraft*.zip")}
    assert {package.name} < sent
    assert "silver_records: 222 rows" in told
    assert '{"leader_id": 1, "records": 100}' in told
    for tables in (submitted, commanded):
        assert counts_of(tables) == COUNTS
        assert digests_of(tables) == DIGESTS


def test_a_round_of_kills_while_copies_of_tasks_run(url: str, tmp_path: Path) -> None:
    assert run_rounds(tmp_path, rounds=1, throughput=100, seed=4, master=url) == []
