"""One history: a quorum, its clients and its faults for a while, and then what both checkers say of it.

Invariant: a history passes only if each checker has decided every group and refused none, and if the quorum worked
again after every episode. Whatever does not pass keeps its files.
"""

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from pykraft.errors import LocalQuorumError
from tests.machine.histories.events import Event, calls_of, edn, in_order, written
from tests.machine.histories.independent import IndependentVerdict, checked
from tests.machine.histories.judge import Judgement, judge
from tests.machine.histories.nemesis import FAULTS, Nemesis, episodes
from tests.machine.histories.quorum import Settings, begun

HISTORY: Final = "history.jsonl"
NODES: Final = (3, 3, 4, 5)
"""Voters at the start; drawn from the seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run: for so long, and until each kind of fault has come.

    ``seed`` decides faults and calls, and the machine when they come.
    """

    seed: int
    seconds: float
    folder: Path
    clients: int = 3
    nodes: int | None = None
    kinds: Sequence[str] = FAULTS
    plant: str = ""
    is_kept: bool = False
    """Whether a history that passes keeps its files, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of it; ``refused`` and ``undecided`` name the groups of keys, by checker."""

    seed: int
    nodes: int
    seconds: float
    episodes: int
    faults: dict[str, int]
    calls: int
    open_calls: int
    reads: int
    follower_reads: int
    """Reads that a node answered which did not lead."""
    groups: int
    refused: dict[str, list[str]] = field(default_factory=dict)
    undecided: dict[str, list[str]] = field(default_factory=dict)
    error: str = ""

    @property
    def has_passed(self) -> bool:
        """True for a linearizable history of a quorum that always worked again."""
        return not (any(self.refused.values()) or any(self.undecided.values()) or self.error)


def run_history(plan: Plan, report: Callable[[str], None] = lambda _: None) -> Outcome:
    """Run it, in an empty folder, which is deleted if the history passes and is not to be kept."""
    rng = Random(plan.seed)
    nodes = plan.nodes or rng.choice(NODES)
    shutil.rmtree(plan.folder, ignore_errors=True)  # of a run that was interrupted
    plan.folder.mkdir(parents=True)
    settings = Settings(folder=plan.folder, seed=plan.seed, nodes=nodes, clients=plan.clients, plant=plan.plant)
    error, events, count, begun_s = "", [], 0, time.monotonic()
    counts: dict[str, int] = {}
    try:
        with begun(settings) as quorum:
            nemesis = Nemesis(quorum, rng, report)
            counts = nemesis.counts
            begun_s = time.monotonic()
            try:
                for kinds in episodes(rng, plan.kinds):
                    nemesis.episode(kinds)
                    count += 1
                    if time.monotonic() - begun_s >= plan.seconds and count >= len(plan.kinds):
                        break
                events = quorum.end()
            except LocalQuorumError:
                events = quorum.history()
                raise
    except LocalQuorumError as found:
        error = str(found)
    seconds = round(time.monotonic() - begun_s, 1)
    ours, theirs = both(events, plan.folder)
    outcome = Outcome(
        seed=plan.seed,
        nodes=nodes,
        seconds=seconds,
        episodes=count,
        faults=counts,
        calls=ours.calls,
        open_calls=ours.open_calls,
        reads=sum(_is_read(event) for event in events),
        follower_reads=sum(_is_read(event) and not event.leads for event in events),
        groups=ours.groups,
        refused={"ours": sorted(ours.refused), "porcupine": list(theirs.refused)},
        undecided={"ours": list(ours.undecided), "porcupine": list(theirs.undecided)},
        error=error,
    )
    if outcome.has_passed and not plan.is_kept:
        shutil.rmtree(plan.folder)
    else:
        (plan.folder / "outcome.json").write_text(json.dumps(asdict(outcome), indent=1))
    return outcome


def both(events: Sequence[Event], folder: Path) -> tuple[Judgement, IndependentVerdict]:
    """What both checkers say. The folder gets the history, and of each refused group the smallest part of it."""
    history = written(events, folder / HISTORY)
    ours, theirs = judge(events), checked(history)
    for name, calls in ours.refused.items():
        part = written(in_order(calls), folder / f"refused-{name}.jsonl")
        if name.startswith("r"):
            part.with_suffix(".edn").write_text("\n".join(edn(in_order(calls))) + "\n")
        checked(part, page=part.with_suffix(".html"))
    return ours, theirs


def story(events: Sequence[Event]) -> str:
    """Some calls, one in a line, as a person reads them; times are in ms since the first."""
    calls = calls_of(events)
    begin = min((call.invoke.time for call in calls), default=0)
    lines = []
    for call in calls:
        ended = "never" if call.is_open or call.answer is None else f"{(call.answer.time - begin) / 1e6:.3f}"
        answer = "unknown" if call.is_open or call.answer is None else json.dumps(call.answer.value)
        lines.append(
            f"{(call.invoke.time - begin) / 1e6:10.3f} {ended:>10}  node {call.invoke.node}  process "
            f"{call.invoke.process:<10} {call.invoke.f:<6} {json.dumps(call.invoke.value)} -> {answer}"
        )
    return "\n".join(lines)


def _is_read(event: Event) -> bool:
    return event.type == "ok" and event.f in {"read", "range"}
