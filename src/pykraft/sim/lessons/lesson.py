"""A lesson: a scenario, and steps, each of which is a pattern of an event and a sentence about it.

The world of a lesson is the first one whose events match all steps in their order, so a lesson still shows what it says
when the simulator draws its worlds differently. Letters stand for nodes: ``a`` is the same node in all steps and
sentences, and another one than ``b``. ``lessons.toml`` has the lessons. Invariant: the steps that were found are events
of one run, each later than the one before.

A step has ``nodes``, the letters, and one of these patterns; a second letter is the node in parentheses:

- ``becomes``: a node's role changes to this one (the leader that it knows).
- ``fault``: the simulator does this to a node.
- ``receives``: a message of this kind, with ``that`` of this content, arrives at a node (its sender).
- ``does``: a node ``appears`` for the first time, ``starts`` again, ``votes`` on its disk (for whom), ``appends`` to
  its log, ``cuts`` it, ``adds a voter`` to it as leader, or ``commits``: a leader's high watermark rises.

``text`` is the sentence; without one, the step only gives nodes their letters. In it ``{a}`` is a node, and
``{now.epoch}`` and ``{before.epoch}`` are of its state.

Source: KIP-595, KIP-853, KIP-996; the Raft paper (Ongaro and Ousterhout, 2014), sections 5.2 to 5.4.
"""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pykraft.sim.machine import trace
from pykraft.sim.page.render import MessageText, Words, render
from pykraft.sim.run.simulation import Failure, simulate
from pykraft.sim.scenario.file import combined
from pykraft.sim.scenario.scenario import Scenario

SEEDS: Final = range(200)
"""The worlds among which a lesson finds its own."""
FILES: Final = "https://github.com/pykraft/pykraft/blob/main/"
_WIKI: Final = "https://cwiki.apache.org/confluence/display/KAFKA/"
KIPS: Final = {
    595: _WIKI + "KIP-595%3A+A+Raft+Protocol+for+the+Metadata+Quorum",
    853: _WIKI + "KIP-853%3A+KRaft+Controller+Membership+Changes",
    996: _WIKI + "KIP-996%3A+Pre-Vote",
}
Ids = tuple[int | None, ...]
"""The nodes of an event: the one at which it happens, and another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonEvent:
    """An event, the node's state before it, and the message that arrives, with its sender."""

    event: trace.RecordedEvent
    before: trace.NodeState | None = None
    message: MessageText | None = None
    source_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonStep:
    """A pattern with its letters, and the sentence."""

    nodes: str
    pattern: str
    value: str
    that: str = ""
    text: str = ""

    def ids(self, moment: LessonEvent) -> Ids | None:
        """The nodes of this event, or None if it is another one."""
        if self.pattern == "receives":
            return _received(self.value, self.that, moment)
        if self.pattern == "fault":
            event = moment.event
            return (event.node_id,) if isinstance(event, trace.FaultInjected) and event.kind == self.value else None
        if not isinstance(moment.event, trace.Changed):
            return None
        now, before = moment.event.state, moment.before
        if before is None:
            return (moment.event.node_id,) if self.value == "appears" else None
        if self.pattern == "becomes":
            return (moment.event.node_id, now.leader_id) if _role(before) != self.value == _role(now) else None
        return (moment.event.node_id, now.vote) if _CHANGES[self.value](before, now) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What is shown, the worlds that may show it, and where it can be read up."""

    name: str
    title: str
    about: str
    scenario: Scenario
    steps: tuple[LessonStep, ...]
    rules: tuple[str, ...]
    """Files of `pykraft.core`."""
    scenarios: tuple[str, ...]
    """Files of tests/scenarios."""
    kips: tuple[int, ...]

    @property
    def links(self) -> list[tuple[str, str]]:
        """Texts with their addresses."""
        return [
            *((f"core/{path}", f"{FILES}src/pykraft/core/{path}") for path in self.rules),
            *((path, f"{FILES}tests/scenarios/{path}") for path in self.scenarios),
            *((f"KIP-{number}", KIPS[number]) for number in self.kips),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundStep:
    """A step in a run: the index of its event, and the sentence about it."""

    event: int
    at_us: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLesson:
    """A lesson with its world; ``nodes`` are those of the letters."""

    lesson: Lesson
    seed: int
    recorder: trace.Recorder
    nodes: Mapping[str, int]
    steps: tuple[FoundStep, ...]

    def page(self) -> str:
        """The page of the run, with the lesson beside it."""
        lesson = self.lesson
        shown = {
            "title": lesson.title,
            "about": lesson.about,
            "steps": [{"event": step.event, "text": step.text} for step in self.steps],
            "links": lesson.links,
        }
        replay = f"pykraft learn {lesson.name} --html FILE"
        return render(self.recorder, title=f"pykraft: {lesson.title}", replay=replay, reason=None, lesson=shown)


def find(lesson: Lesson, seeds: Iterable[int] = SEEDS) -> FoundLesson:
    """The first world that shows the lesson. Errors: AssertionError if none does, which is a bug of the lesson."""
    for seed in seeds:
        recorder = trace.Recorder()
        if isinstance(simulate(seed, scenario=lesson.scenario, recorder=recorder), Failure):
            continue
        nodes: dict[str, int] = {}
        steps = _steps(lesson.steps, recorder, nodes)
        if steps is not None:
            return FoundLesson(lesson=lesson, seed=seed, recorder=recorder, nodes=nodes, steps=steps)
    raise AssertionError(f"no world shows the lesson {lesson.name}")


def _steps(
    steps: tuple[LessonStep, ...], recorder: trace.Recorder, nodes: dict[str, int]
) -> tuple[FoundStep, ...] | None:
    """Each step at the first event behind the one before that matches it, or None; ``nodes`` gets the letters."""
    found, wanted = [], iter(steps)
    step = next(wanted, None)
    for index, moment in enumerate(_moments(recorder.events)):
        if step is None:
            break
        lettered = _lettered(step.nodes, step.ids(moment), nodes)
        if lettered is None:
            continue
        nodes.update(lettered)
        if step.text:
            now = getattr(moment.event, "state", None)
            text = step.text.format(**nodes, now=now, before=moment.before)
            found.append(FoundStep(event=index, at_us=moment.event.at_us, text=text))
        step = next(wanted, None)
    return tuple(found) if step is None else None


def _lettered(letters: str, ids: Ids | None, nodes: Mapping[str, int]) -> dict[str, int] | None:
    """These nodes by letter, if none of them has another letter, and no letter another node."""
    lettered: dict[str, int] = {}
    for letter, node_id in zip(letters, ids or (None,) * len(letters), strict=False):
        known = {**nodes, **lettered}
        if node_id is None or known.get(letter, node_id) != node_id:
            return None
        if letter not in known and node_id in known.values():
            return None
        lettered[letter] = node_id
    return lettered


def _moments(events: Iterable[trace.RecordedEvent]) -> Iterator[LessonEvent]:
    """Each event with what a pattern may ask of it."""
    words, states = Words(), dict[int | None, trace.NodeState]()
    sent: dict[int, LessonEvent] = {}
    for event in events:
        moment = LessonEvent(event=event, before=states.get(event.node_id))
        if isinstance(event, trace.Sent):
            message = words.describe(event.node_id or 0, event.target_id, event.frame)
            sent[event.number] = replace(moment, message=message, source_id=event.node_id)
        elif isinstance(event, trace.Arrived):
            moment = replace(sent.pop(event.number), event=event)
        yield moment
        if isinstance(event, trace.Changed):
            states[event.node_id] = event.state


def _role(state: trace.NodeState) -> str:
    return state.role.removesuffix("-voted")


def _received(kind: str, that: str, moment: LessonEvent) -> Ids | None:
    message = moment.message
    if not isinstance(moment.event, trace.Arrived) or message is None or message.kind != kind:
        return None
    topics = message.body.get("topics") or message.body.get("responses")
    if that and not (topics and _CONTENTS[that](topics[0]["partitions"][0])):
        return None
    return moment.event.node_id, moment.source_id


_CONTENTS: Final[Mapping[str, Callable[[Mapping[str, Any]], bool]]] = {
    "grants": lambda partition: bool(partition["vote_granted"]),
    "diverges": lambda partition: bool(partition["diverging_epoch"]["end_offset"] >= 0),
}
_CHANGES: Final[Mapping[str, Callable[[trace.NodeState, trace.NodeState], bool]]] = {
    "appears": lambda *_: False,
    "appends": lambda before, now: (before.log_end or 0) < (now.log_end or 0),
    "adds a voter": lambda before, now: before.role == "leader" and (before.voters or 0) < (now.voters or 0),
    "commits": lambda before, now: now.role == "leader" and (before.high_watermark or 0) < (now.high_watermark or 0),
    "cuts": lambda before, now: now.log_end is not None and (before.log_end or 0) > now.log_end,
    "starts": lambda before, _: before.role == "down",
    "votes": lambda before, now: (before.vote, before.disk_epoch) != (now.vote, now.disk_epoch),
}


def load_lessons() -> dict[str, Lesson]:
    """All lessons by name, in the order in which they build on each other."""
    tables = tomllib.loads(Path(__file__).with_name("lessons.toml").read_text(encoding="utf-8"))
    common = tables.pop("scenario")
    return {name: _lesson(name, table, common) for name, table in tables.items()}


def _lesson(name: str, table: dict[str, Any], common: Mapping[str, object]) -> Lesson:
    scenario = combined(name, [("lessons.toml", dict(common)), (f"lesson {name}", table.pop("scenario"))])
    lists: dict[str, Any] = {key: tuple(table.pop(key)) for key in ("rules", "scenarios", "kips")}
    steps = tuple(map(_step, table.pop("steps")))
    return Lesson(name=name, scenario=scenario, steps=steps, **lists, **table)


def _step(table: dict[str, str]) -> LessonStep:
    [(pattern, value)] = [(key, table.pop(key)) for key in ("becomes", "fault", "receives", "does") if key in table]
    return LessonStep(pattern=pattern, value=value, **table)
