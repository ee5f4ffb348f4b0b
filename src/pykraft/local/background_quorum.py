"""Starts, describes and stops a quorum of processes that outlive the command; `pykraft.local.quorum_folder` keeps it.

Invariants: `bring_up` ends with a leader, or without any node that it started. `take_down` stops followers before the
leader, so that no election begins on the way. A node holds a lock on its pid file for as long as it lives: it inherits
the locked descriptor, and the system releases it however the process ends. A pid is believed only while that file is
locked, so a process that got the pid of an ended node is never taken for it, nor sent a signal.
"""

import asyncio
import fcntl
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Final

from pykraft.client.remote.admin import Admin
from pykraft.client.remote.leader_search import Patience
from pykraft.client.remote.quorum import Quorum, Role
from pykraft.errors import LocalQuorumError, PykraftError, UsageError
from pykraft.local.quorum_folder import (
    CONFIG_NAME,
    FILE_NAME,
    LOG_NAME,
    NODES_MAX,
    PID_NAME,
    QuorumFolder,
    delete_new,
    locked,
    make_folder,
)
from pykraft.local.voters import HOST, SOURCES, server_command
from pykraft.process.signals import signals_later
from pykraft.text.words import counted
from pykraft.types import Endpoint

LOCK_WAIT_S: Final = 2.0
"""Longer than another command takes to look at the lock, or a node to write its pid."""
POLL_INTERVAL_S: Final = 0.02
_WRITE_PID_THEN_RUN: Final = 'echo $$ >"$0" && exec "$@"'


class BackgroundNode:
    """One node of a local quorum, up or down."""

    def __init__(self, home: Path, *, node_id: int, port: int, cluster_id: str) -> None:
        self.home = home
        self.node_id = node_id
        self.port = port
        self.config_path = home / CONFIG_NAME
        self.log_path = home / LOG_NAME
        self._pid_path = home / PID_NAME
        self._cluster_id = cluster_id
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process of this node; None while it is down. Errors: LocalQuorumError if its pid file is damaged."""
        if not self._is_locked():
            return None
        deadline_s = time.monotonic() + LOCK_WAIT_S
        while time.monotonic() < deadline_s:
            text = self._pid_path.read_text(errors="replace").strip()
            if text.isdecimal():
                return int(text)
            if not self._is_locked():
                return None
            Event().wait(POLL_INTERVAL_S)  # it is just starting
        raise LocalQuorumError(f"{self._pid_path}: node {self.node_id} runs, but its process id is not in this file")

    @property
    def exit_status(self) -> int | None:
        """The status with which the process that this object started has ended; None before that."""
        return None if self._process is None else self._process.poll()

    def check_port(self) -> None:
        """Check that the node can listen. Errors: LocalQuorumError when another program has taken its port."""
        with closing(socket.socket()) as probe:
            # As servers do: closed connections of an earlier node (TIME_WAIT) do not make the port busy.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, self.port))
            except OSError as error:
                raise LocalQuorumError(
                    f"port {self.port} of node {self.node_id} is taken by another program ({error.strerror}): "
                    f"`ss -ltnp sport = :{self.port}` shows which; stop it and repeat the command"
                ) from error

    def start(self) -> None:
        """Start the process in a session of its own: neither Ctrl-C nor the end of a terminal reaches it.

        Errors: UsageError when its files cannot be written; LocalQuorumError when it runs already.
        """
        try:
            lock = os.open(self._pid_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(f"{self._pid_path}: {error.strerror}") from error
        try:
            # Another command may look at the lock just now, which holds it for an instant.
            if not _comes_true(lambda: _is_ours(lock, fcntl.LOCK_EX), LOCK_WAIT_S):
                raise LocalQuorumError(f"node {self.node_id} runs already: {self._pid_path} is locked")
            # The node bounds its log itself. What is printed before it can goes to the same file.
            command = server_command(self.config_path, "--cluster-id", self._cluster_id, "--log-file", LOG_NAME)
            with self.log_path.open("ab") as log:
                self._process = subprocess.Popen(
                    # The shell becomes the node, so the pid is the node's, also if our own process dies right now.
                    ["sh", "-c", _WRITE_PID_THEN_RUN, str(self._pid_path), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=[lock],
                    start_new_session=True,
                    cwd=self.home,
                    env=os.environ | {"PYTHONPATH": str(SOURCES)},
                )
        finally:
            os.close(lock)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the node; do nothing if it is down."""
        pid = self.pid
        if pid is None:
            return
        with suppress(ProcessLookupError):
            process = os.pidfd_open(pid)
            try:
                # Now that the descriptor holds the process fast, look again: the pid may have been reused before.
                if self.pid == pid:
                    signal.pidfd_send_signal(process, number)
            finally:
                os.close(process)

    def kill(self) -> None:
        """Send SIGKILL to the process that this object started, if there is one."""
        if self._process is not None:
            self._process.kill()

    def wait_until_down(self, timeout_s: float) -> bool:
        """Wait for the end of the node; False at the timeout."""
        is_down = _comes_true(lambda: not self._is_locked(), timeout_s)
        if is_down and self._process is not None:
            self._process.wait()  # it has closed its files, so this is the last instant of its end
        return is_down

    def last_line(self) -> str:
        """The last line of its log, or an empty text."""
        lines = self.log_path.read_text(errors="replace").splitlines()
        return lines[-1] if lines else ""

    def _is_locked(self) -> bool:
        try:
            looking = os.open(self._pid_path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return False
        try:
            return not _is_ours(looking, fcntl.LOCK_SH)
        finally:
            os.close(looking)


def _is_ours(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _comes_true(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline_s:
            return False
        Event().wait(POLL_INTERVAL_S)
    return True


NODES_COUNT: Final = 3
UP_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 15.0
"""Longer than a node takes to hand over, at most."""
ASK_LIMITS: Final = Patience(timeout_ms=1_000, request_timeout_ms=1_000, retry_backoff_ms=50)
ASK_INTERVAL_S: Final = 0.1
UNKNOWN: Final = "unknown"
DOWN: Final = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalNode:
    """One node: its process (None: down), its role, and the end of its log as the leader knows it (None: unknown)."""

    node_id: int
    endpoint: Endpoint
    pid: int | None
    role: str
    log_end_offset: int | None
    log_path: Path
    config_path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQuorum:
    """A local quorum at one moment. Without a leader, the leader's fields are None."""

    folder: QuorumFolder
    leader_id: int | None
    epoch: int | None
    high_watermark: int | None
    nodes: tuple[LocalNode, ...]

    @property
    def is_whole(self) -> bool:
        """True when every node is up and one leads."""
        return self.leader_id is not None and all(node.pid is not None for node in self.nodes)


def bring_up(
    path: Path,
    *,
    node_count: int | None = None,
    first_port: int | None = None,
    has_tls: bool = False,
    timeout_s: float = UP_TIMEOUT_S,
    report: Callable[[str], None],
    show: Callable[[LocalQuorum], None] = lambda _: None,
) -> LocalQuorum:
    """Start what is down of the quorum in this folder, a new one if there is none, and wait for its leader.

    Node 1 of a new quorum listens on ``first_port`` and the others on the next ones, or all on free ones; with
    ``has_tls`` its nodes and tools need certificates, which are in the folder. ``report`` gets a line about each node
    that ended meanwhile although the others found a leader; ``show`` gets the quorum.

    An interrupt, also one of ``show``, removes a new quorum again, with the folders made for it.

    Errors: UsageError, LocalQuorumError; then no node runs that this call started.
    """
    if node_count is not None and not 1 <= node_count <= NODES_MAX:
        raise UsageError(f"--nodes {node_count}: give 1 to {NODES_MAX}; three nodes survive the loss of one")
    missing = [each for each in (path, *path.parents) if not each.exists()]
    try:
        make_folder(path)
        with locked(path):
            is_new = not (path / FILE_NAME).exists()
            try:
                folder = _quorum_folder(path, node_count, first_port, has_tls=has_tls)
                return _start(folder, timeout_s, report, show)
            except Exception:
                raise  # the logs of its nodes say more
            except BaseException:
                if is_new:
                    delete_new(path)
                raise
    except BaseException:
        for each in missing:
            with suppress(OSError):  # something is in it
                each.rmdir()
        raise


def _quorum_folder(path: Path, node_count: int | None, first_port: int | None, *, has_tls: bool) -> QuorumFolder:
    if not (path / FILE_NAME).exists():
        count = node_count or NODES_COUNT
        return QuorumFolder.create(path, node_count=count, first_port=first_port, has_tls=has_tls)
    folder = QuorumFolder.read(path)
    if has_tls and folder.client_config is None:
        raise UsageError(
            f"--tls: the quorum in {path} has none and stays so; "
            "give another folder with --dir, or remove this one first with `pykraft local down --delete`"
        )
    if node_count not in (None, len(folder.ports)):
        raise UsageError(
            f"--nodes {node_count}: the quorum in {path} has {counted(len(folder.ports), 'node')}; "
            "give another folder with --dir, or remove this one first with `pykraft local down --delete`"
        )
    if first_port not in (None, folder.ports[1]):
        raise UsageError(
            f"--port {first_port}: the quorum in {path} has port {folder.ports[1]} and keeps it; "
            "give another folder with --dir, or remove this one first with `pykraft local down --delete`"
        )
    return folder


def _start(
    folder: QuorumFolder, timeout_s: float, report: Callable[[str], None], show: Callable[[LocalQuorum], None]
) -> LocalQuorum:
    """Start the nodes that are down and wait for a leader. Errors: LocalQuorumError, UsageError."""
    folder.write_configs()
    nodes = _nodes(folder)
    started = [node for node in nodes if node.pid is None]
    for node in started:
        node.check_port()
    since_ms = time.time_ns() // 1_000_000
    with _killed_by_an_interrupt(started):
        try:
            for node in started:
                with signals_later():  # otherwise a signal could leave a node that nobody knows yet
                    node.start()
            found = _wait_for_leader(folder, started, since_ms, timeout_s)
        except Exception:
            _stop(started, lambda _: None)
            raise
        for node in started:
            if node.exit_status is not None:
                report(f"node {node.node_id} ended with {node.exit_status}: {node.last_line()} ({node.log_path})")
        show(found)
    return found


@contextmanager
def _killed_by_an_interrupt(nodes: Sequence[BackgroundNode]) -> Iterator[None]:
    """An interrupt leaves no time for a graceful end of what was just started, and no record is lost without one."""
    try:
        yield
    except Exception:
        raise
    except BaseException:
        for node in nodes:
            node.kill()
        for node in nodes:
            node.wait_until_down(STOP_TIMEOUT_S)
        raise


def status_of(path: Path) -> LocalQuorum:
    """The quorum in this folder now. Errors: UsageError when there is none; LocalQuorumError."""
    folder = QuorumFolder.read(path)
    nodes = _nodes(folder)
    described = _ask(folder) if any(node.pid is not None for node in nodes) else None
    return _joined(folder, nodes, described)


def take_down(path: Path, *, delete: bool = False, report: Callable[[str], None]) -> tuple[int, list[Path]]:
    """Stop all nodes gracefully; returns how many were up, and with ``delete`` what else is in the folder.

    ``report`` gets a line about each node that had to be killed.

    Errors: UsageError when there is no quorum; LocalQuorumError.
    """
    QuorumFolder.read(path)
    with locked(path):
        folder = QuorumFolder.read(path)
        running = [node for node in _nodes(folder) if node.pid is not None]
        leader_id = None
        if len(running) > 1 and (found := _ask(folder)) is not None:
            leader_id = found.leader_id
        # The leader last: it then need not hand over to a node that is about to stop, too.
        _stop([node for node in running if node.node_id != leader_id], report)
        _stop([node for node in running if node.node_id == leader_id], report)
        return len(running), folder.delete() if delete else []


def _nodes(folder: QuorumFolder) -> list[BackgroundNode]:
    return [
        BackgroundNode(folder.home(node_id), node_id=node_id, port=port, cluster_id=folder.cluster_id)
        for node_id, port in sorted(folder.ports.items())
    ]


def _stop(nodes: Sequence[BackgroundNode], report: Callable[[str], None]) -> None:
    """Stop these nodes at the same time; kill what does not end."""
    for node in nodes:
        node.signal(signal.SIGTERM)
    deadline_s = time.monotonic() + STOP_TIMEOUT_S
    for node in nodes:
        if not node.wait_until_down(max(0.0, deadline_s - time.monotonic())):
            # Such as one that is paused by SIGSTOP. No record is lost by this: the log recovers.
            node.signal(signal.SIGKILL)
            report(f"node {node.node_id} did not end within {STOP_TIMEOUT_S:g} s and was killed; see {node.log_path}")
            node.wait_until_down(STOP_TIMEOUT_S)


def _wait_for_leader(
    folder: QuorumFolder, started: Sequence[BackgroundNode], since_ms: int, timeout_s: float
) -> LocalQuorum:
    """Wait until there is a leader to which every running node has spoken; at the timeout a leader is enough.

    Those in ``started`` must have spoken after ``since_ms``, when they were started. Errors: LocalQuorumError.
    """
    nodes = _nodes(folder)
    anew = {node.node_id for node in started}
    deadline_s = time.monotonic() + timeout_s
    while True:
        described = _ask(folder)
        found = _joined(folder, nodes, described)
        is_late = time.monotonic() >= deadline_s
        replicas = () if described is None else described.replicas
        # A leader remembers a follower that has ended, so what it knows of one may be older than the new process.
        heard = {each.key.id for each in replicas if each.role is Role.LEADER or each.last_fetch_ms >= since_ms}
        silent = {node.node_id for node in found.nodes if node.log_end_offset is None} | anew - heard
        is_complete = all(node.pid is None or node.node_id not in silent for node in found.nodes)
        if described is not None and described.high_watermark is not None and (is_complete or is_late):
            return found
        ended = [node for node in started if node.exit_status is not None]
        if described is None and len(ended) * 2 >= len(nodes):
            stories = "; ".join(f"node {each.node_id} with {each.exit_status}: {each.last_line()}" for each in ended)
            raise LocalQuorumError(f"nodes ended, too many for a leader: {stories} (the logs are {_logs(folder)})")
        if is_late:
            raise LocalQuorumError(f"no node leads after {timeout_s:g} s; the logs, {_logs(folder)}, say why")
        Event().wait(ASK_INTERVAL_S)


def _logs(folder: QuorumFolder) -> str:
    return f"{folder.path}/n*/node.log"


def _ask(folder: QuorumFolder) -> Quorum | None:
    with asyncio.Runner() as runner:
        # A signal that comes while the loop is made must not find a coroutine that nobody awaits.
        runner.get_loop()
        return runner.run(_describe(folder))


async def _describe(folder: QuorumFolder) -> Quorum | None:
    async with Admin(
        folder.endpoints,
        client_id="pykraft-local",
        cluster_id=folder.cluster_id,
        patience=ASK_LIMITS,
        security=folder.security,
    ) as admin:
        try:
            return await admin.describe_quorum()
        except PykraftError:
            return None


def _joined(folder: QuorumFolder, nodes: Sequence[BackgroundNode], described: Quorum | None) -> LocalQuorum:
    replicas = {} if described is None else {int(each.key.id): each for each in described.replicas}
    states: list[LocalNode] = []
    for node in nodes:
        pid, replica = node.pid, replicas.get(node.node_id)
        ends = -1 if replica is None else replica.log_end_offset
        role = UNKNOWN if replica is None or ends < 0 else replica.role.value.lower()
        states.append(
            LocalNode(
                node_id=node.node_id,
                endpoint=folder.endpoints[len(states)],
                pid=pid,
                # A leader remembers a follower that has just ended.
                role=DOWN if pid is None else role,
                log_end_offset=ends if ends >= 0 else None,
                log_path=node.log_path,
                config_path=node.config_path,
            )
        )
    return LocalQuorum(
        folder=folder,
        leader_id=None if described is None else int(described.leader_id),
        epoch=None if described is None else int(described.epoch),
        high_watermark=None if described is None else described.high_watermark,
        nodes=tuple(states),
    )
