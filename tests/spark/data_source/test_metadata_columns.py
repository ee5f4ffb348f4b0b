"""Decoded columns equal Kafka's JSON, without secrets; what cannot be decoded says why."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from pykraft.errors import UsageError
from pykraft.spark.data_source.metadata_columns import METADATA_COLUMNS, metadata_columns
from pykraft.spark.data_source.options import parse_options
from pykraft.spark.source import FilesReader
from tests.cli.test_dump import sections
from tests.protocol.metadata.records import ALL, encoded, full_body
from tests.spark.metadata.made import GOLDEN


def test_the_rows_of_the_source_are_kafkas_json_record_for_record() -> None:
    recording = GOLDEN / "dynamic"
    dumped = sections((recording / "dump" / "n1-decoded.txt").read_text())
    lines = [line for name, lines in dumped.items() if name.endswith(".log") for line in lines]
    payloads = [json.loads(line.partition(" payload: ")[2]) for line in lines if " payload: {" in line]
    options = {"path": str(recording / "disk" / "n1" / "data" / "__cluster_metadata-0"), "columns": "metadata"}
    reader = FilesReader(parse_options(options))
    groups = [rows.to_pylist() for partition in reader.partitions() for rows in reader.read(partition)]
    rows = [row for group in groups for row in group]
    assert [
        {"type": row["type"], "version": row["version"], "data": json.loads(row["data"])} for row in rows
    ] == payloads
    assert {row["problem"] for row in rows} == {None}
    assert [row["offset"] for row in rows] == sorted({row["offset"] for row in rows})


def test_secrets_are_masked_and_unknown_values_say_why() -> None:
    values = [encoded(name, version, full_body(name, version)) for name, version in ALL]
    rows = pa.RecordBatch.from_pydict(metadata_columns(pa.array([*values, b"hello", None], pa.binary()))).to_pylist()
    assert [(row["type"], row["version"]) for row in rows[:-2]] == ALL
    assert [row["problem"] is None for row in rows] == [True] * len(ALL) + [False, False]
    assert all(rows[-1][name] is None for name in METADATA_COLUMNS if name != "problem")
    (credential,) = (json.loads(row["data"]) for row in rows if row["type"] == "USER_SCRAM_CREDENTIAL_RECORD")
    assert [credential[name] for name in ("salt", "storedKey", "serverKey")] == ["***"] * 3


def test_rows_of_batches_have_no_metadata() -> None:
    with pytest.raises(UsageError, match="columns = metadata has a row for each record: leave out rows = batches"):
        parse_options({"path": "p", "columns": "metadata", "rows": "batches"})
