"""Tables of `docs/kafka-releases.md` that runs by command write, each between two marks; JSON beside the page has it.

Invariant: the same document gives the same table, so a test can compare the page with it.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
PAGE: Final = DOCS / "kafka-releases.md"


def runs_in(document: Path) -> list[dict[str, Any]]:
    """The recorded runs; none if there is no document."""
    if not document.exists():
        return []
    runs: list[dict[str, Any]] = json.loads(document.read_text())["runs"]
    return runs


def write_runs(document: Path, runs: Sequence[Mapping[str, Any]]) -> None:
    """Make these the recorded runs."""
    document.write_text(json.dumps({"runs": runs}, indent=2) + "\n")


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))


def page_with(table: str, page: str, name: str) -> str:
    """The page with this table between the marks of this name."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n{table}\n{end}{rest.partition(end)[2]}"
