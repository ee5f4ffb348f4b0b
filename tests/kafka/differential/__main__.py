"""``python -m tests.kafka.differential [--seeds A:B] [--steps N] [--seconds N]``: random sequences to Kafka and to us.

Ends with status 1 at the first finding, which it tells with seed and step. ``--seconds`` goes on with further seeds
until the time is over.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from pykraft.local.kafka.java import Kafka
from tests.kafka.differential.run import Finding, KafkaEndedError, play

STEPS = 60


def play_all(
    kafka: Kafka, folder: Path, *, seeds: Sequence[int], steps_count: int, seconds: float, goes_on: bool = False
) -> Sequence[Finding]:
    """Sequence after sequence, until one differs, unless that ``goes_on``, or the time is over."""
    findings: list[Finding] = []
    deadline = time.monotonic() + seconds
    for number, seed in enumerate(seeds):
        if number and time.monotonic() > deadline:
            break
        home = folder / str(seed)
        home.mkdir()
        begun = time.monotonic()
        try:
            finding = play(kafka, home, seed=seed, steps_count=steps_count)
        except KafkaEndedError as error:
            print(f"Kafka ended: {error}", flush=True)
            continue
        if finding is not None:
            findings.append(finding)
            print(finding, flush=True)
            if not goes_on:
                break
            continue
        print(f"seed {seed}: {steps_count} steps alike, {time.monotonic() - begun:.1f} s", flush=True)
    return findings


def main(words: Sequence[str]) -> int:
    """The command line; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:1000000", help="A:B, the end excluded")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--goes-on", action="store_true", help="do not end at the first finding")
    options = parser.parse_args(words)
    first, _, end = options.seeds.partition(":")
    with tempfile.TemporaryDirectory(prefix="pykraft-differential-") as folder:
        seeds = range(int(first), int(end))
        found = play_all(
            Kafka.find(),
            Path(folder),
            seeds=seeds,
            steps_count=options.steps,
            seconds=options.seconds,
            goes_on=options.goes_on,
        )
    print(f"{len(found)} findings" if found else "alike")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
