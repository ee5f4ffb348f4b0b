"""Bugs for the nodes of a history, which both checkers must notice. Each is planted in the node's own process only."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from pykraft.core import enter_state
from pykraft.core.on import fetch_request, read
from pykraft.errors import PykraftError
from pykraft.machine.forwarder import MachineReads
from pykraft.machine.replica import CommandAnswer, MachineReplica
from pykraft.machine.submission import Submission
from pykraft.types import Offset

RESENT_AFTER_S: Final = 0.3


def reads_are_not_confirmed() -> None:
    """A leader answers reads without asking whether it still leads.

    It does not resign either when it hears of nobody: that would mostly hide the bug.
    """
    read._is_confirmed = lambda replica, leader, current: True
    for module in (enter_state, fetch_request):
        module.check_quorum_deadline_ms = lambda replica, now: now.mono_ms + 3_600_000  # type: ignore[attr-defined]


def reads_are_local() -> None:
    """A node reads its own state at once."""

    async def at_once(self: MachineReads, max_age_ms: int, timeout_ms: int) -> None:
        del self, max_age_ms, timeout_ms

    MachineReads.wait = at_once  # type: ignore[method-assign]


def copies_are_applied() -> None:
    """A command is sent again after a while, as after a lost answer, and each copy is applied."""
    send = Submission._send
    tasks: set[asyncio.Task[None]] = set()

    def apply(self: MachineReplica[Any, Any], *arguments: Any) -> CommandAnswer:
        session_id, _, _, command, offset, epoch = arguments
        return self._carry_out(command, session_id, offset, epoch)

    async def again(self: Submission[Any, Any], records: Sequence[bytes]) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), RESENT_AFTER_S)
        with suppress(PykraftError):
            await send(self, records)

    async def twice(self: Submission[Any, Any], records: Sequence[bytes]) -> Offset:
        task = asyncio.get_running_loop().create_task(again(self, records))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return await send(self, records)

    MachineReplica._on_command = apply  # type: ignore[assignment, method-assign]
    Submission._send = twice  # type: ignore[method-assign]


PLANTS: Mapping[str, Callable[[], None]] = {
    "reads-not-confirmed": reads_are_not_confirmed,
    "reads-local": reads_are_local,
    "copies-applied": copies_are_applied,
}
