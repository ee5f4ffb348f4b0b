"""Options: texts in, one validated value out; an error names the allowed values."""

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from pykraft.errors import UsageError
from pykraft.spark.data_source.options import (
    KNOWN,
    OF_CONNECTIONS,
    Bound,
    TriggerDelay,
    default_limit,
    parse_options,
    records_and_bytes,
    table_options,
    translate,
)
from pykraft.types import Endpoint, Offset

PATH = {"path": "n1"}


def test_defaults() -> None:
    found = parse_options({"path": " n1 , n2,", "paths": '["n,3"]'})
    assert found.patterns == ("n1", "n2", "n,3")
    assert (found.rows, found.tolerant, found.controllers) == ("records", False, ())
    assert (found.start, found.end) == (Bound(), Bound())
    assert (found.records_per_trigger, found.size_bytes_per_trigger) == (None, None)


def test_a_live_quorum_is_named_by_some_of_its_nodes() -> None:
    found = parse_options({"bootstrap.controllers": "localhost:9092, [::1]:9093"})
    assert found.controllers == (Endpoint("localhost", 9092), Endpoint("::1", 9093))
    assert found.patterns == ()


def test_options_of_a_table_of_spark_s_catalog() -> None:
    """As Spark passes them on when the table is made; other names are properties of the table."""
    given = {"Location": "file:/a b/n1", "path": "file:/a b/n1", "owner": "me", "Option.Rows": "batches", "rows": "x"}
    assert table_options(given) == {"path": "/a b/n1", "rows": "batches"}
    assert table_options({"option.bootstrap.controllers": "a:1", "comment": "c"}) == {"bootstrap.controllers": "a:1"}
    assert table_options({"location": "s3://bucket/n1"}) == {"path": "s3://bucket/n1"}
    assert table_options(PATH | {"rows": "batches"}) is None


def test_the_case_of_a_name_does_not_matter() -> None:
    given = {"ROWS": "Batches", "MaxRecordsPerTrigger": "5", "maxbytespertrigger": "7", "Corrupt": "MARK"}
    found = parse_options(PATH | given)
    assert (found.rows, found.tolerant) == ("batches", True)
    assert (found.records_per_trigger, found.size_bytes_per_trigger) == (5, 7)


@pytest.mark.parametrize(
    ("value", "bound"),
    [
        ("latest", Bound(is_latest=True)),
        ("12", Bound(offset=Offset(12))),
        ('{"n2": 3, "n1": 4}', Bound(by_replica=(("n1", Offset(4)), ("n2", Offset(3))))),
    ],
)
def test_bounds(value: str, bound: Bound) -> None:
    found = parse_options(PATH | {"startingOffsets": value, "endingOffsets": value})
    assert found.start == found.end == bound


def test_an_offset_for_all_and_one_for_a_replica() -> None:
    assert Bound(offset=Offset(7)).offset_of("n1") == 7
    by_replica = Bound(by_replica=(("n1", Offset(4)),))
    assert (by_replica.offset_of("n1"), by_replica.offset_of("n2"), by_replica.offset_of(None)) == (4, None, None)


def test_times() -> None:
    found = parse_options(PATH | {"startingTimestamp": "5", "endingTimestamp": "9", "startingOffsets": " "})
    assert (found.start, found.end) == (Bound(timestamp_ms=5), Bound(timestamp_ms=9))


@pytest.mark.parametrize("options", [{}, {"path": " , "}, {"paths": "[]"}, PATH | {"bootstrap.controllers": "a:1"}])
def test_a_path_or_a_quorum_must_be_given(options: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"needs either \.option\(.path.*bootstrap\.controllers"):
        parse_options(options)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("rows", "bytes", "one of records, batches"),
        ("corrupt", "skip", "one of fail, mark"),
        ("paths", "n1", "a JSON array of texts"),
        ("paths", '{"a": 1}', "a JSON array of texts"),
        ("paths", "[1]", "a JSON array of texts"),
        ("bootstrap.controllers", "host", "host:port"),
        ("bootstrap.controllers", "host:0", "host:port"),
        ("bootstrap.controllers", "host:70000", "host:port"),
        ("startingOffsets", "first", "earliest, latest, an offset"),
        ("startingOffsets", "-1", "earliest, latest, an offset"),
        ("startingOffsets", '{"n1": "4"}', "by replica"),
        ("startingOffsets", '{"n1": true}', "by replica"),
        ("startingOffsets", '{"n1": -1}', "by replica"),
        ("endingOffsets", "earliest", "must be committed, latest, an offset"),
        ("startingOffsets", "committed", "must be earliest, latest, an offset"),
        ("endingTimestamp", "now", "a whole number, at least 0"),
        ("maxRecordsPerTrigger", "0", "a whole number, at least 1"),
        ("maxBytesPerTrigger", "1k", "a whole number, at least 1"),
        ("minOffsetsPerTrigger", "0", "a whole number, at least 1"),
        ("maxTriggerDelay", "15 minutes", "a time such as"),
        ("minPartitions", "many", "a whole number, at least 1"),
        ("failOnDataLoss", "no", "one of true, false"),
        ("columns", "all", "one of pykraft, kafka"),
        ("includeHeaders", "yes", "one of false, true"),
        ("startingOffsetsByTimestampStrategy", "error", "must be latest"),
        ("startingOffsetsByTimestamp", '{"a": {"0": 1}, "b": {"0": 1}}', "JSON with one topic"),
        ("endingOffsetsByTimestamp", '{"a": {"1": 1}}', "JSON with one topic"),
        ("startingOffsets", '{"a": {"0": -3}}', "by replica"),
        ("endingOffsets", '{"a": {"0": -2}}', "by replica"),
        ("startingOffsets", '{"a": {"0": true}}', "by replica"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(name: str, value: str, allowed: str) -> None:
    with pytest.raises(UsageError, match=f"the option {name} = .*{allowed}"):
        parse_options({name: value} | ({} if name == "bootstrap.controllers" else PATH))


def test_an_offset_and_a_time_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="startingOffsets or startingTimestamp, not both"):
        parse_options(PATH | {"startingOffsets": "1", "startingTimestamp": "1"})


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("startingOffset", "startingOffsets"),
        ("endingOfsets", "endingOffsets"),
        ("bootstrap.controller", "bootstrap.controllers"),
        ("bootstrap.servers", "bootstrap.controllers"),
        ("maxRecordPerTrigger", "maxRecordsPerTrigger"),
        ("row", "rows"),
    ],
)
def test_an_option_that_is_nearly_ours_is_not_passed_over(given: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"there is no option {given}; did you mean {meant}"):
        parse_options({"path": "p", given: "1"})


def test_other_options_are_passed_over_as_everywhere_in_spark() -> None:
    assert parse_options({"path": "p", "header": "true", "STARTINGOFFSETS": "5"}).start.offset == 5


def test_the_kafka_source_s_names_mean_the_same_here() -> None:
    given = {
        "MaxOffsetsPerTrigger": "9",
        "minOffsetsPerTrigger": "4",
        "maxTriggerDelay": "2m",
        "minPartitions": "8",
        "failOnDataLoss": "FALSE",
        "startingOffsetsByTimestamp": '{"__cluster_metadata": {"0": 5}}',
        "endingOffsets": '{"__cluster_metadata": {"0": 7}}',
        "includeHeaders": "true",
        "columns": "kafka",
    }
    found = parse_options(PATH | given)
    assert (found.records_per_trigger, found.records_min_per_trigger, found.trigger_delay_ms_max) == (9, 4, 120_000)
    assert (found.tasks_min, found.fails_on_data_loss, found.columns) == (8, False, "kafka")
    assert found.includes_headers
    assert (found.start, found.end) == (Bound(timestamp_ms=5), Bound(offset=Offset(7)))


@pytest.mark.parametrize(
    ("number", "bound"), [(-2, Bound()), (-1, Bound(is_latest=True)), (0, Bound(offset=Offset(0)))]
)
def test_offsets_by_topic_have_the_kafka_source_s_numbers_for_both_ends(number: int, bound: Bound) -> None:
    assert parse_options(PATH | {"startingOffsets": f'{{"t": {{"0": {number}}}}}'}).start == bound


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "is more than the largest micro-batch, 4"),
        ({"columns": "kafka", "rows": "batches"}, "leave out rows = batches"),
        ({"columns": "kafka", "corrupt": "mark"}, "cannot report damage"),
        ({"includeHeaders": "true", "rows": "batches"}, "only rows of records have headers"),
        ({"includeHeaders": "true", "columns": "metadata"}, "only rows of records have headers"),
        ({"startingTimestamp": "1", "startingOffsetsByTimestamp": '{"t": {"0": 1}}'}, "not both"),
    ],
)
def test_options_that_contradict_each_other_are_refused(given: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_options(PATH | given)


KAFKAS = (
    "assign",
    "subscribe",
    "subscribePattern",
    "kafka.bootstrap.servers",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "endingOffsets",
    "failOnDataLoss",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "groupIdPrefix",
    "kafka.group.id",
    "includeHeaders",
    "startingOffsetsByTimestampStrategy",
    "topic",
    "kafka.security.protocol",
    "kafka.max.poll.records",
)
"""The options in Spark's Kafka integration guide, and two of the many that it passes on to the consumer."""


@pytest.mark.parametrize("name", KAFKAS)
def test_no_option_of_the_kafka_source_is_ignored(name: str) -> None:
    if name in KNOWN or name.startswith(OF_CONNECTIONS):
        assert len(translate({name: "1"})) == 1
    else:
        with pytest.raises(UsageError, match=f"has no option {name}: .*(leave it out|name nodes|minPartitions)"):
            translate({name: "1"})


def test_case_does_not_matter() -> None:
    assert translate({"MAXOFFSETSPERTRIGGER": "5", "Path": "p"}) == {"maxrecordspertrigger": "5", "path": "p"}
    with pytest.raises(UsageError, match="no option SUBSCRIBE: a quorum has one log"):
        translate({"SUBSCRIBE": "t"})


def test_an_alias_beside_its_own_name_is_refused() -> None:
    with pytest.raises(UsageError, match="give the option maxRecordsPerTrigger or maxOffsetsPerTrigger"):
        translate({"maxOffsetsPerTrigger": "5", "maxrecordspertrigger": "5"})


GIB = 1024**3
MOST_RECORDS, MOST_BYTES = {"maxRecordsPerTrigger": "5"}, {"maxBytesPerTrigger": "7"}


@pytest.mark.parametrize(
    ("given", "limit", "numbers"),
    [
        ({}, ReadMaxBytes(GIB), (None, GIB)),
        (MOST_RECORDS, ReadMaxRows(5), (5, None)),
        (MOST_BYTES, ReadMaxBytes(7), (None, 7)),
        (MOST_RECORDS | MOST_BYTES, ReadMaxRows(5), (5, 7)),
    ],
)
def test_options_and_what_they_come_to(
    given: dict[str, str], limit: ReadLimit, numbers: tuple[int | None, int | None]
) -> None:
    options = parse_options({"path": "n1"} | given)
    assert default_limit(options) == limit
    assert records_and_bytes(limit, options) == numbers


def test_when_spark_wants_everything_the_options_do_not_count() -> None:
    assert records_and_bytes(ReadAllAvailable(), parse_options({"path": "n1"} | MOST_RECORDS | MOST_BYTES)) == (
        None,
        None,
    )


def test_a_micro_batch_waits_for_enough_records_or_the_longest_delay() -> None:
    now_s = 100.0
    options = parse_options({"path": "n1", "minOffsetsPerTrigger": "10", "maxTriggerDelay": "30s"})
    delay = TriggerDelay(options, lambda: now_s)
    assert not delay.holds_back(1), "the first one after a start does not wait"
    now_s = 129.9
    assert delay.holds_back(9)
    assert not delay.holds_back(10)
    now_s = 130.0
    assert delay.holds_back(9), "the delay began with the last micro-batch"
    now_s = 159.9
    assert not delay.holds_back(9)
    now_s = 300.0
    assert not delay.holds_back(0), "nothing new is no micro-batch, so it does not wait either"


SECURED = {"bootstrap.controllers": "a:1", "kafka.security.protocol": "SSL", "Kafka.ssl.truststore.location": "ca.pem"}


def test_connections_are_protected_by_the_options_of_the_kafka_source() -> None:
    found = parse_options(SECURED).security
    assert found.uses_tls
    assert found.text("ssl.truststore.location") == "ca.pem"
    shown = str(parse_options(SECURED | {"kafka.ssl.keystore.key": "word"}))
    assert "word" not in shown
    assert "ca.pem" in shown


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"kafka.security.protocol": "TLS"}, "property kafka.security.protocol = 'TLS': a protocol is one of"),
        ({"kafka.security.protocol": ""}, "kafka.ssl.truststore.location = 'ca.pem': it has no effect without"),
        ({"kafka.ssl.provider": "x"}, "property kafka.ssl.provider = 'x': it cannot be honoured"),
        ({"kafka.ssl.key.password": "${env:x}", "kafka.config.providers": "vault"}, "kafka.config.providers"),
        ({"bootstrap.controllers": "", "path": "n1"}, "path names directories, which need no connection"),
        ({"kafka.fetch.min.bytes": "1"}, "the source has no Kafka consumer inside"),
    ],
)
def test_protection_that_cannot_be_had_is_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_options(SECURED | options)


def test_table_keeps_no_secret() -> None:
    given = {f"option.{name}": value for name, value in SECURED.items()}
    kept = given | {"option.kafka.ssl.key.password": "${env:WORD}"}
    assert table_options(kept) == {name.lower().removeprefix("option."): kept[name] for name in kept}
    with pytest.raises(UsageError, match=r"its option kafka\.ssl\.key\.password: give it with each query") as caught:
        table_options(given | {"option.kafka.ssl.key.password": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_without_a_least_number_nothing_waits() -> None:
    delay = TriggerDelay(parse_options({"path": "n1"}), lambda: 0.0)
    assert not any(delay.holds_back(1) for _ in range(3))
