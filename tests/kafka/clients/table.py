"""The table of `docs/kafka-releases.md` that says what works with what: made of ``docs/clients.json``, not by hand.

Invariant: the same document gives the same table. One row is one client in one version, in one mode.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pykraft.text.words import counted
from tests.kafka.tables import DOCS, PAGE, markdown, page_with, runs_in, write_runs

DOCUMENT: Final = DOCS / "clients.json"
MARK: Final = "clients"
HEAD: Final = ("client", "version", "mode", "compressions", "records, kills of the leader", "result", "date")


def merged(known: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The runs with new ones in the place of older ones of the same client and mode."""
    found = {(run["client"], run["is_idempotent"]): dict(run) for run in (*known, *new)}
    return [found[key] for key in sorted(found, key=lambda key: (key[0].lower(), not key[1]))]


def table_of(runs: Sequence[Mapping[str, Any]]) -> str:
    """The runs as a table in Markdown."""
    return markdown(HEAD, [_row(run) for run in runs])


def write(new: Sequence[Mapping[str, Any]]) -> None:
    """Put these runs into the document and the page."""
    runs = merged(runs_in(DOCUMENT), new)
    write_runs(DOCUMENT, runs)
    PAGE.write_text(page_with(table_of(runs), PAGE.read_text(), MARK))


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
