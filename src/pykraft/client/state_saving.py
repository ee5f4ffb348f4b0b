"""Writes the state that a listener returned: within its call, or beside later calls if the records do not change.

Invariant: one snapshot of a listener is written at a time; an unfinished one leaves no file.

Source: Kafka's ``SnapshotGenerator`` and ``SnapshotEmitter``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, Callable, Iterable
from contextlib import AsyncExitStack, suppress
from inspect import isawaitable
from typing import Any, Generic, TypeVar

from pykraft.client.life import HostAccess
from pykraft.client.listener import StableRecords
from pykraft.client.serde import Serde
from pykraft.client.snapshot import Snapshot, begin_snapshot
from pykraft.errors import (
    NotRunningError,
    OutcomeUnknownError,
    SnapshotFailedError,
    SnapshotTooLargeError,
    UsageError,
)
from pykraft.types import OffsetAndEpoch

T = TypeVar("T")

logger = logging.getLogger("pykraft")


class StateSaving(Generic[T]):
    """The snapshots of one listener."""

    def __init__(self, node: HostAccess, serde: Serde[T], failed: Callable[[Exception], None]) -> None:
        """``failed`` hears of an error beside the listener's calls; one within a call is raised."""
        self._node = node
        self._serde = serde
        self._failed = failed
        self._task: asyncio.Task[None] | None = None

    async def save(self, snapshot_id: OffsetAndEpoch, state: Callable[[], Any]) -> None:
        """Write what ``state`` returns, or begin to; if no snapshot is possible now, the node asks again later."""
        if self._task is not None:
            return  # the last one is still being written: the node asks again after as many records
        try:
            snapshot = await begin_snapshot(self._node, self._serde, snapshot_id.offset, snapshot_id.epoch)
        except NotRunningError:
            raise
        except UsageError as error:
            logger.warning("%s; the node asks the application again later", error)
            return
        except SnapshotFailedError:  # the node has reported it, and asks again later
            return
        if snapshot is None:
            return
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(snapshot)
            records = state()
            if isawaitable(records):
                records = await records
            if isinstance(records, StableRecords):
                stack.pop_all()
                self._task = asyncio.get_running_loop().create_task(
                    self._write_beside(snapshot, records), name="pykraft snapshot"
                )
            else:
                await _write(snapshot, records)

    async def end(self) -> None:
        """Give up what is being written."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _write_beside(self, snapshot: Snapshot[T], records: StableRecords[T]) -> None:
        try:
            async with snapshot:
                await _write(snapshot, records)
        except NotRunningError:
            pass  # the next start removes what the node left
        except Exception as error:  # noqa: BLE001 - whatever it is, the node ends with it
            self._failed(error)
        finally:
            self._task = None


async def _write(snapshot: Snapshot[T], records: Iterable[T] | AsyncIterable[T]) -> None:
    try:
        await snapshot.append(records)
        with suppress(OutcomeUnknownError):  # the node ended: the next start finds out whether it counts
            await snapshot.freeze()
    except SnapshotFailedError:  # the node has reported it, and asks again later
        return
    except SnapshotTooLargeError as error:  # all replicas have this state and would all end: do not
        logger.error("%s: no snapshot is taken, and the log keeps growing", error)  # noqa: TRY400 - it is the operator's
