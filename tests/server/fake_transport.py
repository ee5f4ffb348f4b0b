"""A transport without a network that records the calls."""

from __future__ import annotations

import asyncio

from pykraft.types import Buffer


class FakeTransport(asyncio.Transport):
    """Notes what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.unsent_size_bytes = 0
        self.is_reading_paused = False
        self.is_closed = False
        self.is_aborted = False

    def write(self, data: Buffer) -> None:
        self.written.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return self.unsent_size_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        self.is_reading_paused = True

    def resume_reading(self) -> None:
        self.is_reading_paused = False

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True
