"""Retired segment and snapshot files: they are kept for a while as ``.deleted``, then removed.

Invariant: a file stays at least for the delay since it was first seen under that name, so that a reader from outside
can finish. It is removed on the bulk lane.

Whoever retires a file says after which storage job it has its new name.

Source: Kafka's ``internal.metadata.delete.delay.millis``; ``LogSegment.changeFileSuffixes``,
``Snapshots.markForDelete``.
"""

from __future__ import annotations

from pathlib import Path

from pykraft.host.ports import AT_ONCE_MS, Ports
from pykraft.log.fs import Fs
from pykraft.log.paths import leftover_kind
from pykraft.snapshot.files import FileKind, parse_snapshot_file
from pykraft.types import Instant, Io


class FileRemoval:
    """For the partition directory of one node."""

    def __init__(self, ports: Ports, fs: Fs, directory: Path, *, delay_ms: int, is_to_look: bool = False) -> None:
        """``is_to_look``: look for retired files at once, because a start may have replaced the log by a snapshot."""
        self._ports = ports
        self._fs = fs
        self._directory = directory
        self._delay_ms = delay_ms
        self._after: Io | None = None
        self._is_to_look = is_to_look
        self._is_busy = False
        self._seen_ms: dict[str, int] = {}

    @property
    def next_deadline_ms(self) -> int | None:
        """When `poll` has something to do (mono ms); None while there is no retired file."""
        if self._is_busy or not self._seen_ms:
            return None
        return min(self._seen_ms.values()) + self._delay_ms

    def retired_by(self, io: Io) -> None:
        """This job retires files and is not durable yet."""
        self._after = io

    def persisted(self, io: Io) -> None:
        """All jobs up to this one are durable."""
        if self._after is not None and self._after <= io:
            self._after = None
            self._is_to_look = True

    def poll(self, now: Instant) -> None:
        """Look for retired files, or remove one whose time has come."""
        if self._is_busy:
            return
        if not (self._is_to_look or self._seen_ms):
            return
        due = [name for name, seen_ms in self._seen_ms.items() if seen_ms + self._delay_ms <= now.mono_ms]
        if self._is_to_look:
            self._is_to_look, self._is_busy = False, True
            self._ports.submit_read(lambda: lingering(self._fs, self._directory), lambda names: self._saw(names, now))
        elif due:
            self._is_busy = True
            # One file at a time, on the bulk lane: a disk that needs long to free gigabytes delays a read by one file
            # only, and no vote or append.
            self._ports.submit_read(lambda: self._remove(due[0]), lambda _: self._removed(due[0]))

    def _saw(self, names: list[str], now: Instant) -> None:
        self._seen_ms = {name: self._seen_ms.get(name, now.mono_ms) for name in names}
        self._go_on()

    def _removed(self, name: str) -> None:
        self._seen_ms.pop(name, None)
        self._go_on()

    def _go_on(self) -> None:
        self._is_busy = False
        self._ports.wake_at(AT_ONCE_MS)

    def _remove(self, name: str) -> None:
        # The ordered lane may have removed it already, when it cuts a damaged log.
        self._fs.remove(self._directory / name, missing_ok=True)


def lingering(fs: Fs, directory: Path) -> list[str]:
    """Names of the retired files in a partition directory."""
    return [name for name in fs.listdir(directory) if _is_deleted(name)]


def _is_deleted(name: str) -> bool:
    snapshot = parse_snapshot_file(name)
    return leftover_kind(name) == "deleted" or (snapshot is not None and snapshot.kind is FileKind.DELETED)
