"""The scenario files: prose, commands, and what they made happen.

    # why this must be so
    verb arguments
    verb arguments
    ----
    the lines that the commands above produced
    (blank line)

A file begins with ``cluster voters=3`` and perhaps ``observers=1``, ``anonymous`` (an observer without id, node 0),
``linger=20``, ``election=1000``, ``kraft=1`` (the voters stand in a bootstrap checkpoint), ``auto-join``,
``bootstrap=2,3``, ``old=3`` (node 3 knows no pre-votes),
``unformatted`` (no directory is known to be a voter's; formatted ones are the rule),
``flushed-only``, ``slice=100`` (bytes of a snapshot in one answer; each has 250); all nodes are started.

Time: ``timeout N`` (node N's clock runs on until it changes its state; nobody else notices) · ``tick MS`` (time
passes for all, nothing moves) · ``run MS`` (time passes, disks and network work) · ``stabilize`` (they work until
all is quiet, no time passes).
Disks: ``flush N…|all`` (all jobs) · ``flush-next N`` (the oldest job) · ``stall N`` (not by ``run`` and
``stabilize``) · ``mend N`` · ``crash N`` · ``restart N`` · ``restart-wiped N`` (an empty disk) ·
``restart-formatted N`` (an empty disk that an operator vouches for) ·
``restart-replaced N`` (an empty disk with an id of its own) ·
``forget N`` (the quorum-state of a crashed node is lost, as if a copy from before its first election were restored) ·
``rot N OFFSET`` (what begins there on its disk goes bad; the next start finds it) · ``find N OFFSET`` (it goes bad, and
the running node finds it).
Snapshots: ``snapshot N OFFSET`` (the application of N has taken one) · ``clean N`` (nothing before N's newest is
needed any more) · ``bulk N…|all`` (the bulk lane works; it also does when its node's disk does).
Network: ``deliver N…|A->B…|all`` (what is on the wire to them or on
these links, one argument after the other) · ``drop A->B`` (what is on
the wire) · ``cut A->B…`` and ``heal`` · ``tamper A->B FIELD=VALUE…`` (in the Fetch answer on the wire).
Wishes: ``append N COUNT`` · ``upgrade N LEVEL`` · ``resign N`` · ``shutdown N`` · ``ask N WHAT FIELD=VALUE…``
(see ``asks``).
Telling: ``state [N…]`` · ``quiet`` before a verb tells nothing of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pykraft.config import RaftConfig
from pykraft.core import events, messages
from pykraft.core.proof import PROVEN, Proof
from pykraft.types import Damage, Epoch, NodeId, Offset, OffsetAndEpoch
from tests.scenarios import asks, tell
from tests.scenarios.disk import Disk
from tests.scenarios.world import OBSERVER_WITHOUT_ID, Message, Node, World

ROUNDS_MAX = 200
UNPROVEN = Proof(is_complete=False)


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
        self._stalled: set[int] = set()
        self._verbs: Mapping[str, Callable[[list[str]], None]] = {
            "cluster": self._cluster,
            "timeout": self._timeout,
            "tick": self._tick,
            "run": self._run,
            "stabilize": self._stabilize,
            "flush": self._flush,
            "flush-next": self._flush_next,
            "stall": self._stall,
            "mend": self._mend,
            "crash": self._crash,
            "restart": self._restart,
            "restart-wiped": self._restart_wiped,
            "forget": self._forget,
            "restart-formatted": self._restart_formatted,
            "rot": self._rot,
            "find": self._find,
            "restart-replaced": self._restart_replaced,
            "upgrade": self._upgrade,
            "transfer": self._transfer,
            "deliver": self._deliver,
            "drop": self._drop,
            "cut": self._cut,
            "heal": self._heal,
            "tamper": self._tamper,
            "append": self._append,
            "snapshot": self._snapshot,
            "clean": self._clean,
            "bulk": self._bulk,
            "resign": self._resign,
            "shutdown": self._shutdown,
            "ask": self._ask,
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
            append_linger_ms=int(options.get("linger", "0")),
            election_timeout_ms=int(options.get("election", "1000")),
            leader_send_flushed_only="flushed-only" in arguments,
            auto_join="auto-join" in arguments,
            fetch_snapshot_size_bytes_max=int(options.get("slice", "1000")),
        )
        voters, observers = int(options["voters"]), int(options.get("observers", "0"))
        others = list(range(voters + 1, voters + observers + 1))
        if "anonymous" in arguments:
            others.append(OBSERVER_WITHOUT_ID)
        self._world = World(
            voters=voters,
            others=others,
            bootstrap=_ids(options.get("bootstrap", "")),
            config=config,
            kraft_version=int(options.get("kraft", "0")),
        )
        self._world.without_pre_vote = set(_ids(options.get("old", "")))
        for node in self.world.running():
            if "unformatted" in arguments:
                self.world.nodes[node.node_id] = Node(self.world, node.node_id, Disk(proof=UNPROVEN))
            self.world.start(node.node_id)

    def _timeout(self, arguments: list[str]) -> None:
        node = self.world.nodes[int(arguments[0])]
        before = (node.raft.role, node.raft.epoch)
        for _ in range(ROUNDS_MAX):
            deadline_ms = node.deadline_ms()
            assert deadline_ms is not None, f"node {node.node_id} waits for nothing"
            node.ahead_ms += max(0, deadline_ms - self.world.now_ms)
            node.step(events.TimerDue())
            if (node.raft.role, node.raft.epoch) != before:
                return
        raise AssertionError(f"node {node.node_id} stays {before}")

    def _tick(self, arguments: list[str]) -> None:
        end_ms = self.world.now_ms + int(arguments[0])
        for _ in range(ROUNDS_MAX * 10):
            due = [
                (deadline_ms, node.node_id)
                for node in self.world.running()
                if (deadline_ms := node.deadline_ms()) is not None and deadline_ms <= end_ms
            ]
            if not due:
                self.world.now_ms = end_ms
                return
            deadline_ms, node_id = min(due)
            self.world.now_ms = max(self.world.now_ms, deadline_ms)
            self.world.nodes[node_id].step(events.TimerDue())
        raise AssertionError("somebody wants to act again and again, and time stands still")

    def _run(self, arguments: list[str]) -> None:
        end_ms = self.world.now_ms + int(arguments[0])
        self._stabilize([])
        while self.world.now_ms < end_ms:
            deadlines_ms = [node.deadline_ms() for node in self.world.running()]
            next_ms = min((deadline for deadline in deadlines_ms if deadline is not None), default=end_ms)
            self._tick([str(max(0, min(next_ms, end_ms) - self.world.now_ms))])
            self._stabilize([])

    def _stabilize(self, arguments: list[str]) -> None:
        assert not arguments
        for _ in range(ROUNDS_MAX):
            working = [node for node in self.world.running() if node.node_id not in self._stalled]
            if not self.world.wire and not any(node.jobs or node.bulk for node in working):
                return
            for node in working:
                node.flush()
                node.do_bulk()
            self._deliver(["all"])
        raise AssertionError("the cluster does not come to rest")

    def _flush(self, arguments: list[str]) -> None:
        for node in self._nodes(arguments):
            node.flush()
            node.do_bulk()

    def _flush_next(self, arguments: list[str]) -> None:
        for node in self._nodes(arguments):
            node.flush(1)

    def _stall(self, arguments: list[str]) -> None:
        self._stalled |= {node.node_id for node in self._nodes(arguments)}

    def _mend(self, arguments: list[str]) -> None:
        self._stalled -= {node.node_id for node in self._nodes(arguments)}

    def _crash(self, arguments: list[str]) -> None:
        self.world.crash(int(arguments[0]))

    def _restart(self, arguments: list[str]) -> None:
        self.world.restart(int(arguments[0]))

    def _restart_wiped(self, arguments: list[str]) -> None:
        self.world.restart(int(arguments[0]), empty=UNPROVEN)

    def _restart_formatted(self, arguments: list[str]) -> None:
        self.world.restart(int(arguments[0]), empty=PROVEN)

    def _forget(self, arguments: list[str]) -> None:
        self.world.crashed[int(arguments[0])].election = None

    def _rot(self, arguments: list[str]) -> None:
        node_id, offset = map(int, arguments)
        if node_id in self.world.nodes:
            self.world.nodes[node_id].damage(_damage(offset))
        else:
            disk = self.world.crashed[node_id]
            disk.damages = (*disk.damages, _damage(offset))

    def _find(self, arguments: list[str]) -> None:
        self._rot(arguments)
        self.world.nodes[int(arguments[0])].step(events.CorruptionFound(damage=_damage(int(arguments[1]))))

    def _restart_replaced(self, arguments: list[str]) -> None:
        self.world.restart(int(arguments[0]), empty=Proof(is_complete=False, has_fresh_id=True))

    def _upgrade(self, arguments: list[str]) -> None:
        node = self.world.nodes[int(arguments[0])]
        node.step(events.UpgradeRequested(handle=1, epoch=node.raft.epoch, version=int(arguments[1])))

    def _transfer(self, arguments: list[str]) -> None:
        node_id, target_id, timeout_ms = map(int, arguments)
        node = self.world.nodes[node_id]
        event = events.TransferRequested(
            handle=2, epoch=node.raft.epoch, target_id=NodeId(target_id), timeout_ms=timeout_ms
        )
        node.step(event)

    def _deliver(self, arguments: list[str]) -> None:
        for argument in arguments:
            for message in [waiting for waiting in self.world.wire if _is_meant(waiting, argument)]:
                if message in self.world.wire:
                    self.world.deliver(message)

    def _drop(self, arguments: list[str]) -> None:
        dropped = self._on_link(arguments[0])
        self.world.wire = [message for message in self.world.wire if message not in dropped]

    def _cut(self, arguments: list[str]) -> None:
        self.world.cuts |= {_link(argument) for argument in arguments}

    def _heal(self, arguments: list[str]) -> None:
        assert not arguments
        self.world.cuts.clear()

    def _tamper(self, arguments: list[str]) -> None:
        (message,) = [one for one in self._on_link(arguments[0]) if isinstance(one.body, messages.FetchResponse)]
        for argument in arguments[1:]:
            field, value = argument.split("=")
            message.body = _tampered(message.body, field, int(value))

    def _append(self, arguments: list[str]) -> None:
        self.world.propose(int(arguments[0]), int(arguments[1]))

    def _snapshot(self, arguments: list[str]) -> None:
        node_id, offset = map(int, arguments)
        self.world.nodes[node_id].take_snapshot(Offset(offset))
        self.world.nodes[node_id].do_bulk()

    def _clean(self, arguments: list[str]) -> None:
        node = self.world.nodes[int(arguments[0])]
        newest = node.raft.log.latest_snapshot
        assert newest is not None
        node.step(events.SnapshotsExpired(oldest_kept=newest))

    def _bulk(self, arguments: list[str]) -> None:
        for node in self._nodes(arguments):
            node.do_bulk()

    def _resign(self, arguments: list[str]) -> None:
        node = self.world.nodes[int(arguments[0])]
        node.step(events.ResignRequested(epoch=node.raft.epoch))

    def _shutdown(self, arguments: list[str]) -> None:
        self.world.nodes[int(arguments[0])].step(events.ShutdownRequested(timeout_ms=5_000))

    def _ask(self, arguments: list[str]) -> None:
        target, what, *fields = arguments
        numbers = {name: int(value) for name, value in (field.split("=") for field in fields)}
        self.world.ask(int(target), asks.REQUESTS[what](numbers))

    def _state(self, arguments: list[str]) -> None:
        for node in self._nodes(arguments or ["all"]):
            self.world.say(tell.state(node.node_id, node.raft))

    def _nodes(self, arguments: list[str]) -> list[Node]:
        if arguments == ["all"]:
            return self.world.running()
        return [self.world.nodes[int(argument)] for argument in arguments]

    def _on_link(self, link: str) -> list[Message]:
        return [message for message in self.world.wire if (message.source, message.target) == _link(link)]


def _ids(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def _link(text: str) -> tuple[int, int]:
    source, target = text.split("->")
    return int(source), int(target)


def _is_meant(message: Message, argument: str) -> bool:
    if "->" in argument:
        return (message.source, message.target) == _link(argument)
    return argument in ("all", str(message.target))


def _tampered(body: messages.Request | messages.Response, field: str, value: int) -> messages.Response:
    """A Fetch answer with another error, epoch, leader or high watermark, fewer batches, another last one, or none."""
    assert isinstance(body, messages.FetchResponse)
    match field:
        case "hw":
            return dataclasses.replace(body, high_watermark=Offset(value))
        case "error":
            return dataclasses.replace(body, error=value)
        case "epoch":
            return dataclasses.replace(body, epoch=Epoch(value))
        case "leader":
            return dataclasses.replace(body, leader_id=NodeId(value))
        case "diverging":
            part = OffsetAndEpoch(Offset(value), body.epoch)
            return dataclasses.replace(body, diverging=part, batches=())
        case "keep":
            return dataclasses.replace(body, batches=body.batches[:value])
        case "batch-epoch":
            last = dataclasses.replace(body.batches[-1], epoch=Epoch(value))
        case "batch-offset":
            last = dataclasses.replace(body.batches[-1], base_offset=Offset(value))
        case _:
            raise AssertionError(field)
    return dataclasses.replace(body, batches=(*body.batches[:-1], last))


def _damage(offset: int) -> Damage:
    return Damage(path="log", position=100 * offset, start_offset=Offset(offset), expected="CRC 1", found="CRC 2")
