"""Explains a failure to somebody new to the project: the rule, what was seen, and why the rule exists.

An oracle explains itself: the docstring of its class is the rule, that of its module the reason and the source. Rules
without an oracle file are explained here. Only the reason of the failure is needed, not the run.

Source: the cited source of each oracle.
"""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import dataclass

from pykraft.sim.invariants import ALL

SOURCE = "Source:"
_OTHERS = {
    "Liveness": (
        "There is always something that is still to happen.",
        "A node that runs has a timer; without any, no node would ever do anything again.",
        "Kafka's RaftEventSimulationTest (the queue of events is never empty).",
    ),
}
_UNKNOWN = (
    "The code of a node never raises an error that it does not expect.",
    "An assertion of the production code or an error that nobody handles ended the run; the traceback tells where.",
    "assertions in the production code.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A failure in plain words; ``nodes`` are the nodes that ``seen`` mentions."""

    title: str
    seen: str
    rule: str
    why: str
    source: str
    nodes: tuple[int, ...]


def explain(reason: str) -> Explanation:
    """Parse the reason of a `pykraft.sim.run.simulation.Failure`: error class, then oracle, then what was seen."""
    error, _, rest = reason.partition(": ")
    name, _, seen = rest.partition(": ")
    rule, why, source = _UNKNOWN
    if error == "ViolationError":
        rule, why, source = _OTHERS.get(name) or _of_oracle(name)
        title = f"{name} was violated"
    else:
        title, seen = f"A node failed with {error}", rest
    nodes = dict.fromkeys(int(number) for number in re.findall(r"\b(?:node|leader)s? (\d+)", seen))
    return Explanation(title=title, seen=seen, rule=rule, why=why, source=source, nodes=tuple(nodes))


def _of_oracle(name: str) -> tuple[str, str, str]:
    oracle = next((kind for kind in ALL if kind.__name__ == name), None)
    if oracle is None:
        return _UNKNOWN
    told, _, source = (inspect.getdoc(sys.modules[oracle.__module__]) or "").partition(SOURCE)
    return _plain(inspect.getdoc(oracle) or ""), _plain(told), _plain(source)


def _plain(text: str) -> str:
    return " ".join(text.replace("``", "").replace("`", "").split())
