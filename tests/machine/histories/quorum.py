"""A quorum of programs with a key-value store each, proxies between them, and what they have told so far.

Nodes have ids from a pool; some of them vote, and others may join. Invariant: however the block ends, all programs are
dead; and their events are in files, one for each life of each node, which no fault touches.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

from lab.chaos.network import ProxyNetwork
from pykraft.errors import LocalQuorumError
from pykraft.local.child import Child, Children, wait_until
from pykraft.local.voters import PARTITION, SOURCES, free_ports
from pykraft.types import Uuid, uuid_text
from tests.machine.histories.events import Event, merged
from tests.machine.histories.node import Options
from tests.processes.elections import KnownLeader, known_leader
from tests.tidy.repository import ROOT

SPARE_IDS: Final = 2
"""Ids that do not vote at first."""
CALLS_WHEN_IT_WORKS: Final = 4
WORKS_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a quorum is set up; ``clients`` are those of each node."""

    folder: Path
    seed: int
    nodes: int = 3
    clients: int = 3
    plant: str = ""


@dataclass(slots=True)
class Life:
    """One process of a node."""

    node_id: int
    child: Child
    input: int
    """The descriptor of its standard input."""
    file: Path
    read_size_bytes: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    """What it has written, without the invokes."""
    is_frozen: bool = False

    def command(self, **words: Any) -> None:
        """Send a command. A program that is gone hears nothing."""
        with suppress(BrokenPipeError):
            os.write(self.input, json.dumps(words).encode() + b"\n")

    def read_events(self) -> list[dict[str, Any]]:
        """Read on; returns everything that it has written."""
        with self.file.open("rb") as lines:
            lines.seek(self.read_size_bytes)
            for line in lines.read().split(b"\n")[:-1]:
                self.read_size_bytes += len(line) + 1
                if b'"invoke"' not in line:
                    self.events.append(json.loads(line))
        return self.events

    def answered(self) -> int:
        """How many calls of its clients were answered."""
        return sum(each["type"] == "ok" for each in self.read_events())


class HistoryQuorum:
    """``voters`` of the pool vote at first. Use `begun`."""

    def __init__(
        self, children: Children, network: ProxyNetwork, fronts: dict[int, tuple[int, int]], settings: Settings
    ) -> None:
        self.network = network
        self.settings = settings
        self.lives: dict[int, Life] = {}
        """The nodes that run, by id."""
        self.voters = set(range(1, settings.nodes + 1))
        """Those that vote, as far as is known."""
        self.clocks_ms = dict.fromkeys(fronts, 0)
        """How far the wall clock of each node is from that of the machine."""
        self._children = children
        self._fronts = fronts
        self._cluster_id = uuid_text(Uuid(Random(settings.seed).randbytes(16)))
        self._known: dict[int, frozenset[int]] = {}
        """The voters with which each node was started first."""
        self._starts = count(1)
        self._numbers = count(1)
        self._files: list[Path] = []

    @property
    def pool(self) -> list[int]:
        """All ids."""
        return sorted(self._fronts)

    @property
    def running(self) -> list[int]:
        """Nodes that run."""
        return sorted(self.lives)

    def ports(self) -> list[int]:
        """Where the running nodes listen, past their proxies."""
        return [self._fronts[node_id][1] for node_id in self.running]

    def directory(self, node_id: int) -> Path:
        """Where a node keeps its files."""
        return self.settings.folder / f"n{node_id}"

    def start(self, node_id: int) -> Life:
        """Start a node, with whatever is in its directory."""
        life = next(self._starts)
        file = self.settings.folder / f"life-{life:03d}-n{node_id}.jsonl"
        file.touch()
        # A node keeps the voters of its first start: later ones are in its log. One that is to join is not among them.
        known = self._known.setdefault(node_id, frozenset(self.voters))
        published, listening = self._fronts[node_id]
        options = Options(
            node_id=node_id,
            life=life,
            listen=listening,
            advertised=published,
            voters={each: self._fronts[each][0] for each in sorted(known)},
            cluster_id=self._cluster_id,
            directory=str(self.directory(node_id)),
            file=str(file),
            clients=self.settings.clients,
            seed=self.settings.seed,
            clock_ms=self.clocks_ms[node_id],
            plant=self.settings.plant,
        )
        reading, writing = os.pipe()
        try:
            child = self._children.start(
                f"node {node_id}",
                [sys.executable, "-m", "tests.machine.histories.node", json.dumps(asdict(options))],
                self.settings.folder / f"n{node_id}.log",
                environment={"PYTHONPATH": os.pathsep.join([str(SOURCES), str(ROOT)])},
                stdin=reading,
            )
        finally:
            os.close(reading)
        self._files.append(file)
        self.lives[node_id] = Life(node_id, child, writing, file)
        return self.lives[node_id]

    def kill(self, node_id: int) -> None:
        """Kill -9."""
        life = self.lives.pop(node_id)
        life.child.kill()
        os.close(life.input)

    def empty(self, node_id: int) -> None:
        """Take the disk of a node that is not running."""
        shutil.rmtree(self.directory(node_id), ignore_errors=True)
        self._known.pop(node_id, None)

    def freeze(self, node_id: int) -> None:
        """SIGSTOP."""
        self.lives[node_id].child.pause()
        self.lives[node_id].is_frozen = True

    def thaw(self, node_id: int) -> None:
        """SIGCONT."""
        self.lives[node_id].child.resume()
        self.lives[node_id].is_frozen = False

    def jump(self, node_id: int, ms: int) -> None:
        """Set the wall clock of a node forward or back."""
        self.clocks_ms[node_id] += ms
        if node_id in self.lives:
            self.lives[node_id].command(do="clock", ms=ms)

    def ask(self, node_id: int, do: str, target: int | None = None) -> Callable[[], str | None]:
        """Ask a node to change the voters; returns a function that tells the error, "" for none, None until then."""
        number, life = next(self._numbers), self.lives[node_id]
        life.command(do=do, node=target, number=number)

        def outcome() -> str | None:
            if self.lives.get(node_id) is not life:
                return "it was killed"
            return next((one["error"] for one in life.read_events() if one.get("number") == number), None)

        return outcome

    def leader(self) -> int | None:
        """Who leads, as the running node of the highest epoch knows it."""
        known = [found for node_id in self.running if (found := self._known_leader(node_id)) is not None]
        newest = max(known, key=lambda each: each.epoch, default=None)
        return None if newest is None or newest.id not in self.lives else newest.id

    def require_life(self) -> None:
        """Errors: LocalQuorumError if a node has ended that nobody has killed."""
        for node_id, life in self.lives.items():
            if life.child.status is not None:
                raise LocalQuorumError(f"node {node_id} ended with {life.child.status}, though nobody had ended it")

    def wait_until_it_works(self) -> None:
        """Wait until clients of every running node get answers again. Errors: LocalQuorumError."""
        marks = {node_id: life.answered() for node_id, life in self.lives.items()}
        waiting = set(marks)

        def have_answered() -> bool:
            self.require_life()
            for node_id in list(waiting):
                if self.lives[node_id].answered() >= marks[node_id] + CALLS_WHEN_IT_WORKS:
                    waiting.discard(node_id)
            return not waiting

        names = ", ".join(map(str, self.running))
        wait_until(
            have_answered, f"answers to the clients of nodes {names}", timeout_s=WORKS_TIMEOUT_S, interval_s=0.05
        )

    def end(self) -> list[Event]:
        """Let the clients finish their calls, end all programs, and return the history."""
        for life in self.lives.values():
            life.command(do="enough")
        children = [life.child for life in self.lives.values()]
        self.close()
        for child in children:
            child.wait()
        return self.history()

    def close(self) -> None:
        """Send nothing more; a program ends with its input."""
        for life in self.lives.values():
            os.close(life.input)
        self.lives.clear()

    def history(self) -> list[Event]:
        """The events of all lives so far."""
        return merged(self._files)

    def _known_leader(self, node_id: int) -> KnownLeader | None:
        return known_leader(self.directory(node_id) / PARTITION)


@contextmanager
def begun(settings: Settings) -> Iterator[HistoryQuorum]:
    """A quorum that works, with its voters in the log. Errors: LocalQuorumError."""
    ids = range(1, settings.nodes + SPARE_IDS + 1)
    published, listening = (free_ports(len(ids)) for _ in range(2))
    fronts = dict(zip(ids, zip(published, listening, strict=True), strict=True))
    with closing(ProxyNetwork(fronts, Random(settings.seed))) as network, Children() as children:
        quorum = HistoryQuorum(children, network, fronts, settings)
        for node_id in sorted(quorum.voters):
            quorum.start(node_id)
        quorum.wait_until_it_works()
        _allow_changes(quorum)
        try:
            yield quorum
        finally:
            quorum.close()


def _allow_changes(quorum: HistoryQuorum) -> None:
    """The leader must have heard of all voters first, so it may refuse for a moment."""
    outcome = quorum.ask(quorum.running[0], "allow")

    def is_allowed() -> bool:
        nonlocal outcome
        quorum.require_life()
        error = outcome()
        if error:
            outcome = quorum.ask(quorum.running[0], "allow")
        return error == ""

    wait_until(is_allowed, "the voters to be in the log", timeout_s=WORKS_TIMEOUT_S)
