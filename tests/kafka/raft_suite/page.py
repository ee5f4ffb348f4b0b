"""The page ``docs/kafka-tests.md``: what Kafka's own tests say of pykraft, written by a run.

Invariant: each test of the run is in it once, with its parameters and what came of it.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final

from lab.kafka.jars import KAFKA_VERSION
from tests.kafka.raft_suite.decided import DECIDED, decision_on
from tests.kafka.raft_suite.mutants import RESULTS
from tests.kafka.raft_suite.suite import Outcome
from tests.sim.mutants import MUTANTS
from tests.tidy.repository import ROOT

PAGE: Final = ROOT / "docs" / "kafka-tests.md"
ADRS: Final = ROOT / "docs" / "adr"
TEMPLATE: Final = Path(__file__).with_name("page.md")


def sum_of(outcomes: Iterable[Outcome]) -> str:
    """One line: passed, decided, not applicable, failed."""
    kept = list(outcomes)
    failed = [each for each in kept if each.problem is not None]
    decided = [each for each in failed if decision_on(each) is not None]
    counts = {
        "passed": len(kept) - len(failed),
        "decided": len(decided),
        "not applicable": 0,
        "failed": len(failed) - len(decided),
    }
    return f"{len(kept)} tests: {', '.join(f'{count} {what}' for what, count in counts.items())}"


def page_of(outcomes: Sequence[Outcome], strict: Sequence[Outcome]) -> str:
    """The whole page; ``strict`` are the outcomes without liberties."""
    planted: dict[str, int] = json.loads(RESULTS.read_text())
    needing = {(each.name, each.parameters) for each in strict if each.problem is not None}
    return TEMPLATE.read_text().format(
        sum=f"{sum_of(outcomes)}.",
        version=KAFKA_VERSION,
        strict=len(strict) - len(needing),
        decided="\n".join(
            f"| `{name.partition('.')[2]}` | {decision.says} | {decision.ours} | {_links(decision.adrs)} |"
            for name, decision in sorted(DECIDED.items())
        ),
        planted=len(planted),
        noticed=sum(map(bool, planted.values())),
        bugs="\n".join(f"| {MUTANTS[name].story} | {failed} |" for name, failed in planted.items()),
        tables="\n".join(_tables(outcomes, needing)),
    )


def _tables(outcomes: Iterable[Outcome], needing: Collection[tuple[str, str]]) -> Iterator[str]:
    result = partial(_result, needing=needing)
    ordered = sorted(outcomes, key=lambda each: (each.test_class, each.method, result(each), each.parameters))
    for test_class, found in groupby(ordered, key=lambda each: each.test_class):
        yield f"## {test_class}\n\n| Test | Parameters | Result |\n|---|---|---|"
        for (method, said), alike in groupby(found, key=lambda each: (each.method, result(each))):
            yield f"| `{method}` | {'; '.join(each.parameters for each in alike)} | {said} |"
        yield ""


def _result(outcome: Outcome, needing: Collection[tuple[str, str]]) -> str:
    decision = decision_on(outcome)
    if decision is not None:
        return f"decided ({_links(decision.adrs)})"
    if outcome.problem is not None:
        return "failed"
    return "passed, with a liberty" if (outcome.name, outcome.parameters) in needing else "passed"


def _links(adrs: Iterable[int]) -> str:
    return ", ".join(f"[ADR {number:03}](adr/{_file(number)})" for number in adrs)


def _file(number: int) -> str:
    [path] = ADRS.glob(f"{number:03}-*.md")
    return path.name
