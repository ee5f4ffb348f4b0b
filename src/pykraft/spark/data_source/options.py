"""The options of the source ``pykraft``: texts in, one checked value out. `docs/spark-reference.md` explains each.

Names are those of Spark's Kafka source where it has them, in any case. Invariant: the options do not contradict each
other, and none of the Kafka source is ignored silently: it is an alias, has no effect by its nature, or is refused.

Spark takes one limit of a micro-batch at a time. If records and bytes are limited, Spark gets the records; bytes are
added when it asks. Without a limit there is one of bytes, so that a stream that is far behind catches up in bounded
micro-batches.

Source: Spark's Kafka integration guide (options of the source, Spark 4; ``maxOffsetsPerTrigger``,
``minOffsetsPerTrigger``, ``maxTriggerDelay``); PySpark's ``ReadLimit``.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from pykraft.config.properties import Properties
from pykraft.config.providers import resolve
from pykraft.errors import ConfigError, UsageError
from pykraft.security.settings import IN_THE_CLEAR, Security
from pykraft.text.secrets import is_secret
from pykraft.types import Endpoint, Offset

if TYPE_CHECKING:  # commands read options without Spark
    from pykraft.spark.spark_versions import ReadLimit

ALIASES: Final[Mapping[str, str]] = {"maxOffsetsPerTrigger": "maxRecordsPerTrigger"}
"""Kafka's name, and ours."""
ONE_LOG: Final = "a quorum has one log with one partition, so leave it out; path or bootstrap.controllers names the log"
NO_GROUP: Final = "the source reads without a consumer group, so leave it out"
NO_CLIENT: Final = "the source has no Kafka consumer inside, so leave it out"
REFUSED: Final[Mapping[str, str]] = {
    "assign": ONE_LOG,
    "subscribe": ONE_LOG,
    "subscribePattern": ONE_LOG,
    "topic": ONE_LOG,
    "kafka.bootstrap.servers": "name nodes of the quorum with bootstrap.controllers, or its directories with path",
    "kafka.group.id": NO_GROUP,
    "groupIdPrefix": NO_GROUP,
    "kafkaConsumer.pollTimeoutMs": NO_CLIENT,
    "fetchOffset.numRetries": "the source tries for 60 s by itself, so leave it out",
    "fetchOffset.retryIntervalMs": "the source tries for 60 s by itself, so leave it out",
    "maxRecordsPerPartition": "tasks are cut by bytes; minPartitions asks for more of them",
}
"""Names, and what to do instead."""


NEAR = 0.7
"""Similarity, from 0 to 1, from which an unknown name counts as a misspelling."""
OFFSET_TEXT = re.compile(r"[0-9]{1,19}")
SERVER = re.compile(r"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<host>[^\s:\[\]/@,]+)):(?P<port>[0-9]{1,5})")
CONTROLLERS = "bootstrap.controllers"
KNOWN = (
    "path",
    "paths",
    CONTROLLERS,
    "rows",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "maxRecordsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "failOnDataLoss",
    "onTruncation",
    "corrupt",
    "columns",
    "pushFilters",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "includeHeaders",
    *ALIASES,
)
OF_CONNECTIONS: Final = tuple(f"kafka.{name}" for name in ("security.protocol", "ssl.", "sasl.", "config.providers"))
"""Options that protect the connections to a live quorum: Kafka's, with the prefix of the Kafka source."""
OF_TABLE: Final = "option."
"""Spark's prefix of the options of a table."""
OF_LOG: Final = frozenset({"path", "paths", CONTROLLERS})
DELAY_TEXT = re.compile(r"(?P<number>[0-9]{1,9})(?P<unit>ms|s|m|h)")
UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
TRIGGER_DELAY_MS = 15 * 60_000
EARLIEST, LATEST = -2, -1
"""Offsets in JSON by topic, as the Kafka source has them."""


def translate(options: Mapping[str, str]) -> dict[str, str]:
    """The options with lower-case names and ours instead of aliases. Errors: UsageError."""
    ours = {alias.lower(): name for alias, name in ALIASES.items()}
    refused = {name.lower(): reason for name, reason in REFUSED.items()}
    found: dict[str, str] = {}
    for given, value in options.items():
        name = given.lower()
        is_of_client = name.startswith(("kafka.", "kafkaconsumer.")) and not name.startswith(OF_CONNECTIONS)
        reason = refused.get(name, NO_CLIENT if is_of_client else None)
        if reason is not None:
            raise UsageError(f"the source pykraft has no option {given}: {reason}")
        if name in ours and ours[name].lower() in {each.lower() for each in options}:
            raise UsageError(f"give the option {ours[name]} or {given}, which are the same, not both")
        found[ours.get(name, name).lower()] = value
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Where reading starts or ends: at an offset, which may differ by replica, at a time, or at the default."""

    offset: Offset | None = None
    by_replica: tuple[tuple[str, Offset], ...] = ()
    timestamp_ms: int | None = None
    is_latest: bool = False
    is_committed: bool = False

    def offset_of(self, *names: str | None) -> Offset | None:
        """The offset for the replica that has these names, if one was given."""
        return next((offset for name, offset in self.by_replica if name in names), self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """All options. Exactly one of ``patterns`` and ``controllers`` is not empty."""

    patterns: tuple[str, ...]
    controllers: tuple[Endpoint, ...]
    rows: str
    start: Bound
    end: Bound
    records_per_trigger: int | None
    size_bytes_per_trigger: int | None
    tolerant: bool
    columns: str = "pykraft"
    records_min_per_trigger: int | None = None
    trigger_delay_ms_max: int = TRIGGER_DELAY_MS
    tasks_min: int | None = None
    fails_on_data_loss: bool = True
    repairs_truncation: bool = False
    pushes_filters: bool = False
    includes_headers: bool = False
    security: Security = IN_THE_CLEAR


SIZE_BYTES_PER_TRIGGER: Final = 1024 * 1024 * 1024


def default_limit(options: SourceOptions) -> "ReadLimit":
    """The limit that Spark gets."""
    # Not above: commands read options without Spark, and Spark 4.1 has no limits.
    from pykraft.spark.spark_versions import ReadMaxBytes, ReadMaxRows

    if options.records_per_trigger is not None:
        return ReadMaxRows(options.records_per_trigger)
    if options.size_bytes_per_trigger is not None:
        return ReadMaxBytes(options.size_bytes_per_trigger)
    return ReadMaxBytes(SIZE_BYTES_PER_TRIGGER)


def records_and_bytes(limit: "ReadLimit | None", options: SourceOptions) -> tuple[int | None, int | None]:
    """Most records and bytes of a micro-batch under Spark's limit; None for no limit, as before Spark 4.2."""
    from pykraft.spark.spark_versions import ReadMaxBytes, ReadMaxRows

    match limit:
        case ReadMaxRows():
            return limit.max_rows, options.size_bytes_per_trigger
        case ReadMaxBytes():
            return None, limit.max_bytes
        case _:
            return None, None


class TriggerDelay:
    """Holds a micro-batch back until it has enough records, but not for longer than the longest delay.

    The first one after a start is not held back, as with the Kafka source.
    """

    def __init__(self, options: SourceOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._records_min = options.records_min_per_trigger
        self._delay_s_max = options.trigger_delay_ms_max / 1_000
        self._clock = clock
        self._triggered_at: float | None = None

    def holds_back(self, records: int) -> bool:
        """Whether to wait with so many new records; if not, the delay of the next micro-batch begins."""
        if self._records_min is None or not records:
            return False
        now_s = self._clock()
        is_late = self._triggered_at is None or now_s - self._triggered_at >= self._delay_s_max
        if records < self._records_min and not is_late:
            return True
        self._triggered_at = now_s
        return False


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Check and convert. Errors: UsageError that names the option, its value and what is allowed."""
    _refuse_misspelled(options)
    read = _Reader(translate(options))
    patterns, controllers = read.patterns(), read.controllers()
    if bool(patterns) == bool(controllers):
        raise UsageError(
            'the source pykraft needs either .option("path", …), partition directories or globs of them, or '
            '.option("bootstrap.controllers", "host:port,…"), nodes of a live quorum'
        )
    read.check_fixed("startingOffsetsByTimestampStrategy", "latest", "a time after the last record is the log end")
    found = SourceOptions(
        patterns=patterns,
        controllers=controllers,
        rows=read.choice("rows", ("records", "batches")),
        start=read.bound("starting"),
        end=read.bound("ending"),
        records_per_trigger=read.number("maxRecordsPerTrigger", least=1),
        size_bytes_per_trigger=read.number("maxBytesPerTrigger", least=1),
        tolerant=read.choice("corrupt", ("fail", "mark")) == "mark",
        columns=read.choice("columns", ("pykraft", "kafka", "metadata")),
        records_min_per_trigger=read.number("minOffsetsPerTrigger", least=1),
        trigger_delay_ms_max=read.delay_ms("maxTriggerDelay", TRIGGER_DELAY_MS),
        tasks_min=read.number("minPartitions", least=1),
        repairs_truncation=read.choice("onTruncation", ("fail", "repair")) == "repair",
        fails_on_data_loss=read.choice("failOnDataLoss", ("true", "false")) == "true",
        includes_headers=read.choice("includeHeaders", ("false", "true")) == "true",
        pushes_filters=read.choice("pushFilters", ("false", "true")) == "true",
        security=security_of(options),
    )
    _refuse_contradictions(found)
    return found


def _refuse_contradictions(options: SourceOptions) -> None:
    least, most = options.records_min_per_trigger, options.records_per_trigger
    if least is not None and most is not None and least > most:
        raise UsageError(f"minOffsetsPerTrigger = {least} is more than the largest micro-batch, {most}")
    if options.columns != "pykraft" and options.rows == "batches":
        raise UsageError(f"the option columns = {options.columns} has a row for each record: leave out rows = batches")
    if options.includes_headers and (options.rows == "batches" or options.columns == "metadata"):
        raise UsageError("only rows of records have headers: leave out includeHeaders, rows or columns")
    if options.patterns and options.security != IN_THE_CLEAR:
        raise UsageError(f"path names directories, which need no connection: leave out {OF_CONNECTIONS[0]}")
    if options.columns == "kafka" and options.tolerant:
        raise UsageError("the Kafka source's columns cannot report damage: leave out columns = kafka or corrupt = mark")


def table_options(options: Mapping[str, str]) -> dict[str, str] | None:
    """What ``CREATE TABLE … OPTIONS (…)`` gives, as options of a query; None if these are a query's own.

    Spark gives a source each option with a prefix and without, beside the table's properties, and the path as location.
    """
    given = {name.lower(): value for name, value in options.items()}
    found = {name.removeprefix(OF_TABLE): value for name, value in given.items() if name.startswith(OF_TABLE)}
    if "location" in given:
        found["path"] = given["location"].removeprefix("file:")
    for name, value in found.items():
        if is_secret(name) and not value.startswith("${"):
            raise UsageError(
                f"who sees the table sees its option {name}: give it with each query, or as ${{file:…}} or ${{env:…}}"
            )
    return found or None


def _refuse_misspelled(options: Mapping[str, str]) -> None:
    """Reject an unknown option whose name is close to one of ours; Spark lets sources ignore unknown options."""
    known = {name.lower(): name for name in KNOWN}
    for given in options:
        near = get_close_matches(given.lower(), known, n=1, cutoff=NEAR) if given.lower() not in known else []
        if near:
            raise UsageError(f"there is no option {given}; did you mean {known[near[0]]}?")


def parse_controllers(text: str) -> tuple[Endpoint, ...]:
    """The nodes of a live quorum, ``host:port,…``; none for an empty text. Errors: UsageError."""
    found = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        match = SERVER.fullmatch(item)
        endpoint = Endpoint("", 0) if match is None else Endpoint(match["ipv6"] or match["host"], int(match["port"]))
        if not endpoint.can_be_dialed:
            raise wrong_option(CONTROLLERS, item, "host:port,…")
        found.append(endpoint)
    return tuple(found)


def security_of(options: Mapping[str, str]) -> Security:
    """How the connections to a live quorum are protected. Errors: ConfigError that names the option."""
    properties = Properties()
    for name, value in options.items():
        if name.lower().startswith(OF_CONNECTIONS):
            properties[name.lower().removeprefix("kafka.")] = value
    try:
        resolve(properties)
        return Security.of_client(properties)
    except ConfigError as error:
        raise ConfigError(f"kafka.{error.key}", error.value, error.allowed) from error


class _Reader:
    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def text(self, name: str) -> str:
        return self._given.get(name.lower(), "").strip()

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        value = self.text(name).lower() or allowed[0]
        if value not in allowed:
            raise wrong_option(name, value, f"one of {', '.join(allowed)}")
        return value

    def number(self, name: str, *, least: int) -> int | None:
        value = self.text(name)
        if not value:
            return None
        if not OFFSET_TEXT.fullmatch(value) or int(value) < least:
            raise wrong_option(name, value, f"a whole number, at least {least}")
        return int(value)

    def check_fixed(self, name: str, only: str, reason: str) -> None:
        value = self.text(name).lower()
        if value not in ("", only):
            raise wrong_option(name, value, f"{only}: {reason}")

    def delay_ms(self, name: str, otherwise: int) -> int:
        value = self.text(name).lower()
        match = DELAY_TEXT.fullmatch(value)
        if value and match is None:
            raise wrong_option(name, value, "a time such as 500ms, 30s, 15m or 1h")
        return int(match["number"]) * UNITS_MS[match["unit"]] if match else otherwise

    def patterns(self) -> tuple[str, ...]:
        patterns = [part.strip() for part in self.text("path").split(",")]
        paths = self.text("paths")
        if paths:
            listed = _json(paths)
            if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
                raise wrong_option("paths", paths, 'a JSON array of texts such as ["a", "b"]')
            patterns += listed
        return tuple(pattern for pattern in patterns if pattern)

    def controllers(self) -> tuple[Endpoint, ...]:
        return parse_controllers(self.text(CONTROLLERS))

    def bound(self, prefix: str) -> Bound:
        name, time_name, times_name = f"{prefix}Offsets", f"{prefix}Timestamp", f"{prefix}OffsetsByTimestamp"
        given = [each for each in (time_name, times_name, name) if self.text(each)]
        if len(given) > 1:
            raise UsageError(f"give the option {given[1]} or {given[0]}, not both")
        value, timestamp_ms = self.text(name), self.number(time_name, least=0)
        if times_name in given:
            timestamp_ms = _of_partition_0(_json(self.text(times_name)), least=0)
            if timestamp_ms is None:
                raise wrong_option(
                    times_name, self.text(times_name), 'JSON with one topic, such as {"topic": {"0": 1000}}'
                )
        match value.lower():
            case "":
                return Bound(timestamp_ms=timestamp_ms)
            case "earliest" if prefix == "starting":
                return Bound()
            case "latest":
                return Bound(is_latest=True)
            case "committed" if prefix == "ending":
                return Bound(is_committed=True)
        if OFFSET_TEXT.fullmatch(value):
            return Bound(offset=Offset(int(value)))
        listed = _json(value)
        of_topic = _of_partition_0(listed, least=EARLIEST if prefix == "starting" else LATEST)
        if of_topic is not None:
            offset = None if of_topic < 0 else Offset(of_topic)
            return Bound(offset=offset, is_latest=of_topic == LATEST)
        allowed = f"{'earliest' if prefix == 'starting' else 'committed'}, latest, an offset, or JSON by replica"
        if not isinstance(listed, dict) or not all(type(each) is int and each >= 0 for each in listed.values()):
            raise wrong_option(name, value, allowed)
        return Bound(by_replica=tuple((replica, Offset(offset)) for replica, offset in sorted(listed.items())))


def _of_partition_0(listed: object, *, least: int) -> int | None:
    """The number that JSON in the Kafka source's form gives to partition 0 of its only topic; None for other JSON."""
    match listed:
        case {**topics} if len(topics) == 1:
            match next(iter(topics.values())):
                case {"0": int() as number, **others} if not others and type(number) is int and number >= least:
                    return number
    return None


def _json(text: str) -> object:
    try:
        found: object = json.loads(text)
    except ValueError:
        return None
    return found


def wrong_option(name: str, value: str, allowed: str) -> UsageError:
    return UsageError(f"the option {name} = {value!r}: it must be {allowed}")
