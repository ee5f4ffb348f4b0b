"""What is read, by whom, and how: the cases and their contenders.

A case is a query over one set of data. Its contenders are Spark's Kafka connector over a Kafka broker, and the source
`pykraft` over files and over a live quorum. Some have a second form: batches instead of records, or all twelve columns.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

CONNECTOR: Final = "connector"
FILES, LIVE = "files", "live"
OURS: Final = "ours"
"""The session of both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """A case of `lab.benchmarks.spark_source.decoder`, and how many records of it there are."""

    name: str
    records: int

    @property
    def options(self) -> Mapping[str, str]:
        """Of a query for every column, which asks for headers where records have some."""
        return {"includeHeaders": "true"} if "headers" in self.name else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How one contender answers a query: options beside those of the place, columns (DDL), and what is done with them.

    ``act`` is ``count``, ``sum`` of the only column, or ``noop``: each row reaches Spark, which writes it to nowhere.
    ``select`` are columns to keep, for a source that takes no schema.
    """

    contender: str
    session: str
    place: str
    act: str
    options: Mapping[str, str]
    schema: str | None = None
    select: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question, and the ways to answer it."""

    name: str
    ways: tuple[Way, ...]


_KAFKA: Final = {"columns": "kafka"}


def _connector(act: str, *select: str) -> Way:
    return Way(contender=CONNECTOR, session=CONNECTOR, place="broker", act=act, options={}, select=select)


def _ours(
    place: str, act: str, options: Mapping[str, str], schema: str | None = None, *, form: str | None = None
) -> Way:
    name = place if form is None else f"{place}, {form}"
    return Way(contender=name, session=OURS, place=place, act=act, options=options, schema=schema)


QUERIES: Final = (
    Query(
        name="count",
        ways=(
            _connector("count"),
            _ours(FILES, "count", {}, "epoch int"),
            _ours(FILES, "sum", {"rows": "batches"}, "records_count int", form="batches"),
            _ours(LIVE, "count", {}, "epoch int"),
        ),
    ),
    Query(
        name="offset and value",
        ways=(
            _connector("noop", "offset", "value"),
            _ours(FILES, "noop", {}, "offset bigint, value binary"),
            _ours(LIVE, "noop", {}, "offset bigint, value binary"),
        ),
    ),
    Query(
        name="every column",
        ways=(
            _connector("noop"),
            _ours(FILES, "noop", _KAFKA),
            _ours(FILES, "noop", {}, form="twelve columns"),
            _ours(LIVE, "noop", _KAFKA),
        ),
    ),
)


def is_every_column(way: Way) -> bool:
    """Whether it names no columns of its own."""
    return way.act == "noop" and way.schema is None and not way.select


def case_name(data: Data, query: Query) -> str:
    return f"{data.name}, {query.name}"
