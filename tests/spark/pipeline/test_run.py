"""The stream into tables: complete and without duplicates, even after kills; tables and checkpoint must match."""

import dataclasses
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pykraft.cli.pipeline.command import served_metrics
from pykraft.errors import PykraftError, UsageError
from pykraft.spark.error_text import error_in
from pykraft.spark.pipeline import run as pipeline_run
from pykraft.spark.pipeline.run import RESTARTS_MAX, KeptQuery, PipelineOptions, append_all, start_pipeline
from pykraft.spark.pipeline.stream_metrics import PREFIX
from pykraft.spark.tables.commit import Commit, ParquetFile
from pykraft.spark.tables.delta import DeltaAppend, DeltaTables
from pykraft.spark.tables.names import BRONZE, CHECKPOINT, CONTROL, QUERY, RECORDS, TABLES
from pykraft.types import Endpoint
from tests.spark.known_log import COUNTS, DIGESTS, RECORDS_PER_TRIGGER, counts_of, digests_of, write_log
from tests.spark.logs import batch, payload, write_segment
from tests.spark.quorum_of_one import OneNode
from tests.spark.tables.files import commit

pytestmark = pytest.mark.spark

TIMEOUT_S = 10.0


def batches(first: int, count: int) -> bytes:
    """Batches of two records of the workload."""
    places = range(2 * first, 2 * (first + count), 2)
    return b"".join(batch([payload(place), payload(place + 1)], base_offset=place) for place in places)


def options(tmp_path: Path) -> PipelineOptions:
    source = {"path": str(tmp_path / "n1" / "p-0"), "maxRecordsPerTrigger": "4"}
    return PipelineOptions(source=source, root=tmp_path / "tables")


def run(spark: SparkSession, given: PipelineOptions) -> None:
    start_pipeline(spark, given).awaitTermination()


def offsets(spark: SparkSession, given: PipelineOptions, table: str) -> list[int]:
    column = "base_offset" if table == BRONZE else "offset"
    return sorted(row[0] for row in given.tables().read(spark, table).select(column).collect())


def test_the_tables_of_a_known_log_are_those_that_a_cluster_makes(spark: SparkSession, tmp_path: Path) -> None:
    source = {"path": write_log(tmp_path / "log"), "maxRecordsPerTrigger": str(RECORDS_PER_TRIGGER)}
    given = PipelineOptions(source=source, root=tmp_path / "tables")
    query = start_pipeline(spark, given)
    query.awaitTermination()
    assert len([each for each in query.recentProgress if each["numInputRows"]]) > 1
    assert counts_of(given.root) == COUNTS
    assert digests_of(given.root) == DIGESTS


def test_tables_grow_with_the_log(spark: SparkSession, tmp_path: Path) -> None:
    given = options(tmp_path)
    write_segment(tmp_path / "n1" / "p-0", batches(0, 3))
    run(spark, given)
    assert offsets(spark, given, BRONZE) == [0, 2, 4]
    write_segment(tmp_path / "n1" / "p-0", batches(3, 2), base_offset=6)
    run(spark, given)
    run(spark, given)
    assert offsets(spark, given, BRONZE) == [0, 2, 4, 6, 8]
    assert offsets(spark, given, RECORDS) == list(range(10))
    assert offsets(spark, given, CONTROL) == []


@pytest.mark.parametrize(
    ("limits", "numbers"), [({}, {0, 1, 2}), ({"MAXRECORDSPERTRIGGER": "100"}, {0})], ids=["none given", "given"]
)
def test_a_micro_batch_is_never_the_whole_log(
    limits: dict[str, str], numbers: set[int], spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline_run, "BATCH_SIZE_BYTES_MAX", len(batches(0, 2)))
    write_segment(tmp_path / "n1" / "p-0", batches(0, 5))
    given = PipelineOptions(source={"path": str(tmp_path / "n1" / "p-0"), **limits}, root=tmp_path / "tables")
    run(spark, given)
    assert {int(path.name) for path in (given.root / CHECKPOINT / "commits").glob("[0-9]*")} == numbers
    assert offsets(spark, given, RECORDS) == list(range(10))


@pytest.mark.parametrize("fails_at", TABLES)
def test_a_micro_batch_that_was_half_done_is_there_once(fails_at: str, spark: SparkSession, tmp_path: Path) -> None:
    given = options(tmp_path)
    write_segment(tmp_path / "n1" / "p-0", batches(0, 2))
    bronze = spark.read.format("pykraft").options(**given.source, rows="batches").load()
    tables = given.tables()

    class Dying:
        """An append whose driver is killed when all files are written."""

        def __init__(self, append: DeltaAppend) -> None:
            self.folder = append.folder

        def finish(self, files: Sequence[ParquetFile]) -> int | None:
            raise KeyboardInterrupt(files)

    class Killed(DeltaTables):
        """The same tables, until the named one is to be committed."""

        def begin(self, name: str, columns: StructType, commit: Commit) -> DeltaAppend | None:
            append = super().begin(name, columns, commit)
            return append if append is None or name != fails_at else cast("DeltaAppend", Dying(append))

    with pytest.raises(KeyboardInterrupt):
        append_all(Killed(given.root), bronze, commit(0))
    for _ in range(2):
        append_all(tables, bronze, commit(0))
    assert offsets(spark, given, RECORDS) == [0, 1, 2, 3]
    assert offsets(spark, given, BRONZE) == [0, 2]


def test_a_driver_that_dies_before_spark_notes_the_micro_batch_leaves_nothing_twice(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = options(tmp_path)
    write_segment(tmp_path / "n1" / "p-0", batches(0, 4))
    done: list[int] = []

    def append_and_die(tables: DeltaTables, bronze: DataFrame, commit: Commit, **named: Any) -> None:
        append_all(tables, bronze, commit, **named)
        done.append(commit.batch_id)
        if commit.batch_id == 1:
            raise KeyError(commit.batch_id)

    with monkeypatch.context() as killed:
        killed.setattr(pipeline_run, "append_all", append_and_die)
        with pytest.raises(StreamingQueryException):
            run(spark, given)
    assert done == [0, 1]
    assert [path.name for path in (given.root / CHECKPOINT / "commits").glob("[0-9]*")] == ["0"]
    write_segment(tmp_path / "n1" / "p-0", batches(4, 1), base_offset=8)
    run(spark, given)
    assert offsets(spark, given, RECORDS) == list(range(10))
    assert offsets(spark, given, BRONZE) == [0, 2, 4, 6, 8]


def test_an_older_checkpoint_that_was_restored_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Its micro-batches get numbers that the tables have already, and hold other offsets."""
    given = options(tmp_path)
    checkpoint, older = given.root / CHECKPOINT, tmp_path / "older"
    write_segment(tmp_path / "n1" / "p-0", batches(0, 2))
    run(spark, given)
    shutil.copytree(checkpoint, older)
    write_segment(tmp_path / "n1" / "p-0", batches(2, 1), base_offset=4)
    run(spark, given)
    write_segment(tmp_path / "n1" / "p-0", batches(3, 4), base_offset=6)
    shutil.rmtree(checkpoint)
    shutil.copytree(older, checkpoint)
    with pytest.raises(StreamingQueryException) as caught:
        run(spark, given)
    told = error_in(str(caught.value))
    assert isinstance(told, UsageError)
    assert "the checkpoint is too old. To continue, restore the checkpoint" in str(told)
    assert offsets(spark, given, RECORDS) == list(range(6))


@pytest.mark.parametrize("is_there", [False, True], ids=["gone", "empty"])
def test_tables_whose_checkpoint_was_lost_say_where_they_end_and_go_on_there(
    is_there: bool, spark: SparkSession, tmp_path: Path
) -> None:
    given = options(tmp_path)
    write_segment(tmp_path / "n1" / "p-0", batches(0, 3))
    run(spark, given)
    shutil.rmtree(given.root / CHECKPOINT)
    if is_there:
        (given.root / CHECKPOINT).mkdir()
    with pytest.raises(UsageError, match="the checkpoint that records their end is gone") as caught:
        run(spark, given)
    write_segment(tmp_path / "n1" / "p-0", batches(3, 3), base_offset=6)
    (end,) = re.findall(r"--from '(.*)'", str(caught.value))
    wrong, right = (
        dataclasses.replace(given, source={**given.source, "startingOffsets": start}) for start in ("4", end)
    )
    with pytest.raises(StreamingQueryException, match="rows would be missing or duplicated"):
        run(spark, wrong)
    shutil.rmtree(given.root / CHECKPOINT)
    run(spark, right)
    run(spark, given)
    assert offsets(spark, given, RECORDS) == list(range(12))


def test_directories_come_and_go_and_no_row_is_there_twice(spark: SparkSession, tmp_path: Path) -> None:
    given = dataclasses.replace(options(tmp_path), source={"path": f"{tmp_path}/n*/kraft/p-0"})
    write_segment(tmp_path / "n1" / "kraft" / "p-0", batches(0, 3))
    run(spark, given)
    write_segment(tmp_path / "n2" / "kraft" / "p-0", batches(0, 2))
    run(spark, given)
    shutil.rmtree(tmp_path / "n1")
    write_segment(tmp_path / "n2" / "kraft" / "p-0", batches(2, 1), base_offset=4)
    run(spark, given)
    rows = given.tables().read(spark, RECORDS).groupBy("replica").count().collect()
    assert {row["replica"]: row["count"] for row in rows} == {"kraft": 6, "n2": 6}


@pytest.mark.parametrize("is_killed", [False, True])
def test_rows_of_a_truncated_log_leave_the_tables(
    is_killed: bool, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower lost what it had not committed, and got other records; the other replica keeps its rows."""
    given = dataclasses.replace(options(tmp_path), source={"path": f"{tmp_path}/n*/p-0", "maxRecordsPerTrigger": "4"})
    write_segment(tmp_path / "n1" / "p-0", batches(0, 3))
    write_segment(tmp_path / "n2" / "p-0", batches(0, 3))
    run(spark, given)
    other = batch([b"other", b"another"], base_offset=2, epoch=9)
    write_segment(tmp_path / "n1" / "p-0", batches(0, 1) + other)
    if is_killed:
        with monkeypatch.context() as killed:
            killed.setattr(DeltaAppend, "finish", lambda *_: (_ for _ in ()).throw(KeyError("killed")))
            with pytest.raises(StreamingQueryException):
                run(spark, given)
    run(spark, given)
    rows = (
        given.tables().read(spark, RECORDS).select("replica", "offset", "epoch").orderBy("replica", "offset").collect()
    )
    assert [row["offset"] for row in rows] == [0, 1, 2, 3, *range(6)]
    assert [row["offset"] for row in rows if row["epoch"] == 9] == [2, 3]
    assert offsets(spark, given, BRONZE) == [0, 0, 2, 2, 4]


def test_tables_of_a_quorum_that_was_wiped_go_on_with_no_other_log(spark: SparkSession, tmp_path: Path) -> None:
    """Its cluster id is the same, and the offset at which the tables end is there, too."""
    nodes = [OneNode(tmp_path / "old"), OneNode(tmp_path / "new")]
    try:
        for node in nodes:
            node.append(b"a")
        nodes[1].append(b"b")
        source = {"bootstrap.controllers": str(nodes[0].endpoint)}
        given = PipelineOptions(source=source, root=tmp_path / "tables")
        run(spark, given)
        shutil.rmtree(given.root / CHECKPOINT)
        wiped = {"bootstrap.controllers": str(nodes[1].endpoint), "startingOffsets": "2"}
        with pytest.raises(StreamingQueryException, match="rows would be missing or duplicated"):
            run(spark, dataclasses.replace(given, source=wiped))
        shutil.rmtree(given.root / CHECKPOINT)
        nodes[0].append(b"c")
        run(spark, dataclasses.replace(given, source=source | {"startingOffsets": "2"}))
    finally:
        for node in nodes:
            node.stop()
    assert offsets(spark, given, RECORDS) == [0, 1, 2]


def test_who_follows_is_given_what_comes_later(spark: SparkSession, tmp_path: Path) -> None:
    given = options(tmp_path)
    write_segment(tmp_path / "n1" / "p-0", batches(0, 1))
    query = start_pipeline(spark, PipelineOptions(source=given.source, root=given.root, follow=True))
    try:
        query.processAllAvailable()
        write_segment(tmp_path / "n1" / "p-0", batches(1, 2), base_offset=2)
        query.processAllAvailable()
        assert offsets(spark, given, RECORDS) == list(range(6))
    finally:
        query.stop()


def test_a_scrape_tells_how_far_behind_a_running_stream_is(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = dataclasses.replace(options(tmp_path), follow=True)
    write_segment(tmp_path / "n1" / "p-0", batches(0, 5))
    with served_metrics(Endpoint("localhost", 0)) as metrics:
        url = capsys.readouterr().err.removeprefix("metrics are at ").strip()
        query = start_pipeline(spark, given)
        try:
            kept = KeptQuery(lambda: query)
            query.processAllAvailable()
            told = []
            for progress in kept.progress():
                metrics.note(progress)
                told.append(scraped(url))
        finally:
            query.stop()
    assert [values["batch_id"] for values in told] == [0, 1, 2]
    assert [values["reached_offset"] for values in told] == [4, 8, 10]
    assert [values["latest_offset"] for values in told] == [10] * 3
    assert [values["lag_records"] for values in told] == [6, 2, 0]
    for values in told:
        assert values["batch_duration_ms"] > 0
        assert values["processed_rows_per_second"] > 0
        assert values["progress_age_seconds"] >= 0


def scraped(url: str) -> dict[str, float]:
    """The values by name, without the prefix; of one replica and query."""
    with urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310 - it is what was told
        families = list(text_string_to_metric_families(answer.read().decode()))
    samples = [sample for family in families for sample in family.samples]
    assert {sample.labels["query"] for sample in samples} == {QUERY}
    return {sample.name.removeprefix(PREFIX): sample.value for sample in samples}


def test_values_that_look_like_the_load_generator_s_are_only_records(spark: SparkSession, tmp_path: Path) -> None:
    given = options(tmp_path)
    write_segment(tmp_path / "n1" / "p-0", batch([b"any value of twenty bytes or more", payload(0)], base_offset=0))
    run(spark, given)
    assert sorted(path.name for path in given.root.iterdir()) == sorted([CHECKPOINT, *TABLES])
    assert TABLES == (BRONZE, RECORDS, CONTROL)


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
