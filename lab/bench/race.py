"""Runs contenders in turn: for each folder and record size one run of the first, one of the second, and so on.

Invariants: only runs of one turn are compared, because the speed of cores and disks of a shared machine varies by a
factor of two; however a run ends, its processes are dead and its files removed. A contender that breaks under overload
gets the highest rate that it sustains. The race searches for it once: rates double until one is not sustained (or halve
until one is), then the gap is halved twice. Later it tries a slightly higher rate after each success and a lower one
after each failure, so that it also profits from a calmer machine.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lab.bench.measure import Contender, Run, RunLimits, Task, measure
from lab.bench.options import BenchOptions, run_size_bytes
from lab.progress import ReportProgress
from pykraft.errors import LocalQuorumError
from pykraft.local.child import Children, temporary_folder

DOUBLINGS_MAX: Final = 8
HALVINGS_MAX: Final = 8
REFINEMENTS: Final = 2
FIRST_RATE_BYTES_PER_S: Final = 10_000_000
FIRST_RATE_MAX: Final = 100_000
"""Where the search for a rate starts: ten megabytes per second, but no more records than this."""
RATE_UP: Final = 1.1
RATE_DOWN: Final = 0.85
TRIES_MAX: Final = 6
"""Most runs in one turn; the rate falls each time."""


def highest_sustained(is_sustained: Callable[[int], bool], start: int) -> int | None:
    """The highest rate found; None if even a small fraction of the first one is too much.

    At most ``DOUBLINGS_MAX + REFINEMENTS`` or ``1 + HALVINGS_MAX + REFINEMENTS`` tries.
    """
    good, bad = _climb(is_sustained, start)
    if bad == start:
        good = _descend(is_sustained, start)
        bad = good * 2 if good else None
    if good is None or bad is None:
        return good
    for _ in range(REFINEMENTS):
        middle = (good + bad) // 2
        if is_sustained(middle):
            good = middle
        else:
            bad = middle
    return good


def _climb(is_sustained: Callable[[int], bool], start: int) -> tuple[int | None, int | None]:
    good, rate = None, start
    for _ in range(DOUBLINGS_MAX):
        if not is_sustained(rate):
            return good, rate
        good, rate = rate, rate * 2
    return good, None


def _descend(is_sustained: Callable[[int], bool], start: int) -> int | None:
    rate = start
    for _ in range(HALVINGS_MAX):
        rate //= 2
        if rate < 1:
            return None
        if is_sustained(rate):
            return rate
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lap:
    """One run of one contender in one turn; ``records_per_s`` is the requested rate, None for unthrottled."""

    contender: str
    folder: Path
    record_size_bytes: int
    turn: int
    records_per_s: int | None
    run: Run


class Race:
    """All laps of a benchmark."""

    def __init__(
        self,
        options: BenchOptions,
        contenders: Sequence[Contender],
        report: ReportProgress,
        measure_run: Callable[[Contender, Path, Task, RunLimits], Run] | None = None,
        rates: dict[tuple[str, Path, int], int] | None = None,
        first_rates: Mapping[int, int] | None = None,
    ) -> None:
        """``rates`` has the rates that were found before, by contender, folder and record size; it gets new ones.

        A search starts at ``first_rates`` by record size, if it has one.
        """
        self._options = options
        self._contenders = contenders
        self._report = report
        self._measure = measure_run or run_in_folder
        self._rates: dict[tuple[str, Path, int], int] = {} if rates is None else rates
        self._first_rates = first_rates or {}

    def laps(self) -> list[Lap]:
        """Run them all. Errors: LocalQuorumError when a contender cannot run at all; UsageError for a full disk."""
        laps: list[Lap] = []
        for folder in self._options.folders:
            for size_bytes in self._options.record_sizes_bytes:
                task = Task(
                    nodes=self._options.nodes,
                    record_size_bytes=size_bytes,
                    records_per_s=self._options.records_per_s,
                    linger_ms=self._options.linger_ms,
                )
                self._search(folder, task)
                for turn in range(1, self._options.runs + 1):
                    laps += [self._lap(contender, folder, task, turn) for contender in self._contenders]
        return laps

    def _search(self, folder: Path, task: Task) -> None:
        for contender in self._contenders:
            key = contender.name, folder, task.record_size_bytes
            if not contender.breaks_when_overloaded or task.records_per_s is not None or key in self._rates:
                continue

            def is_sustained(rate: int, contender: Contender = contender) -> bool:
                return self._try(contender, folder, task, rate, "searching for its highest rate").sustains(rate)

            usual = max(1, min(FIRST_RATE_MAX, FIRST_RATE_BYTES_PER_S // task.record_size_bytes))
            start = self._first_rates.get(task.record_size_bytes, usual)
            rate = highest_sustained(is_sustained, start)
            if rate is None:
                what = f"records of {task.record_size_bytes} bytes in {folder}"
                raise LocalQuorumError(f"{contender.name} cannot sustain even a low rate with {what}")
            self._rates[key] = rate

    def _lap(self, contender: Contender, folder: Path, task: Task, turn: int) -> Lap:
        key = contender.name, folder, task.record_size_bytes
        rate = self._rates.get(key, task.records_per_s)
        what = f"run {turn} of {self._options.runs}"
        run = self._try(contender, folder, task, rate, what)
        if key in self._rates and rate is not None:
            for _ in range(1, TRIES_MAX):
                if run.sustains(rate):
                    break
                rate = max(1, int(rate * RATE_DOWN))
                run = self._try(contender, folder, task, rate, f"{what} again, at a lower rate")
            self._rates[key] = int(rate * RATE_UP) if run.sustains(rate) else rate
        return Lap(
            contender=contender.name,
            folder=folder,
            record_size_bytes=task.record_size_bytes,
            turn=turn,
            records_per_s=rate,
            run=run,
        )

    def _try(self, contender: Contender, folder: Path, task: Task, rate: int | None, what: str) -> Run:
        limits = RunLimits(
            warm_up_s=self._options.warm_up_s, window_s=self._options.seconds, size_bytes_max=run_size_bytes(folder)
        )
        asked = "unthrottled" if rate is None else f"{rate:,} records/s"
        head = f"{contender.name}, {task.record_size_bytes} bytes, {folder}, {what}"
        self._report(f"{head}: {asked}", is_passing=True)
        run = self._measure(contender, folder, replace(task, records_per_s=rate), limits)
        told = run.failure or f"{run.records_per_s:,.0f} records/s committed"
        self._report(f"{head}: {asked}: {told}")
        return run


def run_in_folder(contender: Contender, folder: Path, task: Task, limits: RunLimits) -> Run:
    """Run once in a new folder below ``folder``, with processes of its own."""
    with temporary_folder("pykraft-bench-", folder) as place, Children() as children:
        return measure(contender.quorum(children, place, task), task, limits)
