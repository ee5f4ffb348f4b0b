"""The columns of decoded metadata records: type, version, fields in JSON, or why a value cannot be decoded.

Invariant: the JSON is kafka-dump-log's, but for secrets, which are masked: tables are copied and looked at by many.

Source: KIP-631; Kafka's ``DumpLogSegments --cluster-metadata-decoder``.
"""

from __future__ import annotations

import json
from typing import Final

import pyarrow as pa

from pykraft.errors import ProtocolError
from pykraft.protocol.metadata.readable import without_secrets
from pykraft.protocol.metadata.record import read_metadata_record
from pykraft.spark.arrow_columns import number_column, text_column

METADATA_COLUMNS: Final = ("type", "version", "data", "problem")
_COMPACT: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def metadata_columns(values: pa.BinaryArray) -> dict[str, pa.Array]:
    """`METADATA_COLUMNS` of these values of records."""
    rows = [_decoded(value) for value in values.to_pylist()]
    return {
        "type": text_column([row[0] for row in rows]),
        "version": number_column([row[1] for row in rows], pa.int32()),
        "data": text_column([row[2] for row in rows]),
        "problem": text_column([row[3] for row in rows]),
    }


def _decoded(value: bytes | None) -> tuple[str | None, int | None, str | None, str | None]:
    try:
        record = read_metadata_record(value)
    except ProtocolError as error:
        return None, None, None, str(error)
    return record.type, record.version, _COMPACT.encode(without_secrets(record).json()["data"]), None
