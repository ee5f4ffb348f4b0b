"""Programs with an embedded node are killed with -9 while they propose: no promise made to them is broken.

Whatever was acknowledged is in the log of every replica, at its offset; every listener of every life of every program
was given the log without a gap, in order, each batch once; and one that goes on where it was before a kill never sees
a record twice, over all of its lives.
"""

import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.nodes.logs import Stream, read_stream, require_identical
from pykraft.local.child import Child, Children
from pykraft.local.voters import HOST, PARTITION, SOURCES, free_ports
from pykraft.protocol.records import decode_values, scan
from tests.processes.attack import crowd
from tests.processes.embedded import digest
from tests.processes.tales import Tale, Tales
from tests.tidy.repository import ROOT

CYCLES = 50
ACKS_BETWEEN_KILLS = 15


@dataclass
class Program:
    """One program and its present life."""

    child: Child
    tale: Tale


class Programs:
    """A quorum of programs, each in its own folder."""

    def __init__(self, children: Children, folder: Path) -> None:
        self.tales = Tales()
        self.running: dict[int, Program] = {}
        self._children = children
        self._folder = folder
        ports = dict(enumerate(free_ports(3), start=1))
        self._voters = ",".join(f"{node_id}={HOST}:{port}" for node_id, port in ports.items())
        for node_id in ports:
            self.start(node_id)

    def start(self, node_id: int) -> None:
        """Start it, the first time or again; its late listener goes on where it was."""
        from_offset = 0
        former = self.running.get(node_id)
        if former is not None:
            self.tales.wait_until(lambda: former.tale.is_over, f"the end of node {node_id}'s tale", [])
            from_offset = former.tale.next_offset("late")
        reading, writing = os.pipe()
        tale = self.tales.begin(node_id, from_offset, reading)
        words = (str(node_id), self._voters, str(self._folder / f"n{node_id}"), str(writing), str(from_offset))
        child = self._children.start(
            f"node {node_id}",
            [sys.executable, "-m", "tests.processes.embedded", *words],
            self._folder / f"n{node_id}.log",
            pass_fds=[writing],
            environment={"PYTHONPATH": os.pathsep.join([str(SOURCES), str(ROOT)])},
        )
        os.close(writing)
        self.running[node_id] = Program(child, tale)

    def wait_for_acks(self, *, except_by: int | None = None) -> None:
        """Wait until more was acknowledged, by others than this node, which may be dead."""
        enough = self.tales.acked(except_by=except_by) + ACKS_BETWEEN_KILLS
        alive = [program.child for node_id, program in self.running.items() if node_id != except_by]
        self.tales.wait_until(lambda: self.tales.acked(except_by=except_by) >= enough, "acknowledgements", alive)

    def stream(self, node_id: int) -> Stream:
        """The log of a program that has ended."""
        return read_stream(self._folder / f"n{node_id}" / PARTITION)


def records_by_offset(stream: Stream) -> dict[int, bytes]:
    """The application's records, and nothing for the others."""
    found: dict[int, bytes] = {}
    for position, header in scan(stream.data):
        if header.is_control:
            values = [b""] * header.records_count
        else:
            values = decode_values(stream.data[position : position + header.size_bytes])
        found.update(enumerate(values, header.base_offset))
    return found


def check_tale(tale: Tale, records: dict[int, bytes], end_offset: int) -> None:
    """Everything that this life was promised and told is in the log, at its place."""
    for ack in tale.acked:
        assert ack.base_offset + ack.count <= end_offset, f"node {tale.node_id} was promised {ack}"
        held = digest(records[offset] for offset in range(ack.base_offset, ack.base_offset + ack.count))
        assert held == ack.digest, f"node {tale.node_id} was promised {ack}"
    for listener, seen in tale.seen.items():
        expected = tale.from_offset if listener == "late" else 0
        for batch in seen:
            assert batch.base_offset == expected, f"{listener} of node {tale.node_id}: {batch} at {expected}"
            expected = batch.last_offset + 1
            held = digest(records[offset] for offset in range(batch.base_offset, expected))
            assert held == batch.digest, f"{listener} of node {tale.node_id} was given {batch}"


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(300)
def test_fifty_kills_lose_nothing_and_tell_nothing_twice(children: Children, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed of the victims: {seed}")
    victims = random.Random(seed)
    begun_s = time.monotonic()
    programs = Programs(children, tmp_path)
    tales = programs.tales

    for _ in range(CYCLES):
        programs.wait_for_acks()
        victim = victims.choice(sorted(programs.running))
        programs.running[victim].child.kill()
        programs.wait_for_acks(except_by=victim)
        programs.start(victim)

    everybody = [program.child for program in programs.running.values()]
    present = [program.tale for program in programs.running.values()]
    tales.wait_until(lambda: all(tale.is_started for tale in present), "all to run", everybody)
    for child in everybody:
        child.signal(signal.SIGUSR1)
    promised = max(ack.base_offset + ack.count for tale in tales.lives for ack in tale.acked)
    tales.wait_until(
        lambda: all(tale.next_offset(listener) >= promised for tale in present for listener in tale.seen),
        "all listeners to be told what was promised",
        everybody,
    )
    for child in everybody:
        child.terminate()
    assert [child.wait() for child in everybody] == [0, 0, 0]

    streams = {f"node {node_id}": programs.stream(node_id) for node_id in programs.running}
    require_identical(streams, end_offset=promised)
    furthest = max(streams.values(), key=lambda stream: (stream.last_epoch, stream.end_offset))
    records = records_by_offset(furthest)
    for tale in tales.lives:
        check_tale(tale, records, furthest.end_offset)
    told = sum(len(seen) for tale in tales.lives for seen in tale.seen.values())
    print(
        f"{CYCLES} kills in {time.monotonic() - begun_s:.0f} s: {furthest.last_epoch} epochs, {len(records)} records, "
        f"{tales.acked()} proposals acknowledged, {told} batches told to {2 * len(tales.lives)} listeners"
    )
    assert len(tales.lives) == CYCLES + 3
    assert tales.acked() >= 2 * CYCLES * ACKS_BETWEEN_KILLS
    assert not [path for path in tmp_path.glob("*.log") if "Traceback" in path.read_text()]


DESCRIPTORS_MAX = 256
STRANGERS = 400
ACKS = 15
PROGRAM = f"""
import resource, runpy
resource.setrlimit(resource.RLIMIT_NOFILE, ({DESCRIPTORS_MAX}, {DESCRIPTORS_MAX}))
runpy.run_module("tests.processes.embedded", run_name="__main__", alter_sys=True)
"""


@pytest.mark.processes
@pytest.mark.parametrize("node_id", [1, 2], ids=["the program's loop", "a thread of its own"])
def test_silent_strangers_leave_a_program_its_descriptors(tmp_path: Path, node_id: int) -> None:
    """A thousand of them ended such a program at ``ulimit -n 1024``."""
    [port] = free_ports(1)
    reading, writing = os.pipe()
    tales = Tales()
    tale = tales.begin(node_id, 0, reading)
    words = (str(node_id), f"{node_id}={HOST}:{port}", str(tmp_path / "data"), str(writing), "0")
    with Children(report=lambda ends: print(ends, file=sys.stderr)) as children:
        child = children.start(
            "the program",
            [sys.executable, "-c", PROGRAM, *words],
            tmp_path / "program.log",
            pass_fds=[writing],
            environment={"PYTHONPATH": os.pathsep.join([str(SOURCES), str(ROOT)])},
        )
        os.close(writing)

        def wait_for_acks() -> None:
            enough = len(tale.acked) + ACKS
            tales.wait_until(lambda: len(tale.acked) >= enough, "acknowledgements", [child])

        wait_for_acks()
        with crowd(port, STRANGERS, b""):
            wait_for_acks()
            assert len(list(Path(f"/proc/{child.pid}/fd").iterdir())) < DESCRIPTORS_MAX
        wait_for_acks()
    assert "Traceback" not in (tmp_path / "program.log").read_text()
