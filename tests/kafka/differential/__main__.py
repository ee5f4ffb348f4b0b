"""``python -m tests.kafka.differential [--seeds A:B] [--steps N] [--seconds N]``: random sequences for both nodes.

Ends with status 1 at the first finding, which it shortens and tells with seed, step and both nodes. ``--seconds`` goes
on with further seeds until the time is over; ``--jobs`` plays so many sequences side by side. ``--planted all`` plays
the planted bugs, each with its own seed, and ends with status 1 when one is not seen; ``--planted NAME --seeds A:B``
looks for a seed that sees one.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final

from lab.kafka.java import Kafka
from pykraft.local.voters import SOURCES
from tests.kafka.differential.planted import PLANTED, Planted, plant
from tests.kafka.differential.run import Finding, KafkaEndedError, play, quick_jvm
from tests.kafka.differential.shrink import shortest
from tests.kafka.differential.steps import Step

STEPS: Final = 60
PLANTED_STEPS: Final = 30
REPLAY_TIMEOUT_S: Final = 10.0
"""How long a difference must last when it is only repeated."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """What came of several sequences."""

    alike: int = field(default=0)
    ended: int = field(default=0)
    """Sequences that were over early because Kafka's node ended."""
    findings: list[Finding] = field(default_factory=list)


def play_all(  # noqa: PLR0913 - all by name
    kafka: Kafka,
    folder: Path,
    *,
    seeds: Sequence[int],
    steps_count: int,
    seconds: float = float("inf"),
    jobs: int = 1,
    goes_on: bool = False,
    sources: Path = SOURCES,
    shortens: bool = True,
) -> Tally:
    """Sequence after sequence, until one differs, unless that ``goes_on``, or the time is over."""
    tally = Tally()
    deadline = time.monotonic() + seconds
    jvm = quick_jvm(kafka, folder)
    lock = Lock()
    left = iter(seeds)

    def worker() -> None:
        while (seed := _next(left, lock)) is not None:
            if time.monotonic() > deadline or (tally.findings and not goes_on):
                return
            home = folder / str(seed)
            home.mkdir()
            begun = time.monotonic()
            try:
                finding = play(kafka, home, seed=seed, steps_count=steps_count, sources=sources, jvm=jvm)
            except KafkaEndedError as error:
                tally.ended += 1
                print(f"Kafka ended: {error}", flush=True)
                continue
            if finding is not None:
                if shortens:
                    finding = _shortened(kafka, home, finding, sources, jvm)
                tally.findings.append(finding)
                if shortens:
                    print(finding, flush=True)
                continue
            tally.alike += 1
            print(f"seed {seed}: {steps_count} steps alike, {time.monotonic() - begun:.1f} s", flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(worker) for _ in range(jobs)]:
            done.result()
    return tally


def _next(seeds: Iterator[int], lock: Lock) -> int | None:
    with lock:
        return next(seeds, None)


def _shortened(kafka: Kafka, home: Path, finding: Finding, sources: Path, jvm: Sequence[str]) -> Finding:
    plays = iter(range(sys.maxsize))

    def replay(steps: Sequence[Step]) -> Finding | None:
        folder = home / f"again-{next(plays)}"
        folder.mkdir()
        try:
            return play(
                kafka,
                folder,
                seed=finding.seed,
                steps_count=0,
                steps=steps,
                sources=sources,
                settle_timeout_s=REPLAY_TIMEOUT_S,
                jvm=jvm,
            )
        except KafkaEndedError:
            return None

    return shortest(finding, replay)


def see_planted(kafka: Kafka, folder: Path, bugs: Sequence[Planted], seeds: range | None, *, jobs: int = 1) -> set[str]:
    """The names of the bugs that were seen; each is played with these seeds, or its own."""
    seen = set()
    for bug in bugs:
        sources = plant(bug, folder / "sources")
        home = folder / f"{bug.name}"
        home.mkdir()
        own = seeds or range(bug.seed, bug.seed + 1)
        tally = play_all(kafka, home, seeds=own, steps_count=PLANTED_STEPS, jobs=jobs, sources=sources, shortens=False)
        told = [f"seed {each.seed}, step {each.number}: {each.differences[0]}"[:300] for each in tally.findings]
        print(f"{bug.name}: {'; '.join(told) or 'not seen'}", flush=True)
        if tally.findings:
            seen.add(bug.name)
    return seen


def main(words: Sequence[str]) -> int:
    """The command line; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", help="A:B, the end excluded")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--jobs", type=int, default=1, help="sequences at the same time")
    parser.add_argument("--goes-on", action="store_true", help="do not end at the first finding")
    parser.add_argument("--planted", choices=("all", *(each.name for each in PLANTED)))
    options = parser.parse_args(words)
    first, _, end = (options.seeds or "0:1000000").partition(":")
    with tempfile.TemporaryDirectory(prefix="pykraft-differential-") as folder:
        if options.planted is not None:
            bugs = [each for each in PLANTED if options.planted in ("all", each.name)]
            seeds = range(int(first), int(end)) if options.seeds else None
            seen = see_planted(Kafka.find(), Path(folder), bugs, seeds, jobs=options.jobs)
            return 0 if len(seen) == len(bugs) else 1
        tally = play_all(
            Kafka.find(),
            Path(folder),
            seeds=range(int(first), int(end)),
            steps_count=options.steps,
            seconds=options.seconds,
            jobs=options.jobs,
            goes_on=options.goes_on,
        )
    print(f"{tally.alike} alike, {len(tally.findings)} findings, Kafka ended in {tally.ended}")
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
