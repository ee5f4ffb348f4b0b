"""Sends Ctrl-C, SIGTERM, SIGHUP and a closed terminal to every command, and looks at what comes of it.

    python -m tests.processes.stops [--spark] [--limit SECONDS] [COMMAND...]

plays all commands at all stages: "starts" (Python itself), "loads" (the package), and those of the row, such as
"opens", "waits" and "writes". With ``--spark`` it plays the commands that need Spark instead. Exit status 1: something
is not as docs/cli.md has it. `ROWS` is the table; the stage ``processes`` of bin/test plays one stage of each.

A command runs as the leader of a session with a terminal of its own, as in a shell: Ctrl-C is typed there. What belongs
to it has a mark in its environment, which finds every process that it leaves behind; ``TMPDIR`` is a folder of its own.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from pykraft.errors import LocalQuorumError
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import HOST, LISTENER, SOURCES, free_ports, server_command, voter_properties, write_properties
from tests.full_pipe import full_pipe
from tests.processes.screen import Screen
from tests.processes.stop_rows import ROWS, row_of
from tests.processes.stop_stages import ENDINGS, Ending, Running, Scene, Stage

BIN = SOURCES.parent / "bin"
LIMIT_S = 10.0
"""A command needs a second at most; a busy machine may need longer. The table's own command has ``--limit``."""
STAGE_TIMEOUT_S = 300.0
"""Spark takes its time on a busy machine."""
MARK = "PYKRAFT_STOPPED"
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]")
POLL_S = 0.001
"""A command loads in a tenth of a second."""


@dataclass(slots=True)
class Play:
    """One command, one stage, one ending."""

    command: str
    stage: Stage
    ending: Ending
    scene: Scene
    problems: list[str] = field(default_factory=list)
    took_s: float = 0.0

    def run(self, *, limit_s: float = LIMIT_S) -> list[str]:
        """Start the command, end it, and return what is wrong."""
        home = Path(tempfile.mkdtemp(prefix="stop-", dir=self.scene.folder))
        temporary = home / "tmp"
        temporary.mkdir()
        mark = uuid4().hex
        with ExitStack() as stack:
            words = self.stage.words(self.scene, home)
            master, slave = pty.openpty()
            stack.callback(os.close, slave)
            terminal = _Terminal(master)
            stack.callback(terminal.close)
            output = stack.enter_context(full_pipe() if self.stage.is_blocked else _file(home / "output"))
            files = list(home.rglob("*"))
            process = subprocess.Popen(
                ["setsid", "-c", *_launcher(words)],
                stdin=slave,
                stdout=output,
                stderr=slave,
                cwd=home,
                env=os.environ | {"PYTHONPATH": str(SOURCES), "TMPDIR": str(temporary), MARK: mark, "COLUMNS": "100"},
            )
            stack.callback(_reap, process, mark)
            self._reach(Running(process.pid, home, terminal.text, lambda: _count(process.pid)), process, terminal)
            if process.poll() is not None:
                return [f"{self}: it ended before, with {process.returncode}: {terminal.text()}"]
            self._end(process, terminal, limit_s)
            self._judge(process, terminal)
            deadline_s = time.monotonic() + limit_s
            while (left := _marked(mark)) and time.monotonic() < deadline_s:
                terminal.read(0.02)
            if left:
                self.problems.append(f"processes are left: {left}")
            while (found := _left_in(temporary)) and time.monotonic() < deadline_s:
                terminal.read(0.02)
            if found:
                self.problems.append(f"temporary files are left: {found}")
            if not self.stage.leaves_files:
                new = {path for path in home.rglob("*") if temporary not in path.parents} - {*files, home / "output"}
                if new:
                    self.problems.append(f"files are left: {sorted(map(str, new))}")
        shutil.rmtree(home, ignore_errors=True)
        return [f"{self}: {problem}" for problem in self.problems]

    def __str__(self) -> str:
        return f"{self.command}, {self.stage.name}, {self.ending.name}"

    def _reach(self, running: Running, process: subprocess.Popen[bytes], terminal: _Terminal) -> None:
        # A Ctrl-C that is typed before the terminal is the session's goes nowhere.
        deadline_s = time.monotonic() + STAGE_TIMEOUT_S
        while process.poll() is None and running.program_is("setsid"):
            terminal.read(POLL_S)
        if self.stage.typed:
            os.write(terminal.descriptor, self.stage.typed)
        while process.poll() is None and not self.stage.is_reached(running):
            if time.monotonic() > deadline_s:
                raise LocalQuorumError(f"waited {STAGE_TIMEOUT_S:g} s for {self} to be reached: {terminal.text()}")
            terminal.read(POLL_S)
        terminal.read(0)

    def _end(self, process: subprocess.Popen[bytes], terminal: _Terminal, limit_s: float) -> None:
        terminal.read(0)
        terminal.mark()
        begun_s = time.monotonic()
        if self.ending.number is not None:
            process.send_signal(self.ending.number)
        elif self.ending.is_typed:
            os.write(terminal.descriptor, b"\x03")
        else:
            terminal.close()
        while process.poll() is None and time.monotonic() < begun_s + 60:
            terminal.read(0.01)
        self.took_s = time.monotonic() - begun_s
        if self.took_s > limit_s + self.stage.may_take_s:
            self.problems.append(f"it took {self.took_s:.1f} s")
        terminal.read(0.05)

    def _judge(self, process: subprocess.Popen[bytes], terminal: _Terminal) -> None:
        status = process.poll()
        if status is None:
            self.problems.append("it does not end")
            return
        shown = 128 - status if status < 0 else status
        wanted = 0 if self.stage.is_graceful else 128 + self.ending.status
        # A server may get the signal before it serves.
        if shown not in {wanted, self.stage.other_status}:
            self.problems.append(f"the status is {shown} instead of {wanted}")
        lines = terminal.lines_after_mark()
        if self.stage.is_graceful:
            lines = [line for line in lines if re.search("Traceback|Error|Exception", line)]
        else:
            line = self.ending.line
            if lines and line in lines[-1]:
                lines.pop()
            elif self.stage.is_told and not terminal.is_closed:
                self.problems.append(f"it does not end with {line!r}")
            lines = [line for line in lines if not self.stage.is_progress(line)]
        if lines:
            self.problems.append(f"it says more than a line: {lines}")


class _Terminal:
    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.is_closed = False
        self._read = b""
        self._mark = 0

    def read(self, timeout_s: float) -> None:
        """Read what comes within this time."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            left_s = max(0.0, deadline_s - time.monotonic())
            if self.is_closed:
                select.select([], [], [], left_s)
                return
            if not select.select([self.descriptor], [], [], left_s)[0]:
                return
            try:
                self._read += os.read(self.descriptor, 65_536)
            except OSError:  # nobody has the other side open any more
                return

    def mark(self) -> None:
        self._mark = len(self._read)

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            os.close(self.descriptor)

    def text(self) -> str:
        return _plain(self._read)

    def lines_after_mark(self) -> list[str]:
        """What shows since the mark, without what the command took back and the echo of a typed Ctrl-C."""
        screen = Screen()
        screen.write(self._read[: self._mark])
        screen.mark()
        screen.write(self._read[self._mark :].replace(b"^C", b""))
        return screen.new_lines()


def _plain(data: bytes) -> str:
    return ESCAPES.sub(b"", data).replace(b"\r", b"\n").decode(errors="replace")


def _launcher(words: Sequence[str]) -> list[str]:
    if words[0].startswith("bin/"):
        return [str(BIN / words[0].removeprefix("bin/")), *words[1:]]
    return ["env", "--block-signal=INT,TERM,HUP", sys.executable, "-P", "-m", "lab", *words]


@contextmanager
def _file(path: Path) -> Iterator[int]:
    with path.open("wb") as output:
        yield output.fileno()


def _left_in(temporary: Path) -> list[str]:
    """Names of what is left; the locks of ports stay, because all runs on a machine share them."""
    return sorted(path.name for path in temporary.iterdir() if not path.name.startswith("pykraft-ports-"))


def _count(pid: int) -> int:
    below: list[str] = []
    with suppress(OSError):
        below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return 1 + sum(_count(int(child)) for child in below)


def _marked(mark: str) -> list[str]:
    needle = f"{MARK}={mark}".encode()
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if needle in (path / "environ").read_bytes() and (words := (path / "cmdline").read_bytes()):
                found.append(f"{path.name} {words.replace(bytes(1), b' ').decode(errors='replace')[:80]}")
    return found


def _reap(process: subprocess.Popen[bytes], mark: str) -> None:
    for line in _marked(mark):
        with suppress(OSError):
            os.kill(int(line.split()[0]), signal.SIGKILL)
    with suppress(OSError):
        process.kill()
    process.wait()


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """What commands need: a peer that accepts connections and says nothing, a quorum of one, and a voter alone."""
    held: list[int] = []
    ports = dict(enumerate(free_ports(3), start=1))
    lock = threading.Lock()

    def tables(home: Path) -> Path:
        made = folder / "tables"
        with lock:
            if not made.exists():
                words = ("pipeline", "run", "--tables", str(made), "--bootstrap-controller", f"{HOST}:{ports[1]}")
                subprocess.run(_launcher(words), env=environment, check=True, capture_output=True)
        return Path(shutil.copytree(made, home / "tables"))

    environment = os.environ | {"PYTHONPATH": str(SOURCES)}
    live = voter_properties(
        folder / "live", node_id=1, ports={1: ports[1]}, extra={"pykraft.client.listeners": LISTENER}
    )
    lonely = voter_properties(folder / "lonely", node_id=2, ports={2: ports[2], 3: ports[3]})
    with socket.create_server((HOST, 0)) as silent, Children() as children:
        for name, properties in (("live", live), ("lonely", lonely)):
            command = server_command(write_properties(folder / f"{name}.properties", properties))
            children.start(name, command, folder / f"{name}.log", environment={"PYTHONPATH": str(SOURCES)})
        wait_until(lambda: "leader in epoch" in (folder / "live.log").read_text(), "a leader")
        wait_until(lambda: " serves " in (folder / "lonely.log").read_text(), "a voter alone")
        try:
            yield Scene(
                folder=folder,
                silent=f"{HOST}:{silent.getsockname()[1]}",
                live=f"{HOST}:{ports[1]}",
                lonely=f"{HOST}:{ports[2]}",
                live_data=folder / "live",
                tables=tables,
                hold=lambda path: held.append(os.open(path, os.O_RDWR)),
            )
        finally:
            for descriptor in held:
                os.close(descriptor)


def main(words: Sequence[str]) -> int:
    """The command line; see the module."""
    parser = argparse.ArgumentParser(description="End every command at every stage in every way.")
    parser.add_argument("commands", nargs="*", help="only these, such as 'quorum describe'")
    parser.add_argument("--spark", action="store_true", help="the commands that need Spark")
    parser.add_argument("--limit", type=float, default=1.0, help="seconds that an end may take")
    chosen = parser.parse_args(words)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A script starts background jobs with SIGINT ignored, and nohup with SIGHUP; the commands would inherit this.
        signal.signal(number, signal.default_int_handler)
    rows = [row_of(name) for name in chosen.commands] or [row for row in ROWS if row.is_spark == chosen.spark]
    problems: list[str] = []
    count, slowest = 0, (0.0, "")
    with tempfile.TemporaryDirectory(prefix="pykraft-stops-") as folder, scene(Path(folder)) as place:
        for row in rows:
            for stage in row.stages:
                for ending in ENDINGS:
                    play = Play(row.command, stage, ending, place)
                    found = play.run(limit_s=chosen.limit)
                    problems += found
                    count += 1
                    slowest = max(slowest, (play.took_s, str(play)))
                    print(f"{play}: {play.took_s:.2f} s", *found, sep="\n    ", flush=True)
    print(f"{count} ends, {len(problems)} problems, the slowest took {slowest[0]:.2f} s: {slowest[1]}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
