"""The table of `docs/kafka.md` that says what works with what: written from ``docs/clients.json``, never by hand.

Invariant: the same document gives the same table. One row is one client in one version, in one mode.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pykraft.plural import counted

ROOT: Final = Path(__file__).resolve().parents[3]
DOCUMENT: Final = ROOT / "docs" / "clients.json"
PAGE: Final = ROOT / "docs" / "kafka.md"
BEGIN: Final = "<!-- clients -->\n"
END: Final = "<!-- end of clients -->"


def runs_in(document: Path = DOCUMENT) -> list[dict[str, Any]]:
    """The recorded runs; none if there is no document."""
    if not document.exists():
        return []
    runs: list[dict[str, Any]] = json.loads(document.read_text())["runs"]
    return runs


def merged(known: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The runs with new ones in the place of older ones of the same client and mode."""
    found = {(run["client"], run["is_idempotent"]): dict(run) for run in (*known, *new)}
    return [found[key] for key in sorted(found, key=lambda key: (key[0].lower(), not key[1]))]


def table_of(runs: Sequence[Mapping[str, Any]]) -> str:
    """The runs as a table in Markdown."""
    head = ["client", "version", "mode", "compressions", "records, kills of the leader", "result", "date"]
    rows = [head, ["---"] * len(head), *(_row(run) for run in runs)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def page_with(table: str, page: str) -> str:
    """The page with this table between its marks."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}"


def write(new: Sequence[Mapping[str, Any]]) -> None:
    """Put these runs into the document and the page."""
    runs = merged(runs_in(), new)
    DOCUMENT.write_text(json.dumps({"runs": runs}, indent=2) + "\n")
    PAGE.write_text(page_with(table_of(runs), PAGE.read_text()))


def _row(run: Mapping[str, Any]) -> list[str]:
    verdict = run["verdict"]
    if run["problems"]:
        result = "**" + "; ".join(run["problems"]) + "**"
    elif run["is_idempotent"]:
        result = "none lost, none doubled, order kept"
    else:
        result = f"none lost; {counted(verdict['doubled'], 'record')} doubled, which this mode allows"
    return [
        run["client"],
        run["version"],
        "idempotent" if run["is_idempotent"] else "acks=all",
        ", ".join(run["compressions"]),
        f"{run['records']:,}, {run['kills']}",
        result,
        run["date"],
    ]
