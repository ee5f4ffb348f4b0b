"""Every option of Spark's Kafka source is an alias, has no effect by its nature, or is refused with what to do."""

from __future__ import annotations

import pytest

from pykraft.errors import UsageError
from pykraft.spark.data_source.kafka_options import translate
from pykraft.spark.data_source.options import KNOWN

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
    if name in KNOWN:
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
