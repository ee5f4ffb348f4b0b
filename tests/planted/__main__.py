"""Plant the bugs of ``tests/planted/borders.toml`` and see that each one's test catches it.

    python -m tests.planted list                      # all bugs, with their stories and tests
    python -m tests.planted run                       # all of them: about ten minutes
    python -m tests.planted run --name NAME           # only this one; may be repeated
    python -m tests.planted run --json                # one object a bug

``run`` first runs each test without any bug. Exit status: 0 when every test passed without its bug and failed with it,
1 when one did not, 2 for a bug that cannot be planted or a wrong option.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.planted.bugs import BORDERS, PASSED, Bug, Verdict, judge, play
from tests.sim.strength import exit_status, read


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description="Plant bugs that tests must catch.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    listing = verbs.add_parser("list", help="print the bugs")
    running = verbs.add_parser("run", help="plant them, and run their tests")
    running.add_argument("--name", action="append", help="only this bug; may be repeated")
    running.add_argument("--json", action="store_true", help="one object a bug")
    for verb in (listing, running):
        verb.add_argument("--edits", type=Path, default=BORDERS, help="another file of bugs")
    options = parser.parse_args(arguments)
    try:
        bugs = read(options.edits, Bug)
        if options.verb == "list":
            for bug in bugs:
                print(f"{bug.name}: {bug.story}\n    {bug.test}")
            return 0
        verdicts = list(_judged(_chosen(bugs, options.name), as_json=options.json))
    except (OSError, ValueError, SyntaxError) as error:
        print(error, file=sys.stderr)
        return 2
    return exit_status([verdict.is_caught for verdict in verdicts], as_json=options.json)


def _chosen(bugs: Sequence[Bug], names: Sequence[str] | None) -> list[Bug]:
    """Errors: ValueError for a name that no bug has."""
    unknown = sorted({*(names or ())} - {bug.name for bug in bugs})
    if unknown:
        raise ValueError(f"there is no bug {', '.join(unknown)}")
    return [bug for bug in bugs if names is None or bug.name in names]


def _judged(bugs: Sequence[Bug], *, as_json: bool) -> Iterator[Verdict]:
    # A test that fails anyway proves nothing. Nearly always all pass, so that one start of pytest tells.
    all_pass = play(*sorted({bug.test for bug in bugs}))[0] == PASSED
    for bug in bugs:
        passes = all_pass or play(bug.test)[0] == PASSED
        verdict = judge(bug) if passes else _unproven(bug)
        told = f"caught: {verdict.reason}" if verdict.is_caught else f"LIVES: {verdict.reason}"
        print(json.dumps(asdict(verdict)) if as_json else f"{verdict.name}: {told}", flush=True)
        yield verdict


def _unproven(bug: Bug) -> Verdict:
    reason = "the test does not pass without the bug"
    return Verdict(name=bug.name, test=bug.test, is_caught=False, reason=reason)


if __name__ == "__main__":
    sys.exit(main())
