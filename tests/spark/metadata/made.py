"""Metadata records that tests make: one after the other, a second apart."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pykraft.protocol.metadata.record import MetadataRecord, metadata_tables
from pykraft.spark.metadata.image import LoggedRecord, MetadataImage
from pykraft.types import Offset
from tests.protocol.metadata.records import NUMBERS, encoded
from tests.spark.logs import START_MS

GOLDEN = Path(__file__).parents[2] / "golden"
ORDERS, RETURNS = bytes(15) + b"\1", bytes(15) + b"\2"


def made(kind: str, /, **fields: Any) -> MetadataRecord:
    """A record with these fields; the others have their defaults."""
    table = metadata_tables()[kind]
    body = {one.name: one.default for one in table.body.fields} | fields
    return MetadataRecord(NUMBERS[kind], table.versions.max, body)


def topic(topic_id: bytes = ORDERS, name: str = "orders") -> MetadataRecord:
    return made("TOPIC_RECORD", name=name, topic_id=topic_id)


def partition(topic_id: bytes = ORDERS, number: int = 0, **fields: Any) -> MetadataRecord:
    """A partition on brokers 1, 2 and 3, led by 1, unless the fields say otherwise."""
    known = {"replicas": [1, 2, 3], "isr": [1, 2, 3], "leader": 1, "leader_epoch": 0, "partition_epoch": 0}
    return made("PARTITION_RECORD", topic_id=topic_id, partition_id=number, **(known | fields))


def change(topic_id: bytes = ORDERS, number: int = 0, **fields: Any) -> MetadataRecord:
    return made("PARTITION_CHANGE_RECORD", topic_id=topic_id, partition_id=number, **fields)


def value(record: MetadataRecord) -> bytes:
    """The record's bytes in the log."""
    return encoded(record.type, record.version, record.body)


def logged(records: Iterable[MetadataRecord]) -> list[LoggedRecord]:
    """The records at offsets from 0 on."""
    return [
        LoggedRecord(offset=Offset(at), end_offset=Offset(at + 1), timestamp_ms=START_MS + 1_000 * at, record=record)
        for at, record in enumerate(records)
    ]


def image(*records: MetadataRecord) -> MetadataImage:
    """The image after these."""
    return image_of(logged(records))


def image_of(records: Iterable[LoggedRecord]) -> MetadataImage:
    """The image after these records of a log, which begin with all of a snapshot's, or at offset 0."""
    found = MetadataImage()
    for each in records:
        found.apply(each)
    return found
