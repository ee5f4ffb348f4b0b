"""The bulk lane of one process: what may take long, one thing after the other, beside the ordered lane.

Invariant: things are done in the order in which they were asked for, and told in that order, as by the server's one
thread. Between the doing and the telling time passes: what was read may be out of date when it is told. A process may
end in the middle of it, since snapshots are written here.

Source: `pykraft.host.ports.Ports.submit_read`, whose contract it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pykraft.errors import StorageError
from pykraft.sim.machine.disk import Interrupted

if TYPE_CHECKING:
    from pykraft.sim.machine.node import Node, Process
    from pykraft.sim.run.world import World

T = TypeVar("T")


class BulkLane:
    """What one process reads and writes at leisure."""

    def __init__(self, world: World, node: Node, process: Process) -> None:
        self._world = world
        self._node = node
        self._process = process
        self._waiting: deque[tuple[Callable[[], Callable[[], None]], int]] = deque()
        """With the time from the doing to the telling."""
        self._done: deque[Callable[[], None]] = deque()
        self._due_us = 0
        """When the last thing that was asked for is to be told."""

    @property
    def is_idle(self) -> bool:
        """True when nothing waits, is done, or is yet to be told."""
        return not self._waiting and not self._done

    def submit(self, act: Callable[[], T], then: Callable[[T], None]) -> None:
        """Do this after all before it, and tell what came of it a little later. An error of the disk ends the node."""

        def do() -> Callable[[], None]:
            result = act()
            return lambda: then(result)

        now_us = self._world.clock.now_us
        delay_us = self._node.lane_delay_us()
        # A turn that is slow already takes no longer: one of more than a second would stand still and not be slow.
        longest_us = max(delay_us, self._world.scenario.storage.slow_turn_us_max)
        duration_us = min(delay_us * self._world.bulk_factor, longest_us)
        self._due_us = max(self._due_us, now_us + duration_us)
        until_told_us = duration_us // 2
        self._waiting.append((do, until_told_us))
        self._process.later(self._due_us - now_us - until_told_us, self._do)

    def _do(self) -> None:
        """The next thing that waits; a disk that stalls does it later."""
        self._world.touch(self._node)
        if self._process.waits_for_disk(self._do):
            return
        do, until_told_us = self._waiting.popleft()
        try:
            self._done.append(do())
        except Interrupted as interruption:
            self._node.interrupted(interruption, "writing")
        except StorageError as error:
            self._node.failed(error)
        else:
            self._process.later(until_told_us, self._tell)

    def _tell(self) -> None:
        """What came of the oldest thing that was done."""
        self._world.touch(self._node)
        self._done.popleft()()
