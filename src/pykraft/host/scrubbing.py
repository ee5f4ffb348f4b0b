"""Finds damage in this node's log: by reading it at a steady pace, and by examining failed reads.

Invariants: at most one scrubbing read is in progress. It reads no more bytes per second than configured (except for a
single larger batch). Damage is reported to the core only if it was in the log when it was read and was not truncated
since. A pass over the log begins one interval after the last one began, however short that was.

Source: ZFS' scrub; rules of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pykraft.config import LogSettings
from pykraft.core.effects import Report
from pykraft.core.events import CorruptionFound
from pykraft.host.inbox import Inbox
from pykraft.host.ports import AT_ONCE_MS, Ports
from pykraft.log.scrub import Scrub, ScrubbableLog, Scrubbed, find_damage
from pykraft.types import Damage, Instant, Offset

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
