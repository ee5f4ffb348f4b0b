"""Bugs planted in the snapshots of the key-value store and of its replicas; see `tests.recipes.worlds.bugs`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pykraft.client import StableRecords
from pykraft.machine.records import TimeRecord
from pykraft.machine.replica import MachineReplica, _snapshot_records
from pykraft.recipes import KeyValues
from pykraft.recipes.key_values import SNAPSHOTS, KeySpace, LeaseState
from tests.sim.mutants.patch import Patch


def leases_are_not_in_snapshots(patch: Patch) -> None:
    """A snapshot has the keys without the leases."""
    snapshot = KeyValues.snapshot

    def without(self: KeyValues) -> Iterator[bytes]:
        for record in snapshot(self):
            if not isinstance(SNAPSHOTS.deserialize(record), LeaseState):
                yield record

    patch.setattr(KeyValues, "snapshot", without)


def snapshot_renews_leases(patch: Patch) -> None:
    """A lease lives longer on a replica that began with a snapshot."""
    restore_stream = KeyValues.restore_stream

    async def renewing(self: KeyValues, records: Any) -> None:
        await restore_stream(self, records)
        for found in self._leases.values():
            found.expires_ms += 500

    patch.setattr(KeyValues, "restore_stream", renewing)


def snapshot_has_a_later_session(patch: Patch) -> None:
    """The results of a session that had none yet are those of commands that came while the snapshot was written."""

    def live(self: MachineReplica[Any, Any]) -> StableRecords[bytes]:
        sessions = [
            (
                at,
                one.nonce,
                one.used_ms,
                one.acknowledged,
                [*one.answers.items()] if one.answers else one.answers.items(),
            )
            for at, one in self._sessions.items()
        ]
        head = TimeRecord(self.time_ms, self._swept_ms)
        return StableRecords(_snapshot_records(head, sessions, self.machine.snapshot()))  # type: ignore[arg-type]

    patch.setattr(MachineReplica, "save", live)


def snapshot_has_later_keys(patch: Patch) -> None:
    """The keys are not copied before they are written."""

    def live(self: KeySpace) -> Iterator[Any]:
        for key in sorted(self.keys):
            item = self.get(key)
            if item is not None:
                yield item
        yield from self.kept

    patch.setattr(KeySpace, "records", live)


def end_of_a_lease_is_forgotten(patch: Patch) -> None:
    """A replica that began with a snapshot does not end leases."""
    restore_stream = KeyValues.restore_stream

    async def idle(self: KeyValues, records: Any) -> None:
        await restore_stream(self, records)
        self._expiries = []

    patch.setattr(KeyValues, "restore_stream", idle)
