"""Tables grow with a live quorum; failures of Spark and of the stream are reported at the next check."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from lab.demo import live_tables
from lab.demo.live_tables import NO_SPACE, LiveTables, MicroBatch, ended, failed, micro_batch
from pykraft.errors import LocalQuorumError, StorageError
from pykraft.local.child import Children, wait_until
from pykraft.spark.tables.names import RECORDS
from tests.spark.quorum_of_one import OneNode

pytestmark = pytest.mark.spark


class FakeJvm:
    """In the place of Spark's process: the session of all tests, or what a test wants."""

    def __init__(self, session: Any) -> None:
        self.process = SimpleNamespace(name="Spark", status=None, log=lambda: "")
        self.is_closed = False
        self._session = session

    def session(self) -> Any:
        if isinstance(self._session, Exception):
            raise self._session
        return self._session

    def close(self) -> None:
        self.is_closed = True


def made(monkeypatch: pytest.MonkeyPatch, folder: Path, session: Any) -> tuple[LiveTables, FakeJvm]:
    jvm = FakeJvm(session)
    monkeypatch.setattr(live_tables, "Jvm", lambda *_: jvm)
    return LiveTables(Children(), folder), jvm


def failure_of(tables: LiveTables) -> Exception:
    """What is told, when it is told: the first stream of a session takes seconds, on a busy machine many."""

    def failure() -> Exception | None:
        try:
            tables.check()
        except (LocalQuorumError, StorageError) as error:
            return error
        return None

    return wait_until(failure, "a failure of the stream")


@pytest.fixture
def stopping(spark: SparkSession) -> Iterator[None]:
    """No stream outlives its test."""
    yield
    for query in spark.streams.active:
        query.stop()


def test_tables_grow_until_the_stream_is_stopped(
    stopping: None, spark: SparkSession, node: OneNode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tables, jvm = made(monkeypatch, tmp_path, spark)
    tables.follow([node.endpoint])
    looks: list[int] = []
    tables.wait_for(6, lambda: looks.append(tables.end_offset))
    assert tables.end_offset == 6
    assert looks[0] == 0
    assert tables.awaited == "Spark's first micro-batch"
    assert tables.batches[0].duration_ms > 0
    assert tables.stop() is spark
    offsets = {row["offset"] for row in tables.tables.read(spark, RECORDS).select("offset").collect()}
    assert offsets == set(range(6))
    assert not jvm.is_closed


def test_a_stream_that_dies_is_one_line(
    stopping: None, spark: SparkSession, node: OneNode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no table for you")

    monkeypatch.setattr("pykraft.spark.pipeline.run.append_all", fail)
    tables, _ = made(monkeypatch, tmp_path, spark)
    tables.follow([node.endpoint])
    error = failure_of(tables)
    assert str(error).startswith("the stream cannot continue: ")
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (LocalQuorumError("Spark ended with 1"), "Spark ended with 1"),
        (Py4JError("An error occurred\nat Java"), "Spark cannot continue: An error occurred"),
        (OSError(28, NO_SPACE), "the disk is full, so Spark cannot continue"),
    ],
)
def test_a_session_that_does_not_come_is_told(
    error: Exception, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tables, _ = made(monkeypatch, tmp_path, error)
    assert told in str(failure_of(tables))


def test_a_process_that_ended_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tables, jvm = made(monkeypatch, tmp_path, LocalQuorumError("later"))
    jvm.process.status = -9
    with pytest.raises(LocalQuorumError, match="Spark ended on its own with status -9"):
        tables.check()


def test_a_stream_that_stands_still_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tables, _ = made(monkeypatch, tmp_path, SimpleNamespace())
    monkeypatch.setattr(tables, "_failure", None)
    monkeypatch.setattr(live_tables, "STALL_S", 0.0)
    with pytest.raises(LocalQuorumError, match="the tables have been stuck at offset 0"):
        tables.wait_for(1, lambda: None)


def test_a_micro_batch_ended_when_it_was_triggered_and_done() -> None:
    progress: Any = SimpleNamespace(
        batchId=7,
        timestamp="2026-11-21T10:00:00.250Z",
        durationMs={"triggerExecution": 500, "addBatch": 400},
        sources=[SimpleNamespace(endOffset='{"cluster": "c", "offset": 42}')],
    )
    assert micro_batch(progress) == MicroBatch(
        batch_id=7, end_offset=42, ended_wall_ms=1_795_255_200_750, duration_ms=500
    )


FOLDER = Path("/demo")


def process(log: str) -> Any:
    return SimpleNamespace(name="node 2", status=3, log=lambda: log)


def test_a_full_disk_is_told_with_its_folder() -> None:
    error = failed(FOLDER, "the stream", f"Traceback\nOSError: [Errno 28] {NO_SPACE}\n  at Java")
    assert isinstance(error, StorageError)
    assert str(error) == "/demo: the disk is full, so the stream cannot continue; free space, or use --data DIR"


def test_a_process_that_ended_is_told_with_what_it_said_last() -> None:
    error = ended(FOLDER, process("12:00 INFO it serves\npykraft: one\npykraft: the port is taken\n"))
    assert str(error) == "node 2 ended on its own with status 3: the port is taken"
    assert str(ended(FOLDER, process("Killed"))) == "node 2 ended on its own with status 3"


def test_a_process_that_had_no_room_is_a_full_disk() -> None:
    error = ended(FOLDER, process(f"pykraft: /demo/n2/data: {NO_SPACE}\n"))
    assert isinstance(error, StorageError)
    assert str(error).startswith("/demo: the disk is full, so node 2 cannot continue")
