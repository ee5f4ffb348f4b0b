"""Fakes of Spark for tests of the demo's stages."""

from collections.abc import Callable

from lab.demo.live_tables import MicroBatch
from lab.demo.result import DemoOptions
from pykraft.types import Endpoint

ALONE = DemoOptions(nodes=1, seconds=2, throughput=100, record_size_bytes=20)


class FakeTables:
    """In the place of Spark: tables that hold everything at the third look, or another one."""

    def __init__(self, *_: object) -> None:
        self.tables, self.is_closed, self.checks = "the tables", False, 0
        self.awaited, self.first_at = "Spark to start", 3
        self.controllers: list[Endpoint] = []
        self.batches: list[MicroBatch] = []
        self.error: Exception | None = None

    def follow(self, controllers: list[Endpoint]) -> None:
        self.controllers = controllers

    def check(self) -> None:
        self.checks += 1
        if self.error is not None:
            raise self.error
        if self.checks == self.first_at:
            self.batches.append(MicroBatch(batch_id=0, end_offset=10**9, ended_wall_ms=0, duration_ms=1_234))

    def wait_for(self, end_offset: int, passing: Callable[[], None]) -> None:
        passing()

    def stop(self) -> str:
        return "the session"

    def close(self) -> None:
        self.is_closed = True
