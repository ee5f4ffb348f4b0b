"""A batch that a listener accepts is read by every other part: the decoders, verify, dump, and those of Spark.

The part for Spark is in `tests.spark.data_source.test_decode`.

Source: KIP-937 (times); ours (ADR 201).
"""

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import cramjam
import pytest
from click.testing import CliRunner
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pykraft.cli.dump import dump
from pykraft.errors import ProtocolError
from pykraft.host.clients.records_profile import LATER_MS_MAX, check_client_batch
from pykraft.host.ports import run_steps
from pykraft.log.offline.verify import verify
from pykraft.log.os_fs import OsFs
from pykraft.log.paths import LOG, segment_file
from pykraft.protocol.batch import place_batch
from pykraft.protocol.primitives import encode_varint
from pykraft.protocol.records import decode_records, encode_batch
from pykraft.types import Buffer, Epoch, Offset
from tests.host.clients.world import with_header

NOW_MS: Final = 1_700_000_000_000
CODECS: Final[Sequence[Callable[[bytes], Any]]] = (
    bytes,
    gzip.compress,
    cramjam.snappy.compress_raw,
    cramjam.lz4.compress,
    cramjam.zstd.compress,
)
"""By the number in the attributes of a batch."""
TIMES: Final = st.sampled_from([-1, 0, NOW_MS, NOW_MS + LATER_MS_MAX]) | st.integers(0, NOW_MS)
WRONG_TIMES: Final = st.sampled_from([NOW_MS * 1_000_000, NOW_MS + LATER_MS_MAX + 1, -5])
BLOBS: Final = st.none() | st.binary(max_size=200)
NAMES: Final = st.text(max_size=5).map(str.encode)


@dataclass(frozen=True)
class Drawn:
    """What a client says: its records, with their times, and what the header claims beside them."""

    rows: Sequence[tuple[int, bytes | None, bytes | None, Sequence[tuple[bytes, bytes | None]]]]
    codec: int
    max_timestamp: int

    def batch(self) -> bytes:
        """The bytes that it sends; they may break rules."""
        base_ms = self.rows[0][0]
        body = bytes(CODECS[self.codec](b"".join(_record(at, base_ms, *row) for at, row in enumerate(self.rows))))
        head = encode_batch([b"x"], base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=base_ms).data[:61]
        raw = bytearray(head + body)
        raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
        count = len(self.rows)
        changes = {"records_count": count, "last_offset_delta": count - 1, "attributes": self.codec}
        return bytes(with_header(raw, max_timestamp=self.max_timestamp, **changes).data)


ROWS: Final = st.tuples(TIMES, BLOBS, BLOBS, st.lists(st.tuples(NAMES, BLOBS), max_size=3))
DRAWN: Final = st.builds(Drawn, st.lists(ROWS, min_size=1, max_size=6), st.integers(0, 4), TIMES | WRONG_TIMES)


def _record(
    delta: int,
    base_ms: int,
    time_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[bytes, bytes | None]],
) -> bytes:
    parts = b"".join(_blob(name) + _blob(text) for name, text in headers)
    rest = b"\0" + encode_varint(time_ms - base_ms) + encode_varint(delta) + _blob(key) + _blob(value)
    rest += encode_varint(len(headers)) + parts
    return encode_varint(len(rest)) + rest


def _blob(data: bytes | None) -> bytes:
    return encode_varint(-1) if data is None else encode_varint(len(data)) + data


def accepted(drawn: Drawn, *, at: int = 0) -> Buffer:
    """The batch as it is in the log at this offset; another one is drawn if a leader refuses it."""
    steps = check_client_batch(drawn.batch(), size_bytes_max=100_000, strict=None, newest_ms=NOW_MS + LATER_MS_MAX)
    try:
        header, data = run_steps(steps)
    except ProtocolError:
        assume(False)
    return place_batch(header, data, base_offset=Offset(at), epoch=Epoch(1)).data


@given(DRAWN)
@settings(max_examples=100, deadline=None)
def test_what_is_accepted_is_what_the_client_meant(drawn: Drawn) -> None:
    records = decode_records(accepted(drawn, at=7))
    assert [(each.timestamp_ms, each.key, each.value) for each in records] == [row[:3] for row in drawn.rows]
    assert [each.offset for each in records] == [7 + index for index in range(len(records))]


@given(ROWS, WRONG_TIMES)
@settings(max_examples=20, deadline=None)
def test_times_that_spark_cannot_hold_are_not_accepted(row: Any, time_ms: int) -> None:
    steps = check_client_batch(
        Drawn([(time_ms, *row[1:])], 0, time_ms).batch(),
        size_bytes_max=100_000,
        strict=None,
        newest_ms=NOW_MS + LATER_MS_MAX,
    )
    with pytest.raises(ProtocolError):
        run_steps(steps)


@given(DRAWN, DRAWN)
@settings(max_examples=20, deadline=None)
def test_verify_finds_no_damage_in_it_and_dump_prints_all_of_it(first: Drawn, second: Drawn) -> None:
    data = [accepted(first), accepted(replace(second), at=len(first.rows))]
    with TemporaryDirectory() as folder:
        partition = Path(folder) / "__cluster_metadata-0"
        partition.mkdir()
        path = partition / segment_file(Offset(0), LOG)
        path.write_bytes(b"".join(map(bytes, data)))
        report = verify(OsFs(), partition, on_progress=lambda _: None)
        assert [found for found in report.findings.damage if found.path == path] == []
        result = CliRunner().invoke(dump, ["--json", "--print-data-log", str(path)])
        assert result.exit_code == 0, result.output
        lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert sum(len(line.get("records", [])) for line in lines) == len(first.rows) + len(second.rows)
