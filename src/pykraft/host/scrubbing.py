"""Damage in the own log: looked for at a steady pace, looked into when a read meets it, and told to the core.

Owns when the log is read again. Invariants: at most one such read is under way; no more bytes are read in a second
than the configuration allows (but for a batch that is larger); what is told to the core was in the log when it was
read and was not cut off since. A pass over the log begins so long after the last one began, however short it was.

A read that meets damage knows an offset and little more: its segment is then read from the beginning, so that the
first damaged batch is found, and its exact place.

It refuses to know what becomes of damage. Source: ZFS' scrub; rules of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pykraft.config import LogSettings
from pykraft.core.events import CorruptionFound
from pykraft.host.inbox import Inbox
from pykraft.host.ports import Ports
from pykraft.log.scrub import Scrub, ScrubbableLog, Scrubbed, find_damage
from pykraft.types import Damage, Instant, Offset

PIECE_MS: Final = 250
"""Time from the beginning of one read to that of the next one within a pass."""
_NOW_MS: Final = 0


class Scrubbing:
    """The scrubbing of one log, on the bulk lane."""

    def __init__(self, ports: Ports, inbox: Inbox, log: ScrubbableLog, settings: LogSettings) -> None:
        self.scrubbed_bytes = 0
        self.next_deadline_ms: int | None = None
        """When `poll` has something to do (mono ms); None when nothing is scrubbed."""
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
            self.next_deadline_ms = _NOW_MS

    def truncated(self) -> None:
        """The log was cut: damage that a read under way finds may be gone."""
        self._generation += 1

    def poll(self, now: Instant, end_offset: Offset) -> None:
        """Read the next piece of the log, which ends here, if it is time."""
        if self.next_deadline_ms is None or self.next_deadline_ms > now.mono_ms:
            return
        self.next_deadline_ms = now.mono_ms + PIECE_MS
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
        """A read met damage at this offset: look into it, unless that is being done; ``retry`` if there is none."""
        self._retries.append(retry)
        if len(self._retries) > 1:
            return
        generation = self._generation
        self._ports.submit_read(
            lambda: find_damage(self._log, offset), lambda damage: self._looked(damage, offset, generation)
        )

    def _scrubbed(self, piece: Scrubbed, generation: int) -> None:
        self._is_reading = False
        self.scrubbed_bytes += piece.size_bytes
        if piece.is_whole_pass:
            assert self._pass_began_ms is not None, "a read belongs to a pass"
            self.next_deadline_ms = self._pass_began_ms + self._interval_ms
            self._pass_began_ms = None
        if piece.damage is not None and generation == self._generation:
            self._found(piece.damage)

    def _looked(self, damage: Damage | None, offset: Offset, generation: int) -> None:
        retries, self._retries = self._retries, []
        if damage is not None and generation == self._generation:
            self._found(damage)
            return
        if damage is None:
            self._ports.report(f"a read at offset {offset} met damage that was not there when it was read again")
        for retry in retries:
            retry()

    def _found(self, damage: Damage) -> None:
        """Let the core know, in the step that comes next."""
        self._inbox.put(CorruptionFound(damage=damage))
        self._ports.wake_at(_NOW_MS)
