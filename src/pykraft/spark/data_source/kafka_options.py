"""The options of Spark's Kafka source: those that mean the same here, and why others cannot apply.

A job that reads with ``format("kafka")`` changes the format and its address. Invariant: no option of the Kafka source
is ignored silently; each is an alias, or has no effect by its nature, or is refused with what to do.

Source: Spark's Kafka integration guide (options of the source, Spark 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pykraft.errors import UsageError

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


def translate(options: Mapping[str, str]) -> dict[str, str]:
    """The options with lower-case names and ours instead of aliases. Errors: UsageError."""
    ours = {alias.lower(): name for alias, name in ALIASES.items()}
    refused = {name.lower(): reason for name, reason in REFUSED.items()}
    found: dict[str, str] = {}
    for given, value in options.items():
        name = given.lower()
        reason = refused.get(name, NO_CLIENT if name.startswith(("kafka.", "kafkaconsumer.")) else None)
        if reason is not None:
            raise UsageError(f"the source pykraft has no option {given}: {reason}")
        if name in ours and ours[name].lower() in {each.lower() for each in options}:
            raise UsageError(f"give the option {ours[name]} or {given}, which are the same, not both")
        found[ours.get(name, name).lower()] = value
    return found
