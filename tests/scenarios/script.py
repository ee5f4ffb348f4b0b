"""The scenario files: prose, commands, and what they made happen.

    # why this must be so
    verb arguments
    verb arguments
    ----
    the lines that the commands above produced
    (blank line)

Verbs: ``cluster voters=3 observers=0 linger=0 [flushed-only]`` (creates and starts all) · ``timeout N`` (time
passes to N's own deadline, others do not notice) · ``tick MS`` (time passes for all) · ``flush N…|all`` ·
``deliver N…|all`` (what is on the wire to them now) · ``drop A->B`` (what is on the wire) · ``cut A->B`` and
``heal`` (links) · ``append N COUNT`` · ``crash N`` · ``restart N`` · ``resign N`` · ``shutdown N`` ·
``run MS`` (time passes and all goes on: flush, deliver) · ``stabilize`` (the same until all is quiet, no time
passes) · ``quiet`` before a verb tells nothing ·
``state [N]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pykraft.config import RaftConfig
from pykraft.core import events
from tests.scenarios import tell
from tests.scenarios.world import World

ROUNDS_MAX = 200


@dataclass(frozen=True, kw_only=True)
class Block:
    """One paragraph of a file: what stands before the rule, and after it."""

    head: tuple[str, ...]
    expected: tuple[str, ...]

    @property
    def commands(self) -> list[str]:
        return [line for line in self.head if line and not line.startswith("#")]


def parse(text: str) -> list[Block]:
    """Split a scenario file into its blocks; prose at the end without commands is a block too."""
    blocks = []
    for paragraph in text.strip("\n").split("\n\n"):
        lines = paragraph.split("\n")
        at = lines.index("----") if "----" in lines else len(lines)
        blocks.append(Block(head=tuple(lines[:at]), expected=tuple(lines[at + 1 :])))
    return blocks


def run(path: Path) -> str:
    """Play a scenario; returns the file's text as it should be."""
    stage = Stage()
    paragraphs = []
    for block in parse(path.read_text(encoding="utf-8")):
        lines: list[str] = []
        for command in block.commands:
            lines += stage.play(command)
        head = "\n".join(block.head)
        paragraphs.append("\n".join([head, "----", *lines]) if block.commands else head)
    return "\n\n".join(paragraphs) + "\n"


class Stage:
    """Plays commands on one world."""

    def __init__(self) -> None:
        self._world: World | None = None
        self._verbs: Mapping[str, Callable[[list[str]], None]] = {
            "cluster": self._cluster,
            "timeout": self._timeout,
            "tick": self._tick,
            "run": self._run,
            "flush": self._flush,
            "deliver": self._deliver,
            "drop": self._drop,
            "cut": self._cut,
            "heal": self._heal,
            "append": self._append,
            "crash": self._crash,
            "restart": self._restart,
            "resign": self._resign,
            "shutdown": self._shutdown,
            "stabilize": self._stabilize,
            "state": self._state,
        }

    @property
    def world(self) -> World:
        assert self._world is not None, "a scenario begins with: cluster voters=N"
        return self._world

    def play(self, command: str) -> list[str]:
        """Run one command; returns the lines that it produced."""
        words = command.split()
        is_quiet = words[0] == "quiet"
        verb, *arguments = words[1:] if is_quiet else words
        self._verbs[verb](arguments)
        lines, self.world.lines = self.world.lines, []
        return [] if is_quiet else lines

    def _cluster(self, arguments: list[str]) -> None:
        options = dict(argument.split("=") for argument in arguments if "=" in argument)
        config = RaftConfig(
            append_linger_ms=int(options.get("linger", "0")), leader_send_flushed_only="flushed-only" in arguments
        )
        self._world = World(voters=int(options["voters"]), observers=int(options.get("observers", "0")), config=config)
        for node in self.world.running():
            self.world.start(node.node_id)

    def _timeout(self, arguments: list[str]) -> None:
        node = self.world.nodes[int(arguments[0])]
        before = (node.raft.role, node.raft.epoch)
        for _ in range(ROUNDS_MAX):
            deadline_ms = node.raft.next_deadline_ms()
            assert deadline_ms is not None, f"node {node.node_id} waits for nothing"
            self.world.now_ms = max(self.world.now_ms, deadline_ms)
            node.step(events.TimerDue())
            if (node.raft.role, node.raft.epoch) != before:
                return
        raise AssertionError(f"node {node.node_id} stays {before}")

    def _tick(self, arguments: list[str]) -> None:
        end_ms = self.world.now_ms + int(arguments[0])
        while True:
            due = [
                (deadline_ms, node.node_id)
                for node in self.world.running()
                if (deadline_ms := node.raft.next_deadline_ms()) is not None and deadline_ms <= end_ms
            ]
            if not due:
                break
            deadline_ms, node_id = min(due)
            self.world.now_ms = max(self.world.now_ms, deadline_ms)
            self.world.nodes[node_id].step(events.TimerDue())
        self.world.now_ms = end_ms

    def _run(self, arguments: list[str]) -> None:
        end_ms = self.world.now_ms + int(arguments[0])
        self._stabilize([])
        while self.world.now_ms < end_ms:
            deadlines_ms = [node.raft.next_deadline_ms() for node in self.world.running()]
            next_ms = min((deadline for deadline in deadlines_ms if deadline is not None), default=end_ms)
            self._tick([str(max(0, min(next_ms, end_ms) - self.world.now_ms))])
            self._stabilize([])

    def _flush(self, arguments: list[str]) -> None:
        for node in self._nodes(arguments):
            self.world.nodes[node].flush()

    def _deliver(self, arguments: list[str]) -> None:
        targets = None if arguments == ["all"] else self._nodes(arguments)
        for message in [waiting for waiting in self.world.wire if targets is None or waiting.target in targets]:
            if message in self.world.wire:
                self.world.deliver(message)

    def _drop(self, arguments: list[str]) -> None:
        source, target = _link(arguments[0])
        self.world.wire = [
            message for message in self.world.wire if (message.source, message.target) != (source, target)
        ]

    def _cut(self, arguments: list[str]) -> None:
        self.world.cuts |= {_link(argument) for argument in arguments}

    def _heal(self, arguments: list[str]) -> None:
        assert not arguments
        self.world.cuts.clear()

    def _append(self, arguments: list[str]) -> None:
        self.world.propose(int(arguments[0]), int(arguments[1]))

    def _crash(self, arguments: list[str]) -> None:
        self.world.crash(int(arguments[0]))

    def _restart(self, arguments: list[str]) -> None:
        self.world.restart(int(arguments[0]))

    def _resign(self, arguments: list[str]) -> None:
        node = self.world.nodes[int(arguments[0])]
        node.step(events.ResignRequested(epoch=node.raft.epoch))

    def _shutdown(self, arguments: list[str]) -> None:
        self.world.nodes[int(arguments[0])].step(events.ShutdownRequested(timeout_ms=5_000))

    def _stabilize(self, arguments: list[str]) -> None:
        assert not arguments
        for _ in range(ROUNDS_MAX):
            if not self.world.wire and not any(node.jobs for node in self.world.running()):
                return
            for node in self.world.running():
                node.flush()
            self._deliver(["all"])
        raise AssertionError("the cluster does not come to rest")

    def _state(self, arguments: list[str]) -> None:
        for node in self._nodes(arguments or ["all"]):
            self.world.say(tell.state(node, self.world.nodes[node].raft))

    def _nodes(self, arguments: list[str]) -> list[int]:
        if arguments == ["all"]:
            return [node.node_id for node in self.world.running()]
        return [int(argument) for argument in arguments]


def _link(text: str) -> tuple[int, int]:
    source, target = text.split("->")
    return int(source), int(target)
