"""What a user does with ``format("pykraft")``, as small programs that run on any engine with Spark's DataFrame API.

A trial returns nothing when it worked, and raises what the engine raised, or AssertionError for wrong rows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.spark.logs import three_batches, write_segment
from tests.spark.quorum_of_one import OneNode, logged_values

VALUES: Final = [b"a0", b"b0", b"a1", b"b1", b"a2", b"b2"]
"""Of the directory, two a batch."""
STREAM_TIMEOUT_S: Final = 120
SMALL: Final = "offset bigint, value binary"
Trial = Callable[[Any, "Scene"], None]


class Scene:
    """A directory with a log, and a quorum whose log has the values a and b, and in a second batch c, d and e."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = str(write_segment(folder / "n1" / "p-0", b"".join(three_batches())).parent)
        self._node = OneNode(folder / "quorum", serves_clients=True)
        self.node = str(self._node.endpoint)
        self._node.append(b"a", b"b")
        self._node.append(b"c", b"d", b"e")

    def values(self) -> list[bytes | None]:
        """All data records of the quorum."""
        return logged_values([self._node.endpoint])

    def stop(self) -> None:
        """End the quorum."""
        self._node.stop()


@dataclass(frozen=True)
class Rows:
    """A read that must give these rows, which are compared as sorted tuples."""

    options: Mapping[str, str]
    wanted: list[tuple[Any, ...]]
    columns: tuple[str, ...]
    schema: str | None = None
    is_live: bool = False
    where: str | None = None

    def __call__(self, spark: Any, scene: Scene) -> None:
        """A batch query."""
        reader = spark.read.format("pykraft").options(**self.options)
        reader = reader if self.schema is None else reader.schema(self.schema)
        frame = reader.option("bootstrap.controllers", scene.node).load() if self.is_live else reader.load(scene.path)
        frame = frame if self.where is None else frame.where(self.where)
        found = sorted(tuple(_plain(value) for value in row) for row in frame.select(*self.columns).collect())
        assert found == self.wanted, found


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


def write(spark: Any, scene: Scene) -> None:
    """A batch query into the quorum."""
    before = scene.values()
    frame = spark.range(3).selectExpr("concat('row ', id) as value")
    frame.write.format("pykraft").mode("append").option("bootstrap.controllers", scene.node).save()
    found = scene.values()[len(before) :]
    assert sorted(found, key=str) == [b"row 0", b"row 1", b"row 2"], found


def write_partitions(spark: Any, scene: Scene) -> None:
    """Rows of several tasks, with keys."""
    before = scene.values()
    frame = spark.range(300).repartition(3).selectExpr("cast(id as string) as key", "concat('row ', id) as value")
    frame.write.format("pykraft").mode("append").option("bootstrap.controllers", scene.node).save()
    found = scene.values()[len(before) :]
    assert sorted(found, key=str) == sorted((b"row %d" % number for number in range(300)), key=str), found


def refuse_option(spark: Any, scene: Scene) -> None:
    """A misspelled option is refused in the words of the source."""
    try:
        spark.read.format("pykraft").option("startingOfsets", "1").load(scene.path).collect()
    except Exception as error:
        if "startingOffsets" in str(error):
            return
        raise
    raise AssertionError("the option was accepted")


def stream_into_files(spark: Any, scene: Scene) -> None:
    """A stream out of the directory into Parquet files."""
    source = spark.readStream.format("pykraft").schema(SMALL).load(scene.path)
    target = scene.folder / f"files-{type(spark).__module__}"
    writer = source.writeStream.format("parquet").option("checkpointLocation", f"{target}-checkpoint")
    query = writer.trigger(availableNow=True).start(str(target))
    assert query.awaitTermination(STREAM_TIMEOUT_S), "it goes on"
    found = sorted(bytes(row.value) for row in spark.read.schema(SMALL).parquet(str(target)).collect())
    assert found == sorted(VALUES), found


def stream_into_quorum(spark: Any, scene: Scene) -> None:
    """A stream out of the directory into the quorum, which reports the log end."""
    before = scene.values()
    source = spark.readStream.format("pykraft").schema(SMALL).load(scene.path).select("value")
    writer = source.writeStream.format("pykraft").option("bootstrap.controllers", scene.node)
    writer = writer.option("checkpointLocation", str(scene.folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(STREAM_TIMEOUT_S), "it goes on"
    found = scene.values()[len(before) :]
    assert found == VALUES, found
    assert "latestOffset" in query.recentProgress[0]["sources"][0], query.recentProgress[0]


def _rows(values: list[bytes], *, from_offset: int = 0) -> list[tuple[int, bytes]]:
    return [(offset, value) for offset, value in enumerate(values) if offset >= from_offset]


TRIALS: Final[Mapping[str, Trial]] = {
    "a directory": Rows({}, _rows(VALUES), ("offset", "value")),
    "every column of a directory": Rows(
        {}, [(3, offset, "n1") for offset in range(6)], ("epoch", "offset", "replica"), where="timestamp is not null"
    ),
    "columns named by .schema": Rows({}, _rows(VALUES), ("offset", "value"), schema=SMALL),
    "a column of times named by .schema": Rows(
        {}, [(offset,) for offset in range(6)], ("offset",), schema="offset bigint, timestamp timestamp"
    ),
    "record batches": Rows(
        {"rows": "batches"},
        [(0, 2), (2, 2), (4, 2)],
        ("base_offset", "records_count"),
        schema="base_offset bigint, records_count int",
    ),
    "the Kafka source's columns": Rows({"columns": "kafka"}, _rows(VALUES), ("offset", "value")),
    "a column of Kafka's named by .schema": Rows(
        {"columns": "kafka"},
        [(offset, "p") for offset in range(6)],
        ("offset", "topic"),
        schema="offset bigint, topic string",
    ),
    "offsets from and to": Rows(
        {"startingOffsets": "2", "endingOffsets": "4"},
        _rows(VALUES[:4], from_offset=2),
        ("offset", "value"),
        schema=SMALL,
    ),
    "a filter": Rows({}, _rows(VALUES, from_offset=4), ("offset", "value"), where="offset >= 4", schema=SMALL),
    "a filter that the source takes": Rows(
        {"pushFilters": "true"}, _rows(VALUES, from_offset=4), ("offset", "value"), where="offset >= 4", schema=SMALL
    ),
    "a live quorum": Rows(
        {"startingOffsets": "1", "endingOffsets": "6"},
        list(enumerate([b"a", b"b", b"c", b"d", b"e"], start=1)),
        ("offset", "value"),
        is_live=True,
        schema=SMALL,
    ),
    "a wrong option": refuse_option,
    "write": write,
    "write from several tasks": write_partitions,
    "a stream into files": stream_into_files,
    "a stream into a quorum": stream_into_quorum,
}
"""By what they show."""
