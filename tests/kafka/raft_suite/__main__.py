"""Kafka's own tests of its raft client judge pykraft: `docs/kafka-tests.md`.

    python -m tests.kafka.raft_suite                       505 tests against pykraft: passed, decided, failed
    python -m tests.kafka.raft_suite --against kafka       the same against Kafka's client, by the same runner
    python -m tests.kafka.raft_suite --only KafkaRaftClientPreVoteTest
    python -m tests.kafka.raft_suite --strict              without the liberties of `tests.kafka.raft_suite.liberties`
    python -m tests.kafka.raft_suite --write               also without liberties, and writes the page
    python -m tests.kafka.raft_suite --simulation --tries 10 --only canElectInitialLeader
    python -m tests.kafka.raft_suite --version 4.2.0       another release, from 4.1 on, if its tests are published
    python -m tests.kafka.raft_suite --mutants             which planted bugs the tests notice

The exit status is 0 when each test passed or was decided.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from lab.kafka.jars import KAFKA_VERSION, KafkaUnavailableError
from tests.kafka.raft_suite.decided import decision_on, listed_in_vain
from tests.kafka.raft_suite.mutants import report as report_mutants
from tests.kafka.raft_suite.page import PAGE, page_of, sum_of
from tests.kafka.raft_suite.suite import SIMULATION, Outcome, Part, Suite

DEFAULT_TRIES: Final = 100


def main(words: Sequence[str]) -> int:
    """The command line; see the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.raft_suite")
    parser.add_argument("--against", choices=["pykraft", "kafka"], default="pykraft")
    parser.add_argument("--version", default=KAFKA_VERSION)
    parser.add_argument("--only", action="append", metavar="NAME", help="a class; with --simulation, a property")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--simulation", action="store_true")
    parser.add_argument("--tries", type=int, default=DEFAULT_TRIES)
    parser.add_argument("--mutants", action="store_true")
    options = parser.parse_args(words)
    try:
        suite = Suite.find(options.version)
        if options.mutants:
            return report_mutants(suite)
        return _run(suite, options)
    except KafkaUnavailableError as error:
        parser.error(str(error))


def _run(suite: Suite, options: argparse.Namespace) -> int:
    is_real = options.against == "kafka"
    if options.simulation:
        part = Part(classes=[SIMULATION], methods=f".*#({'|'.join(options.only)})" if options.only else ".*")
        outcomes = suite.run(part, is_real=is_real, options=["--simulation"], tries=options.tries)
        return _report(outcomes, is_real=is_real)
    part = Part(classes=options.only or suite.classes)
    strictness = ["--strict"] if options.strict else []
    outcomes = suite.run(part, is_real=is_real, options=strictness)
    if options.write:
        strict = suite.run(part, options=["--strict"])
        PAGE.write_text(page_of(outcomes, strict))
    return _report(outcomes, is_real=is_real)


def _report(outcomes: Sequence[Outcome], *, is_real: bool) -> int:
    """Print what did not pass and the sum. Kafka's client decides nothing otherwise."""
    vain = [] if is_real else listed_in_vain(outcomes)
    failed = [each for each in outcomes if each.problem is not None and decision_on(each) is None]
    lines = [f"{each.name} {each.parameters}: {each.problem}" for each in failed]
    lines += [f"{name} is decided otherwise, and passes" for name in vain]
    print(*lines, sum_of(outcomes), sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
