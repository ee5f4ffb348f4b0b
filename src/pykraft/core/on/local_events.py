"""One table: the handlers of events that are neither RPCs nor storage completions.

Source: Kafka's ``RaftClient``, whose methods most of these are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pykraft.core import events
from pykraft.core.on.answers import on_answers_progressed
from pykraft.core.on.corruption import on_corruption_found
from pykraft.core.on.download import on_download_advanced, on_download_failed
from pykraft.core.on.end_epoch import on_connection_lost
from pykraft.core.on.fetch_response import on_commit_heard
from pykraft.core.on.propose import (
    on_appends_scheduled,
    on_proposed,
    on_resign_requested,
    on_shutdown_requested,
)
from pykraft.core.on.read import on_read_requested
from pykraft.core.on.snapshot import on_snapshot_frozen, on_snapshots_expired
from pykraft.core.on.transfer import on_transfer_requested
from pykraft.core.on.voters.upgrade import on_upgrade_requested
from pykraft.core.replica import Replica
from pykraft.types import Instant

HANDLERS: Mapping[type[events.Event], Callable[[Replica, Any, Instant], None]] = {
    events.AnswersProgressed: on_answers_progressed,
    events.ConnectionLost: on_connection_lost,
    events.Proposed: on_proposed,
    events.AppendsScheduled: on_appends_scheduled,
    events.CorruptionFound: on_corruption_found,
    events.DownloadAdvanced: on_download_advanced,
    events.DownloadFailed: on_download_failed,
    events.SnapshotFrozen: on_snapshot_frozen,
    events.SnapshotsExpired: on_snapshots_expired,
    events.ResignRequested: on_resign_requested,
    events.UpgradeRequested: on_upgrade_requested,
    events.TransferRequested: on_transfer_requested,
    events.ReadRequested: on_read_requested,
    events.CommitHeard: on_commit_heard,
    events.ShutdownRequested: on_shutdown_requested,
}


def on_local_event(replica: Replica, event: events.Event, now: Instant) -> None:
    """Pass the event to its handler."""
    HANDLERS[type(event)](replica, event, now)
