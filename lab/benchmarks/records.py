"""How many records per second are encoded to batches and decoded again: ``python lab/benchmarks/records.py [--json]``.

Rounds of all cases are interleaved, so a noisy minute affects all cases alike; each line gives minimum, median and
maximum over the rounds, in thousand records per second, CRC included. Nothing is written to disk.
"""

import argparse
import gzip
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pykraft.protocol.records import (
    HEADER_SIZE_BYTES,
    batch_size_bytes,
    decode_records,
    decode_values,
    encode_batch,
    scan,
)
from pykraft.types import Epoch, Offset

ROUNDS = 7
ROUND_SECONDS = 0.15


@dataclass
class Case:
    """One measurement: ``run`` handles ``count`` records per call."""

    name: str
    count: int
    run: Callable[[], object]
    rates: list[float] = field(default_factory=list)

    def measure(self, seconds: float) -> None:
        """Call it for about this long; records the rate."""
        calls = 0
        start = time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            self.run()
            calls += 1
        self.rates.append(calls * self.count / elapsed / 1000)


def cases() -> Iterator[Case]:
    """Encode and decode over sizes and counts; the last cases are paths that are not hot."""
    chance = random.Random(7)
    shapes = [(10, 10_000), (100, 10), (100, 1_000), (100, 10_000), (256, 4_000), (1_024, 1_000)]
    for size_bytes, count in shapes:
        values = [chance.randbytes(size_bytes) for _ in range(count)]
        yield from pair(f"{size_bytes:5} B x {count:6,}", values)
    mixed = [chance.randbytes(chance.randint(50, 150)) for _ in range(10_000)]
    yield from pair("50-150 B x 10,000", mixed)
    batch = encode(mixed)
    yield Case("50-150 B x 10,000 any client", len(mixed), lambda: decode_records(batch))
    yield Case("50-150 B x 10,000 exact size", len(mixed), lambda: batch_size_bytes(mixed))
    small = encode(mixed[:2]) * 500
    yield Case("batches of 2 scanned (batches)", 500, lambda: list(scan(small)))
    body = batch[HEADER_SIZE_BYTES:]
    yield Case("gzip alone, for scale", len(mixed), lambda: gzip.compress(body, 1))


def pair(name: str, values: list[bytes]) -> Iterator[Case]:
    """Both directions of one shape."""
    batch = encode(values)
    assert decode_values(batch) == values
    yield Case(f"{name} encode", len(values), lambda: encode(values))
    yield Case(f"{name} decode", len(values), lambda: decode_values(batch))


def encode(values: list[bytes]) -> bytes:
    """Encode one batch of these values; offset, epoch and time do not matter here."""
    return encode_batch(values, base_offset=Offset(1_000_000), epoch=Epoch(3), timestamp_ms=1_795_228_030_532).data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    all_cases = list(cases())
    for _ in range(ROUNDS):
        for case in all_cases:
            case.measure(ROUND_SECONDS)
    if arguments.json:
        json.dump({case.name.strip(): [round(rate, 1) for rate in case.rates] for case in all_cases}, sys.stdout)
        return
    print(f"{'thousand records a second':34}{'min':>10}{'median':>10}{'max':>10}")
    for case in all_cases:
        low, middle, high = min(case.rates), statistics.median(case.rates), max(case.rates)
        print(f"{case.name:34}{low:10,.0f}{middle:10,.0f}{high:10,.0f}")


if __name__ == "__main__":
    main()
