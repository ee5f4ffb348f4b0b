"""The work on a node's files in the background: finding damage in its log, and removing retired files.

Scrubbing reads the log at a steady pace, at most one read at a time and no more bytes per second than configured
(except for a single larger batch), and examines failed reads. Invariant: damage is reported to the core only if it was
in the log when it was read and was not truncated since. A pass begins one interval after the last one began.

Retired segment and snapshot files are kept for a while as ``.deleted``, then removed on the bulk lane. Invariant: a
file stays at least for the delay since it was first seen under that name, so that a reader from outside can finish.
Whoever retires a file says after which storage job it has its new name.

Source: ZFS' scrub; Kafka's ``internal.metadata.delete.delay.millis``, ``LogSegment.changeFileSuffixes`` and
``Snapshots.markForDelete``; rules of ours.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from pykraft.config import LogSettings
from pykraft.core.effects import Report
from pykraft.core.events import CorruptionFound
from pykraft.host.inbox import Inbox
from pykraft.host.ports import AT_ONCE_MS, Ports
from pykraft.log.fs import Fs
from pykraft.log.paths import leftover_kind
from pykraft.log.scrub import Scrub, ScrubbableLog, Scrubbed, find_damage
from pykraft.snapshot.files import FileKind, parse_snapshot_file
from pykraft.types import Damage, Instant, Io, Offset


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


PIECE_MS: Final = 250
"""Time from the start of one read to the start of the next within a pass."""


class Scrubbing:
    """The scrubbing of one log, on the bulk lane."""

    def __init__(self, ports: Ports, inbox: Inbox, log: ScrubbableLog, settings: LogSettings) -> None:
        self.scrubbed_bytes = 0
        self.next_deadline_ms: int | None = None
        """When `poll` has something to do (mono ms); None when scrubbing is off."""
        self._ports = ports
        self._inbox = inbox
        self._log = log
        self._piece_size_bytes = settings.scrub_bytes_per_s_max * PIECE_MS // 1_000
        self._interval_ms = settings.scrub_interval_ms
        self._scrub = Scrub(log)
        self._pass_began_ms: int | None = None
        self._is_reading = False
        self._retries: list[Callable[[], None]] = []
        self._generation = 0
        if self._piece_size_bytes:
            self.next_deadline_ms = AT_ONCE_MS

    def truncated(self) -> None:
        """The log was truncated: damage found by a read in progress may be gone."""
        self._generation += 1

    def poll(self, now: Instant, end_offset: Offset) -> None:
        """Read the next piece of the log, up to ``end_offset``, if it is time."""
        if self.next_deadline_ms is None or self.next_deadline_ms > now.mono_ms:
            return
        self.next_deadline_ms = now.mono_ms + PIECE_MS
        # The disk is slower than the configured pace.
        if self._is_reading:
            return
        self._is_reading = True
        if self._pass_began_ms is None:
            self._pass_began_ms = now.mono_ms
        generation = self._generation
        self._ports.submit_read(
            lambda: self._scrub.step(self._piece_size_bytes, end_offset),
            lambda piece: self._scrubbed(piece, generation),
        )

    def suspect(self, offset: Offset, retry: Callable[[], None]) -> None:
        """A read failed at this offset: examine it unless that is in progress; ``retry`` if there is no damage."""
        self._retries.append(retry)
        # An examination is in progress; this retry waits for its result.
        if len(self._retries) > 1:
            return
        generation = self._generation
        self._ports.submit_read(
            # A failed read knows only an offset, so read its segment from the beginning to find the exact place.
            lambda: find_damage(self._log, offset),
            lambda damage: self._looked(damage, offset, generation),
        )

    def _scrubbed(self, piece: Scrubbed, generation: int) -> None:
        self._is_reading = False
        self.scrubbed_bytes += piece.size_bytes
        if piece.is_whole_pass:
            assert self._pass_began_ms is not None, "a read belongs to a pass"
            self.next_deadline_ms = self._pass_began_ms + self._interval_ms
            self._pass_began_ms = None
        # After a truncation the damaged part may be gone.
        if piece.damage is not None and generation == self._generation:
            self._report_damage(piece.damage)

    def _looked(self, damage: Damage | None, offset: Offset, generation: int) -> None:
        retries, self._retries = self._retries, []
        if damage is not None and generation == self._generation:
            self._report_damage(damage)
            return
        if damage is None:
            text = f"a read at offset {offset} found damage that a second read did not find"
            self._ports.report(Report(text=text))
        for retry in retries:
            retry()

    def _report_damage(self, damage: Damage) -> None:
        self._inbox.put(CorruptionFound(damage=damage))
        self._ports.wake_at(AT_ONCE_MS)
