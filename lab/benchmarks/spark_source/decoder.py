"""The decoder of the Spark source alone, without Spark: processor time a record, for records as programs write them.

    python -m lab.benchmarks.spark_source.decoder [--records N] [--turns N] [--case WORDS] [--docs FILE]

Writes a log for each case and reads it as a task does, from its plan to Arrow columns: all twelve columns, and those of
Kafka's source. Records with equal sizes and without keys are only one of the cases: sizes that differ, keys, headers,
each codec, single records, JSON, and Kafka's metadata. Prints the median and the range of all turns.
"""

import argparse
import json
import platform
import random
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import cramjam
from crc32c import crc32c

from lab.benchmarks.spark_source.table import filled
from pykraft.errors import ProtocolError
from pykraft.log.paths import LOG, segment_file
from pykraft.protocol.compression import Compression
from pykraft.protocol.metadata.record import read_metadata_record
from pykraft.protocol.primitives import encode_varint
from pykraft.protocol.records import decode_records, scan
from pykraft.spark.data_source.options import parse_options
from pykraft.spark.source import LogReader
from pykraft.types import Offset

RECORDED: Final = Path(__file__).parents[3] / "tests" / "golden"
SEGMENT_SIZE_BYTES: Final = 1 << 30
POOL: Final = random.Random(7).randbytes(1 << 20)
CODECS: Final[dict[Compression, Callable[[bytes], bytes]]] = {
    Compression.NONE: bytes,
    Compression.LZ4: lambda data: bytes(cramjam.lz4.compress(data)),
    Compression.ZSTD: lambda data: bytes(cramjam.zstd.compress(data)),
    Compression.SNAPPY: lambda data: bytes(cramjam.snappy.compress_raw(data)),
    Compression.GZIP: lambda data: bytes(cramjam.gzip.compress(data)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeRecord:
    """One record: key, value, headers, and milliseconds since the batch began."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    delta_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderCase:
    """Records that ``make`` makes from a random generator, so many in a batch, under one codec."""

    name: str
    make: Callable[[random.Random], MadeRecord]
    per_batch: int = 500
    codec: Compression = Compression.NONE
    share: float = 1.0
    """Of the records that are asked for: large ones need fewer."""
    columns: tuple[str, ...] = ("pykraft", "kafka")

    def count(self, records: int) -> int:
        """How many of them there are if so many small ones are asked for."""
        return max(1, int(records * self.share) // self.per_batch) * self.per_batch

    @property
    def batch_size_bytes(self) -> int:
        """About, before compression."""
        source = random.Random(self.name)
        some = [self.make(source) for _ in range(100)]
        total = sum(len(one.value or b"") + len(one.key or b"") + 20 for one in some)
        return self.per_batch * total // len(some)


def _bytes(source: random.Random, least: int, most: int | None = None) -> bytes:
    size = least if most is None else source.randrange(least, most)
    start = source.randrange(len(POOL) - size)
    return POOL[start : start + size]


def _event(source: random.Random) -> bytes:
    """JSON of some 300 bytes, as services log it."""
    fields = {
        "event": source.choice(("order.created", "order.paid", "order.shipped")),
        "order_id": source.randrange(10**9),
        "customer": {"id": source.randrange(10**6), "segment": source.choice(("new", "regular", "vip"))},
        "amount": round(source.random() * 500, 2),
        "currency": "EUR",
        "items": [{"sku": f"SKU-{source.randrange(10**5)}", "count": source.randrange(1, 9)} for _ in range(3)],
        "at": f"2026-11-29T{source.randrange(24):02d}:{source.randrange(60):02d}:00.{source.randrange(1000):03d}Z",
    }
    return json.dumps(fields).encode()


def _metadata() -> Callable[[random.Random], MadeRecord]:
    """Records of Kafka's metadata log, as one was recorded."""
    values = []
    for log in sorted(RECORDED.rglob("__cluster_metadata-0/*.log")):
        data = log.read_bytes()
        for position, header in scan(data):
            if not header.is_control:
                values += [each.value for each in decode_records(data[position : position + header.size_bytes])]
    values = [value for value in values if value is not None and _is_metadata(value)]
    return lambda source: MadeRecord(value=source.choice(values))


def _is_metadata(value: bytes) -> bool:
    try:
        return read_metadata_record(value) is not None
    except ProtocolError:
        return False  # of another log


def _keyed(source: random.Random) -> MadeRecord:
    return MadeRecord(value=_bytes(source, 100), key=_bytes(source, 16))


def _headed(source: random.Random) -> MadeRecord:
    headers = (("trace", _bytes(source, 16)), ("tenant", b"a"))
    return MadeRecord(value=_bytes(source, 80, 120), key=_bytes(source, 16), headers=headers)


def _json(source: random.Random) -> MadeRecord:
    key = b"%09d" % source.randrange(10**9)
    return MadeRecord(value=_event(source), key=key, delta_ms=source.randrange(100))


def of_size(least: int, most: int | None = None) -> Callable[[random.Random], MadeRecord]:
    return lambda source: MadeRecord(value=_bytes(source, least, most))


def cases() -> list[DecoderCase]:
    """All of them; none is left out because it is slow."""
    codecs = (Compression.ZSTD, Compression.LZ4, Compression.SNAPPY, Compression.GZIP)
    events = [("", Compression.NONE), *((f", {codec.name.lower()}", codec) for codec in codecs)]
    return [
        DecoderCase(name="100 B, equal", make=of_size(100)),
        DecoderCase(name="1 KiB, equal", make=of_size(1_024), per_batch=50, share=0.1),
        DecoderCase(name="50 to 150 B", make=of_size(50, 150)),
        DecoderCase(name="1.0 to 1.1 KB", make=of_size(1_000, 1_100), per_batch=50, share=0.2),
        DecoderCase(name="100 B, key of 16 B", make=_keyed),
        DecoderCase(name="80 to 120 B, key and two headers", make=_headed),
        DecoderCase(name="100 B, one in a batch", make=of_size(100), per_batch=1),
        *(
            DecoderCase(name=f"JSON of 300 B with keys{words}", make=_json, per_batch=100, codec=codec, share=0.5)
            for words, codec in events
        ),
        DecoderCase(name="Kafka's metadata, 5 in a batch", make=_metadata(), per_batch=5, share=0.5),
        DecoderCase(name="Kafka's metadata decoded", make=_metadata(), per_batch=5, share=0.1, columns=("metadata",)),
    ]


def batch_of(records: Sequence[MadeRecord], base_offset: int, codec: Compression) -> bytes:
    """A batch as Kafka's producers write it, without a producer's id."""
    body = bytearray()
    for delta, one in enumerate(records):
        rest = bytearray(b"\0") + encode_varint(one.delta_ms) + encode_varint(delta)
        for part in (one.key, one.value):
            rest += encode_varint(-1) if part is None else encode_varint(len(part)) + part
        rest += encode_varint(len(one.headers))
        for name, value in one.headers:
            rest += encode_varint(len(name)) + name.encode() + encode_varint(len(value)) + value
        body += encode_varint(len(rest)) + rest
    packed = CODECS[codec](bytes(body))
    began_ms = 1_700_000_000_000
    ended_ms = began_ms + max(one.delta_ms for one in records)
    last = len(records) - 1
    sealed = struct.pack(">hiqqqhii", codec, last, began_ms, ended_ms, -1, -1, -1, len(records)) + packed
    return struct.pack(">qiibI", base_offset, 9 + len(sealed), 1, 2, crc32c(sealed)) + sealed


def write_case(folder: Path, case: DecoderCase, count: int) -> None:
    """Write a log of so many records, as `DecoderCase.count` says."""
    folder.mkdir(parents=True)
    source = random.Random(case.name)
    kept = [case.make(source) for _ in range(max(case.per_batch, min(count, 20_000)))]
    segment = None
    for base_offset in range(0, count, case.per_batch):
        if segment is None or segment.tell() > SEGMENT_SIZE_BYTES:
            if segment is not None:
                segment.close()
            segment = (folder / segment_file(Offset(base_offset), LOG)).open("wb")
        start = base_offset % max(1, len(kept) - case.per_batch)
        segment.write(batch_of(kept[start : start + case.per_batch], base_offset, case.codec))
    if segment is not None:
        segment.close()


def measure(folder: Path, columns: str, count: int) -> float:
    """Nanoseconds of processor time a record. Errors: AssertionError when records are missing."""
    options = {"path": str(folder)} | ({} if columns == "pykraft" else {"columns": columns})
    reader = LogReader(parse_options(options))
    parts = reader.partitions()
    begun = time.process_time()
    rows = sum(group.num_rows for part in parts for group in reader.read(part))
    used = time.process_time() - begun
    assert rows == count, f"{rows} of {count} records"
    return used / count * 1e9


def main(words: Sequence[str] | None = None) -> int:
    """Obey a command line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=400_000, help="of the small ones (default: 400000)")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--case", default="", help="only cases with these words in the name")
    parser.add_argument("--docs", type=Path, help="put the table between the markers of this document")
    chosen = parser.parse_args(words)
    wanted = [case for case in cases() if chosen.case in case.name]
    times: dict[tuple[str, str], list[float]] = {}
    sizes: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="pykraft-decoder-") as name:
        folders = {case.name: Path(name) / f"{at}" / "p-0" for at, case in enumerate(wanted)}
        counts = {case.name: case.count(chosen.records) for case in wanted}
        for case in wanted:
            write_case(folders[case.name], case, counts[case.name])
        for _ in range(chosen.turns + 1):
            for case in wanted:
                folder, count = folders[case.name], counts[case.name]
                sizes[case.name] = sum(file.stat().st_size for file in folder.iterdir()) / count
                for columns in case.columns:
                    times.setdefault((case.name, columns), []).append(measure(folder, columns, count))
    table = "\n".join(rows_of(times, sizes, chosen.turns))
    print(table)
    if chosen.docs is not None:
        text = chosen.docs.read_text(encoding="utf-8")
        chosen.docs.write_text(filled(text, "decoder", table), encoding="utf-8")
    return 0


def rows_of(times: Mapping[tuple[str, str], Sequence[float]], sizes: Mapping[str, float], turns: int) -> Iterator[str]:
    """The lines of the table; the first turn is not counted."""
    yield "| records | bytes each | columns | ns a record | MB/s |"
    yield "|---|---|---|---|---|"
    for (name, columns), found in times.items():
        kept = found[1:]
        middle, size = median(kept), sizes[name]
        spread = f"{middle:.0f} ({min(kept):.0f}–{max(kept):.0f})"
        yield f"| {name} | {size:.0f} | {columns} | {spread} | {size / middle * 1e3:.0f} |"
    yield ""
    yield f"Measured {time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, median of {turns} turns."


if __name__ == "__main__":
    sys.exit(main())
