"""The pipeline writes the same tables on a standalone cluster, by spark-submit and by the command line, as here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pykraft.protocol.records import encode_control_batch
from pykraft.spark.pipeline.run import PipelineOptions, start_pipeline
from pykraft.spark.session.package import write_package
from pykraft.spark.tables.names import TABLES
from pykraft.types import Epoch, LeaderChange, NodeId, Offset
from tests.spark.archive import QUICKLY, quick_java
from tests.spark.logs import START_MS, batch, payload, write_segment
from tests.spark.standalone import EXECUTOR_MEMORY, environment, standalone_cluster, submit_command
from tests.tidy.repository import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]

EXAMPLE = str(ROOT / "examples" / "spark_pipeline.py")
RECORDS_PER_TRIGGER = 120
CONF = {
    "spark.executor.memory": EXECUTOR_MEMORY,
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": QUICKLY,
    "spark.executor.extraJavaOptions": quick_java(),
}


def write_log(folder: Path) -> str:
    """Two replicas, one longer than the other, in two segments each; a glob of them."""
    for replica, batches in (("n1", 24), ("n2", 20)):
        change = LeaderChange(leader_id=NodeId(1), voters=(NodeId(1), NodeId(2)), granting_voters=(NodeId(1),))
        parts = [encode_control_batch([change], base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=START_MS).data]
        for index in range(batches):
            values = [payload(5 * index + place, epoch=1) for place in range(5)]
            parts.append(batch(values, base_offset=5 * index + 1, epoch=1, timestamp_ms=START_MS + index))
        write_segment(folder / replica / "p-0", b"".join(parts[:11]))
        write_segment(folder / replica / "p-0", b"".join(parts[11:]), base_offset=51)
    return str(folder / "n*" / "p-0")


def rows_of(tables: Path) -> dict[str, list[dict[str, Any]]]:
    """All rows of all tables, in the order of the log."""
    found = {}
    for name in TABLES:
        rows = DeltaTable(tables / name).to_pyarrow_table().to_pylist()
        found[name] = sorted(rows, key=lambda row: (row["replica"], row.get("offset", row.get("base_offset"))))
    return found


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


def test_a_cluster_makes_the_same_tables(spark: SparkSession, tmp_path: Path) -> None:
    path = write_log(tmp_path / "log")
    package = tmp_path / "pykraft.zip"
    write_package(package)
    submitted, commanded, here = (tmp_path / name for name in ("submitted", "commanded", "here"))
    trigger = str(RECORDS_PER_TRIGGER)
    with standalone_cluster(tmp_path) as url:
        command = submit_command("--master", url, "--py-files", str(package))
        told = run(
            *command,
            conf=CONF | {"spark.cores.max": "1"},  # one worker: the command below uses both
            words=[EXAMPLE, "--tables", str(submitted), "--path", path, "--records-per-trigger", trigger],
        )
        words = ["--tables", str(commanded), "--path", path, "--max-records-per-trigger", trigger, "--master", url]
        run(sys.executable, "-m", "pykraft", "pipeline", "run", conf=CONF, words=words, with_sources=True)
        sent = {found.name for found in tmp_path.glob("worker-*/app-*/*/pykraft*.zip")}
        assert {package.name} < sent
    assert "silver_payloads: 220 rows" in told
    assert '{"leader_id": 1, "records": 100}' in told

    source = {"path": path, "maxRecordsPerTrigger": trigger}
    start_pipeline(spark, PipelineOptions(source=source, root=here)).awaitTermination()
    wanted = rows_of(here)
    assert [len(rows) for rows in wanted.values()] == [46, 222, 2, 220]
    assert rows_of(submitted) == wanted
    assert rows_of(commanded) == wanted
