"""Run histories for as long as you like, or judge one again.

    python -m tests.machine.histories --minutes 60 --folder F       so many minutes of histories, each of one minute
    python -m tests.machine.histories check F/history.jsonl         what both checkers say of a history
    python -m tests.machine.histories edn F/refused-r12-0.jsonl     a part of one key, as Knossos reads it

The folder gets ``outcomes.jsonl``, with a line for each history; a run with the same folder goes on where it was. A
history that does not pass keeps its files there, and the smallest part of each group that was refused. Exit status: 0
if all passed, 1 if one did not.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from pykraft.errors import UsageError
from pykraft.text.words import counted
from tests.machine.histories.events import edn, in_order, merged
from tests.machine.histories.independent import checked, program
from tests.machine.histories.judge import judge
from tests.machine.histories.nemesis import FAULTS
from tests.machine.histories.planted import PLANTS
from tests.machine.histories.run import Outcome, Plan, run_history, story


def main() -> int:
    """See above."""
    try:
        if sys.argv[1:2] == ["check"]:
            return _check(Path(sys.argv[2]))
        if sys.argv[1:2] == ["edn"]:
            print("\n".join(edn(merged([Path(sys.argv[2])]))))
            return 0
        return _run(_options().parse_args())
    except (UsageError, OSError, ValueError) as error:
        print(f"histories: {error}", file=sys.stderr)
        return 2


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.machine.histories", description="Run histories.")
    parser.add_argument("--minutes", type=float, default=60.0, help="of histories, all together")
    parser.add_argument("--folder", type=Path, required=True, help="where outcomes and failures are kept")
    parser.add_argument("--seed", type=int, default=1, help="of the first history; each has the next one")
    parser.add_argument("--seconds", type=float, default=60.0, help="of one history")
    parser.add_argument("--jobs", type=int, default=1, help="histories at a time")
    parser.add_argument("--clients", type=int, default=3, help="of each node")
    parser.add_argument("--nodes", type=int, choices=range(3, 6), help="voters at the start; drawn without this")
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--keep", action="store_true", help="keep the files of histories that pass, too")
    parser.add_argument("--plant", choices=sorted(PLANTS), default="", help="a bug for all nodes")
    return parser


def _run(options: argparse.Namespace) -> int:
    program()  # it is built before the first history, or an error says why it cannot be
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = folder / "outcomes.jsonl"
    known = [json.loads(line) for line in outcomes.read_text().splitlines()] if outcomes.exists() else []
    count = max(1, round(options.minutes * 60 / options.seconds))
    seeds = [seed for seed in range(options.seed, options.seed + count) if seed not in {one["seed"] for one in known}]
    plans = [
        Plan(
            seed=seed,
            seconds=options.seconds,
            folder=folder / f"seed-{seed}",
            clients=options.clients,
            nodes=options.nodes,
            kinds=options.faults,
            plant=options.plant,
            is_kept=options.keep,
        )
        for seed in seeds
    ]
    with ThreadPoolExecutor(options.jobs) as pool, outcomes.open("a") as out:
        for outcome in pool.map(_reported, plans):
            known.append(asdict(outcome))
            out.write(json.dumps(known[-1]) + "\n")
            out.flush()
    print(_summary(known))
    return 0 if all(Outcome(**one).has_passed for one in known) else 1


def _reported(plan: Plan) -> Outcome:
    outcome = run_history(plan, partial(print, f"seed {plan.seed}:", flush=True))
    words = "passed" if outcome.has_passed else f"DID NOT PASS, see {plan.folder}: {outcome.error}"
    print(f"seed {plan.seed}: {words} {json.dumps(asdict(outcome))}", flush=True)
    for part in sorted(plan.folder.glob("refused-*.jsonl")):
        print(f"{part}:\n{story(merged([part]))}", flush=True)
    return outcome


def _summary(known: Iterable[dict[str, Any]]) -> str:
    known = list(known)
    faults: Counter[str] = Counter()
    for one in known:
        faults.update(one["faults"])
    sums = {name: sum(one[name] for one in known) for name in ("calls", "open_calls", "reads", "follower_reads")}
    minutes = sum(one["seconds"] for one in known) / 60
    failed = [one["seed"] for one in known if not Outcome(**one).has_passed]
    return json.dumps(
        {"histories": len(known), "minutes": round(minutes, 1), **sums, "faults": dict(faults), "failed": failed}
    )


def _check(file: Path) -> int:
    events = merged([file])
    ours, theirs = judge(events), checked(file)
    print(f"{counted(ours.calls, 'call')} in {len(events)} events, {counted(ours.groups, 'group')} of keys")
    print(f"ours: refused {sorted(ours.refused)}, undecided {list(ours.undecided)}")
    print(f"porcupine: refused {list(theirs.refused)}, undecided {list(theirs.undecided)}")
    for name, calls in ours.refused.items():
        print(f"{name}:\n{story(in_order(calls))}")
    return 1 if ours.refused or theirs.refused or ours.undecided or theirs.undecided else 0


if __name__ == "__main__":
    sys.exit(main())
