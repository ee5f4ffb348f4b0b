"""A record of the log is decoded with its place, and what cannot be decoded names it."""

from __future__ import annotations

import pytest

from pykraft.errors import ProtocolError
from pykraft.protocol.records import Record
from pykraft.spark.metadata.logged import logged_record
from pykraft.types import Offset
from tests.spark.metadata.made import topic, value


def record(data: bytes) -> Record:
    return Record(Offset(7), 5, sequence=-1, key=None, value=data)


def test_a_record_has_its_place() -> None:
    found = logged_record("n1", record(value(topic())))
    assert (found.offset, found.end_offset, found.timestamp_ms, found.record) == (7, 8, 5, topic())


def test_a_value_that_is_no_metadata_record_names_its_place() -> None:
    with pytest.raises(ProtocolError, match="n1: offset 7: not a metadata record"):
        logged_record("n1", record(b"hello"))
