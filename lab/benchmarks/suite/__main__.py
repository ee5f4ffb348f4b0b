"""The command: ``python -m lab.benchmarks.suite run``, ``list``, ``page`` and ``docs``; ``--help`` tells more."""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from lab.bench.measure import require_proc
from lab.bench.options import RUNS_MAX, SECONDS_MAX, require, require_folder
from lab.benchmarks.suite.cases import SHORT, all_cases, chosen_cases
from lab.benchmarks.suite.results import ROOT, Results
from lab.benchmarks.suite.run import SuiteOptions, run_suite, status_of
from lab.benchmarks.suite.summary import summaries
from lab.benchmarks.suite.tables import fill_document, text_tables
from lab.cli.bench import ProgressLines
from pykraft.text.table import table_lines, terminal_width

MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 - each run makes a folder of its own below it
DOCUMENT = ROOT / "docs" / "performance.md"


def run(chosen: argparse.Namespace) -> None:
    """Measure what the file of results does not have yet, and print tables, or all of it as JSON."""
    require("--runs", chosen.runs, 1, RUNS_MAX)
    require("--seconds", chosen.seconds, 0.5, SECONDS_MAX)
    require("--warm-up", chosen.warm_up, 0, SECONDS_MAX)
    require("--rounds", chosen.rounds, 1, RUNS_MAX)
    require_proc()
    require_folder(chosen.dir)
    cases = chosen_cases(chosen.cases.split(","))
    options = SuiteOptions(
        runs=chosen.runs,
        seconds=chosen.seconds,
        warm_up_s=chosen.warm_up,
        rounds=chosen.rounds,
        disk=chosen.dir.resolve(),
        memory=MEMORY_FOLDER if MEMORY_FOLDER.is_dir() else chosen.dir.resolve(),
        contenders=frozenset(chosen.contenders.split(",")) if chosen.contenders else frozenset(),
    )
    settings = {"seconds": chosen.seconds, "warm_up_s": chosen.warm_up, "rounds": chosen.rounds}
    results = Results(chosen.results, settings)
    console = Console(stderr=True, highlight=False)
    console.print(f"results go to {chosen.results}; if this is stopped, the same command goes on", soft_wrap=True)
    with console.status("") as status:
        run_suite(cases, options, results, ProgressLines(console, status))
    if chosen.json:
        print(json.dumps(results.document(), indent=2))
    else:
        print("\n".join(text_tables(summaries(cases, results.runs), results, width=terminal_width())))


def list_cases(_: argparse.Namespace) -> None:
    rows = [
        (case.name, "yes" if case.name in SHORT else "", case.group, ", ".join(case.contenders)) for case in all_cases()
    ]
    print("\n".join(table_lines(("CASE", "SHORT", "GROUP", "CONTENDERS"), rows, width=terminal_width())))


def page(chosen: argparse.Namespace) -> None:
    """Write a page with plots of the results."""
    from lab.benchmarks.suite.page import render

    results = Results(chosen.results)
    chosen.page.write_text(render(summaries(all_cases(), results.runs), results), encoding="utf-8")
    print(f"wrote {chosen.page}")


def docs(chosen: argparse.Namespace) -> None:
    """Put tables of the results between the markers of docs/performance.md."""
    results = Results(chosen.results)
    path: Path = chosen.document
    path.write_text(
        fill_document(path.read_text(encoding="utf-8"), summaries(all_cases(), results.runs), results), encoding="utf-8"
    )
    print(f"wrote {path}")


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="python -m lab.benchmarks.suite", description="Measure pykraft and its peers.")
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    results_help = "file of results, one line for each run"

    one = commands.add_parser("run", help="measure", description=run.__doc__)
    one.add_argument("--cases", default="short", help="names or groups, with commas; short (default) or all")
    one.add_argument("--contenders", default="", help="only these, with commas")
    one.add_argument("--runs", type=int, default=3, help="turns of each case (default: 3)")
    one.add_argument("--seconds", type=float, default=3.0, help="measured seconds of each run (default: 3)")
    one.add_argument("--warm-up", type=float, default=3.0, help="seconds of load before that (default: 3)")
    one.add_argument("--rounds", type=int, default=10, help="fail-overs in one run (default: 10)")
    one.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="folder on the disk in question")
    one.add_argument("--results", type=Path, default=Path("results.jsonl"), help=results_help)
    one.add_argument("--json", action="store_true", help="print everything as JSON")
    one.set_defaults(act=run)

    one = commands.add_parser("list", help="show the cases", description=list_cases.__doc__)
    one.set_defaults(act=list_cases)

    one = commands.add_parser("page", help="draw plots", description=page.__doc__)
    one.add_argument("results", type=Path, help=results_help)
    one.add_argument("page", type=Path, help="the page to write")
    one.set_defaults(act=page)

    one = commands.add_parser("docs", help="fill docs/performance.md", description=docs.__doc__)
    one.add_argument("results", type=Path, help=results_help)
    one.add_argument("--document", type=Path, default=DOCUMENT, help="another document to fill")
    one.set_defaults(act=docs)
    return whole


def main(words: Sequence[str] | None = None) -> int:
    """Obey a command line; the exit status."""
    chosen = parser().parse_args(words)
    return status_of(lambda: chosen.act(chosen))


if __name__ == "__main__":
    sys.exit(main())
