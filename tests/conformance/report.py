"""Merge what the stages of a test run wrote, and write docs/conformance.json and docs/conformance.md from it.

    python -m tests.conformance.report [PART ...]       parts: build/conformance/*.json by default

Invariant: the same list and the same outcomes give the same bytes; no times, no machine. Exit status: 0; 1 when a
required line has no passing test, a test with a number failed, or the pages changed (they are written all the same:
look at the diff and commit it); 2 when there is nothing to merge, or no part.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.registry import LATER, NOT_OURS, Line, Number, lines

ROOT = Path(__file__).resolve().parent.parent.parent
PARTS = ROOT / "build" / "conformance"
PASSED = "passed"
SCENARIO = "tests/scenarios/test_scenarios.py::test_scenario["

HEAD = """# Conformance

What a correct replica does, one behavior on each line, and the tests that prove it.
The lines H1 and up, the history, are what Kafka's own commits taught, each with its source.
`bin/test` writes this page from its own run and fails when a required line has no passing test;
`tests/conformance/plugin.py` describes how a test names its lines.
For machines, with every outcome: [conformance.json](conformance.json).

"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One line, and how each test that carries it ended: passed when all its cases did."""

    line: Line
    outcomes: Mapping[str, str]

    @property
    def is_proven(self) -> bool:
        """True when some test carries the line and none of them failed."""
        return bool(self.outcomes) and set(self.outcomes.values()) == {PASSED}

    @property
    def is_missing(self) -> bool:
        """True when the line is required and not proven."""
        return self.line.is_required and not self.is_proven

    @property
    def open(self) -> str | None:
        """What is not proven, and why; None when nothing is open."""
        if self.is_missing:
            return "a test failed" if self.outcomes else "no test carries it"
        return self.line.open if self.line.is_required else self.line.state


def merge(parts: Iterable[Path]) -> list[Proof]:
    """Every line with the tests of all parts."""
    outcomes: dict[Number, dict[str, str]] = {number: {} for number in lines()}
    for part in parts:
        for test_id, test in json.loads(part.read_text(encoding="utf-8")).items():
            name = name_of(test_id)
            for number in test["lines"]:
                if outcomes[number].get(name, PASSED) == PASSED:
                    outcomes[number][name] = test["outcome"]
    return [Proof(line=line, outcomes=dict(sorted(outcomes[line.number].items()))) for line in lines().values()]


def name_of(test_id: str) -> str:
    """The test without what it was parametrized with, which may depend on the machine; a scenario by its file."""
    scenario = test_id.removeprefix(SCENARIO)
    return f"tests/scenarios/{scenario[:-1]}.txt" if scenario != test_id else test_id.partition("[")[0]


def as_json(proofs: Sequence[Proof]) -> str:
    """The list for machines."""
    rows = [
        {
            "number": proof.line.number,
            "section": proof.line.section,
            "statement": proof.line.statement,
            "source": proof.line.source,
            "state": proof.line.state,
            "proven": proof.is_proven,
            "open": proof.open,
            "tests": proof.outcomes,
        }
        for proof in proofs
    ]
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"


def as_page(proofs: Sequence[Proof]) -> str:
    """The list for people: what is proven by which test, what is open and why."""
    required = [proof for proof in proofs if proof.line.is_required]
    proven = sum(proof.is_proven for proof in required)
    not_ours = [proof for proof in proofs if proof.line.is_not_ours]
    waiting = [proof for proof in proofs if proof.open is not None and not proof.line.is_not_ours]
    history = sum(isinstance(proof.line.number, str) for proof in proofs)
    page = HEAD + f"{len(proofs) - history} lines and {history} rows of the history: {len(required)} are required, "
    page += f"{proven} of them are proven, and {len(not_ours)} do not apply.\n"
    for title, why, chosen in (("Open", "Why it is open", waiting), ("Does not apply", "Why not", not_ours)):
        rows = [(str(one.line.number), _says(one), _why(one)) for one in chosen]
        page += f"\n## {title}\n\n" + (_table(("Line", "What it says", why), rows) if rows else "Nothing.\n")
    for section in dict.fromkeys(proof.line.section for proof in proofs):
        rows = [
            (str(proof.line.number), _says(proof), "<br>".join(_names(proof)) or _why(proof))
            for proof in proofs
            if proof.line.section == section
        ]
        page += f"\n## {section}\n\n" + _table(("Line", "What it says", "Proven by"), rows)
    return page


def main(arguments: Sequence[str]) -> int:
    """Merge, write, and say what is wrong."""
    parts = [Path(argument) for argument in arguments] or sorted(PARTS.glob("*.json"))
    if not parts:
        print(f"there is no part in {PARTS}: run pytest with --conformance-report=FILE first", file=sys.stderr)
        return 2
    try:
        proofs = merge(parts)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        print(f"a part cannot be read: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    pages = {"conformance.json": as_json(proofs), "conformance.md": as_page(proofs)}
    complaints = [f"line {proof.line.number}: {proof.open}" for proof in proofs if proof.is_missing]
    complaints += [f"docs/{name} was written anew: look at the diff" for name in pages if _write(name, pages[name])]
    print(f"{sum(proof.is_proven for proof in proofs)} of {len(proofs)} lines are proven")
    print("\n".join(complaints), end="\n" if complaints else "", file=sys.stderr)
    return 1 if complaints else 0


def _write(name: str, text: str) -> bool:
    """Write a page; True when it was different."""
    path = ROOT / "docs" / name
    is_same = path.exists() and path.read_text(encoding="utf-8") == text
    if not is_same:
        path.write_text(text, encoding="utf-8")
    return not is_same


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    body = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in (head, ["---"] * len(head), *rows)]
    return "".join(f"| {row} |\n" for row in body)


def _names(proof: Proof) -> list[str]:
    return [f"`{name.removeprefix('tests/')}`" for name in proof.outcomes]


def _says(proof: Proof) -> str:
    return proof.line.statement + (f" ({proof.line.source})" if proof.line.source else "")


def _why(proof: Proof) -> str:
    return (proof.open or "").removeprefix(LATER).removeprefix(NOT_OURS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
