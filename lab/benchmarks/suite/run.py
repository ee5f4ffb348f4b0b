"""Runs cases in turn: in each turn of a group every contender of every case runs once; each run is written at once.

Invariants: a run that the file has is not repeated; a contender that this machine lacks is left out and the results say
so; a run that fails is a result, and the suite goes on. At its end it has an exit status and a line that says why.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path

from lab.benchmarks.suite.cases import Case
from lab.benchmarks.suite.measures import Figures, Setting
from lab.benchmarks.suite.peers import PEERS, ready
from lab.benchmarks.suite.producer import KAFKAS
from lab.benchmarks.suite.results import Results, SuiteRun, busy_cores
from lab.kafka.java import Kafka
from lab.progress import ReportProgress
from pykraft.errors import LocalQuorumError, PykraftError, UsageError
from pykraft.local.child import temporary_folder

EVERY_CASE = ""
"""The case of what concerns all of them: that a contender was left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteOptions:
    """How often and how long to measure, and in which folders; ``contenders`` empty means all."""

    runs: int
    seconds: float
    warm_up_s: float
    rounds: int
    disk: Path
    memory: Path
    contenders: frozenset[str] = frozenset()


def run_suite(cases: Sequence[Case], options: SuiteOptions, results: Results, report: ReportProgress) -> None:
    """Run what the file does not have yet. Errors: UsageError for an unknown contender."""
    unknown = options.contenders - {name for case in cases for name in case.contenders}
    if unknown:
        raise UsageError(f"--contenders {', '.join(sorted(unknown))}: these cases have no such contender")
    missing = _left_out(_wanted(cases, options), results, report)
    waiting = [
        (case, turn, name)
        for group in dict.fromkeys(case.group for case in cases)
        for turn in range(1, options.runs + 1)
        for case in cases
        if case.group == group
        for name in case.contenders
        if _is_chosen(name, options) and name not in missing and not results.has(case.name, name, turn)
    ]
    begun_s = time.monotonic()
    done = 0
    for _, own in groupby(waiting, key=lambda each: each[0].group):
        with temporary_folder("pykraft-suite-", options.disk) as home:
            for case, turn, name in own:
                left = _left(done, len(waiting), time.monotonic() - begun_s)
                head = f"[{done + 1}/{len(waiting)}{left}] {case.name}, {name}, run {turn} of {options.runs}"
                report(head, is_passing=True)
                place = home / case.name
                place.mkdir(exist_ok=True)
                run = _one(case, name, turn, _setting(options, place, _known(case.name, results), head, report))
                results.add(run)
                report(f"{head}: {_words(run)}")
                done += 1


def _one(case: Case, name: str, turn: int, setting: Setting) -> SuiteRun:
    run = SuiteRun(case=case.name, contender=name, turn=turn, busy_cores_before=round(busy_cores(), 2))
    try:
        figures: Figures = case.contenders[name](setting)
    except (LocalQuorumError, UsageError) as error:
        return replace(run, failure=str(error))
    return replace(run, figures={key: float(f"{value:.6g}") for key, value in figures.items()})


def _setting(
    options: SuiteOptions, place: Path, known: Mapping[str, Figures], head: str, report: ReportProgress
) -> Setting:
    def report_part(text: str, *, is_passing: bool = False) -> None:
        del is_passing
        report(f"{head}: {text}", is_passing=True)

    return Setting(
        disk=options.disk,
        memory=options.memory,
        place=place,
        seconds=options.seconds,
        warm_up_s=options.warm_up_s,
        rounds=options.rounds,
        report=report_part,
        known=known,
    )


def _known(case: str, results: Results) -> dict[str, Figures]:
    return {run.contender: run.figures for run in results.runs if run.case == case and run.failure is None}


def _is_chosen(name: str, options: SuiteOptions) -> bool:
    return not options.contenders or name in options.contenders


def _wanted(cases: Sequence[Case], options: SuiteOptions) -> list[str]:
    return [
        name for name in dict.fromkeys(name for case in cases for name in case.contenders) if _is_chosen(name, options)
    ]


def _left_out(names: Sequence[str], results: Results, report: ReportProgress) -> set[str]:
    """Build what must be built; the contenders that this machine cannot run are noted in the results."""
    checks: dict[str, Callable[[], object]] = {
        name: lambda: Kafka.find(None) for name in ("kafka", "kafka-tls", *KAFKAS)
    }
    checks |= {peer: partial(ready, peer) for peer in PEERS}
    missing = set()
    for name in names:
        if name not in checks:
            continue
        report(f"looking for {name}", is_passing=True)
        try:
            checks[name]()
        except UsageError as error:
            report(f"{name} is left out: {error}")
            missing.add(name)
            if not results.has(EVERY_CASE, name, 0):
                results.add(SuiteRun(case=EVERY_CASE, contender=name, turn=0, failure=str(error)))
    return missing


def _left(done: int, count: int, elapsed_s: float) -> str:
    if not done:
        return ""
    left_s = elapsed_s / done * (count - done)
    return f", about {left_s / 60:.0f} min left" if left_s >= 60 else ", about a minute left"


def _words(run: SuiteRun) -> str:
    if run.failure is not None:
        return f"FAILED: {run.failure}"
    shown = {"rate": "{:,.0f}/s", "p50_ms": "p50 {:.2f} ms", "p99_ms": "p99 {:.2f} ms", "worst_ms": "worst {:.0f} ms"}
    shown |= {"start_ms": "{:.0f} ms", "cpu_us": "{:.2f} µs of CPU each", "memory_mib": "{:.0f} MiB"}
    if "rate" not in run.figures:
        shown["mb_per_s"] = "{:,.0f} MB/s"
    return ", ".join(text.format(run.figures[name]) for name, text in shown.items() if name in run.figures)


def status_of(measure: Callable[[], object]) -> int:
    """Measure: 0, 130 after Ctrl-C, 2 after an error that the user can mend."""
    try:
        measure()
    except KeyboardInterrupt:
        print("stopped; the same command goes on with what is missing", file=sys.stderr)
        return 130
    except (PykraftError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
