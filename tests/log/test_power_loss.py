"""What `OsFs` really makes durable: its system calls are recorded, and a power loss follows each of them.

What the power loss left goes onto a disk of the simulator, where the production start recovers it. The node must start,
without an alarm, and must hold what was told before that call. The calls of a recovery are among those that are cut:
some stories kill a node and start it again.

Source: POSIX ``fdatasync``, ``rename``; Rebello et al., Can Applications Recover from fsync Failures? (USENIX ATC
2020).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest

from pykraft.config import NodeConfig
from pykraft.errors import PykraftError
from pykraft.host.open import open_node
from pykraft.log.fs import Fs
from pykraft.log.os_fs import OsFs
from pykraft.sim.machine.disk import ROOT, Tree, VirtualDisk
from pykraft.sim.machine.inode import ALL_KEPT, EXTREMES, DrawnFate
from tests.log.power.planted import PLANTED, BuggyFs
from tests.log.power.stories import STORIES, Promises, Told
from tests.log.power.system_calls import Call, Recording, Replay, real_tree

pytestmark = pytest.mark.no_cover  # it would take twice as long, and other tests reach the same


@pytest.mark.parametrize("name", STORIES)
def test_a_power_loss_after_any_system_call_costs_nothing_that_was_told(name: str, tmp_path: Path) -> None:
    recorded = record(name, OsFs(), tmp_path)
    replay = Replay(tmp_path)
    for call in recorded.calls:
        call(replay)
    assert replay.left(ALL_KEPT) == real_tree(tmp_path), "a system call was not recorded"
    assert list(explore(recorded)) == []


@pytest.mark.parametrize(("bug", "name", "expected"), PLANTED)
def test_a_planted_bug_is_found(bug: type[BuggyFs], name: str, expected: str, tmp_path: Path) -> None:
    assert expected in next(explore(record(name, bug(), tmp_path)), "nothing")


def test_the_place_for_bugs_is_none_itself(tmp_path: Path) -> None:
    assert list(explore(record("quarantined", BuggyFs(), tmp_path))) == []


@dataclass(frozen=True, slots=True)
class Recorded:
    """One story as it happened."""

    config: NodeConfig
    recording: Recording
    promises: Promises

    @property
    def calls(self) -> Sequence[Call]:
        """Its system calls."""
        return self.recording.calls


def record(name: str, fs: Fs, top: Path) -> Recorded:
    """Tell a story on this file system, which is the real one or a planted bug around it."""
    story, config_of = STORIES[name]
    recording = Recording(top)
    promises = Promises(recording.calls)
    config = config_of(top)
    with recording.running():
        story(fs, config, promises.promise)
    return Recorded(config, recording, promises)


def explore(recorded: Recorded) -> Iterator[str]:
    """What a power loss after each call breaks: a sentence for each finding."""
    replay = Replay(recorded.recording.top)
    seen: set[bytes] = set()
    for calls_count in range(len(recorded.calls) + 1):
        if calls_count > 0:
            recorded.calls[calls_count - 1](replay)
        held = recorded.promises.at(calls_count)
        fates = {each.name: each for each in EXTREMES} | {f"drawn from {calls_count}": DrawnFate(Random(calls_count))}
        for name, fate in fates.items():
            tree = replay.left(fate)
            digest = _digest(tree, held)
            if digest not in seen:
                seen.add(digest)
                for finding in judge(recorded, tree, held):
                    yield f"{_place(recorded.calls, calls_count)}, {name}: {finding}"


def judge(recorded: Recorded, tree: Tree, held: dict[str, Told]) -> Iterator[str]:
    """Start the node on what was left, and compare with what holds."""
    disk = VirtualDisk(Random(1))
    put(disk, tree)
    # Short paths: a virtual disk looks at each part of each of them.
    log_dir = ROOT / recorded.config.log_dir.relative_to(recorded.recording.top)
    try:
        node = open_node(disk, replace(recorded.config, log_dir=log_dir), Random(1))
    except PykraftError as error:
        yield f"the node does not start: {error}"
        return
    if node.alarms and node.view.quarantine is None:
        yield f"the node raises an alarm: {node.alarms}"
    if node.view.quarantine is not None and "quarantine" not in held:
        yield f"the node is in quarantine: {node.view.quarantine}"
    yield from (f"broken promise: {each.what}" for each in held.values() if not each.check(node))


def put(disk: VirtualDisk, tree: Tree) -> None:
    """Files and directories onto an empty disk, durably."""
    directories = [each for each, content in sorted(tree.items()) if content is None]
    for path in directories:
        disk.mkdir(ROOT / path)
    for path, content in tree.items():
        if content is not None:
            file = disk.open(ROOT / path, create=True)
            file.pwrite([content], 0)
            file.sync()
    for path in (ROOT, *(ROOT / each for each in directories)):
        disk.sync_dir(path)


def _digest(tree: Tree, held: dict[str, Told]) -> bytes:
    """Equal for what need not be judged twice: the same files, with the same promises."""
    digest = sha256(repr(sorted((topic, each.calls_count, each.what) for topic, each in held.items())).encode())
    for path, content in sorted(tree.items()):
        digest.update(b"%s %d " % (bytes(path), -1 if content is None else len(content)) + (content or b""))
    return digest.digest()


def _place(calls: Sequence[Call], calls_count: int) -> str:
    last = str(calls[calls_count - 1])[:200] if calls_count else "nothing"
    return f"power lost after call {calls_count} ({last})"
