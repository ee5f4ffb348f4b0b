"""A node as a process that outlives the command that started it.

The node holds a lock on its pid file for as long as it lives: it inherits the locked descriptor, and the system
releases the lock however the process ends. Invariant: a pid is believed only while that file is locked, so a process
that got the pid of an ended node is never taken for it, nor sent a signal.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from threading import Event
from typing import Final

from pykraft.errors import LocalQuorumError, UsageError
from pykraft.local.cluster import SOURCES, server_command
from pykraft.local.ports import HOST
from pykraft.local.quorum_folder import CONFIG_NAME, LOG_NAME, PID_NAME

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
    """Try to lock a file."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _comes_true(look: Callable[[], bool], timeout_s: float) -> bool:
    """Look again and again until it is true; False at the timeout."""
    deadline_s = time.monotonic() + timeout_s
    while not look():
        if time.monotonic() >= deadline_s:
            return False
        Event().wait(POLL_INTERVAL_S)
    return True
