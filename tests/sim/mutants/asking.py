"""Bugs in asking an application for its state: a snapshot's content does not match its id."""

from __future__ import annotations

from pykraft.host.delivery import Registration
from pykraft.host.snapshots.creation import SnapshotTrigger
from pykraft.snapshot.catalog import Reason
from pykraft.types import Offset, OffsetAndEpoch
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch


def snapshot_state_is_one_delivery_old(patch: Patch) -> None:
    """A listener is asked for its state as of the delivery before its last one."""
    given, take = SnapshotTrigger.given, SnapshotTrigger.take
    before: dict[int, tuple[OffsetAndEpoch | None, OffsetAndEpoch]] = {}

    def note(self: SnapshotTrigger, end: OffsetAndEpoch, size_bytes: int, high_watermark: Offset) -> None:
        _, last = before.get(id(self), (None, end))
        before[id(self)] = (last, end)
        given(self, end, size_bytes, high_watermark)

    def take_before(self: SnapshotTrigger) -> tuple[OffsetAndEpoch, Reason] | None:
        found = take(self)
        former, _ = before.get(id(self), (None, None))
        return found if found is None or former is None else (former, found[1])

    patch.setattr(SnapshotTrigger, "given", note)
    patch.setattr(SnapshotTrigger, "take", take_before)


def busy_listener_is_called(patch: Patch) -> None:
    """A listener that holds its registration, to write or load a snapshot, is called all the same."""

    def hold(self: Registration) -> None:
        del self

    patch.setattr(Registration, "hold", hold)


MUTANTS = (
    Mutant(
        plant=snapshot_state_is_one_delivery_old,
        source="Kafka SnapshotGenerator (a snapshot has the provenance of its own image)",
        scenario="snapshots,asked",
    ),
    Mutant(
        plant=busy_listener_is_called,
        source="Kafka ListenerContext (one reader at a time)",
        scenario="snapshots,asked",
    ),
)
