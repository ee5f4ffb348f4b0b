"""What one node of a scenario keeps: a list of batches, an election, snapshots, and damage in any of it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from pykraft.core import effects, messages
from pykraft.core.log_view import LogView
from pykraft.core.messages import FetchedBatch
from pykraft.core.proof import PROVEN, Proof
from pykraft.core.quarantine import Quarantine
from pykraft.errors import ErrorCode
from pykraft.types import EPOCH_ZERO, Damage, Election, Epoch, EpochStart, MembershipRecord, Offset, OffsetAndEpoch

NO_OFFSET = Offset(0)
SNAPSHOT_SIZE_BYTES = 250
"""Size of every snapshot."""


@dataclass(kw_only=True)
class Disk:
    """What one node keeps: survives a restart as far as it is flushed."""

    election: Election | None = None
    batches: list[FetchedBatch] = field(default_factory=list)
    quarantine: Quarantine | None = None
    damages: tuple[Damage, ...] = ()
    """Damage in the files that was not cut off, whether it was found or not."""
    proof: Proof = PROVEN
    """Whether it is known to be the disk of this voter; one that was emptied is not."""
    start_offset: Offset = NO_OFFSET
    committed_end_offset: Offset = NO_OFFSET
    """What it is known to hold committed; written down with the next job."""
    snapshots: dict[OffsetAndEpoch, tuple[MembershipRecord, ...]] = field(default_factory=dict)
    """Whole snapshots, and what they say of voters; their lane waits for no job, so all copies share them."""
    parts: dict[OffsetAndEpoch, int] = field(default_factory=dict)
    """How many bytes of a snapshot that is fetched are there."""

    @property
    def end_offset(self) -> Offset:
        return self.batches[-1].end_offset if self.batches else self.start_offset

    @property
    def newest_snapshot(self) -> OffsetAndEpoch | None:
        return max(self.snapshots, key=lambda each: (each.epoch, each.offset), default=None)

    def begin_at(self, snapshot_id: OffsetAndEpoch) -> None:
        """Keep nothing from before this snapshot."""
        self.start_offset = snapshot_id.offset
        self.batches = [batch for batch in self.batches if batch.end_offset > snapshot_id.offset]
        for older in [each for each in self.snapshots if each.offset < snapshot_id.offset]:
            del self.snapshots[older]

    def begin_anew(self, snapshot_id: OffsetAndEpoch) -> None:
        """Keep this snapshot, and no record."""
        self.begin_at(snapshot_id)
        self.batches, self.damages = [], ()

    @property
    def sound_end_offset(self) -> Offset:
        """Where recovery finds the first damage, or the end."""
        return min((damage.start_offset for damage in self.damages), default=self.end_offset)

    def copy(self) -> Disk:
        return dataclasses.replace(self, batches=list(self.batches))

    def recovered_quarantine(self) -> Quarantine | None:
        """What recovery makes of the damage."""
        if not self.damages:
            return self.quarantine
        if self.quarantine is not None and set(self.damages) <= set(self.quarantine.damages):
            return dataclasses.replace(self.quarantine, is_cut=False)
        epoch = self.election.epoch if self.election else EPOCH_ZERO
        return Quarantine(epoch=epoch, until_offset=None, damages=self.damages, is_cut=False)

    def cut(self, end_offset: Offset) -> None:
        """Remove what lies behind this offset, damage included."""
        self.batches = [batch for batch in self.batches if batch.end_offset <= end_offset]
        self.damages = tuple(damage for damage in self.damages if damage.start_offset < end_offset)
        self.committed_end_offset = min(self.committed_end_offset, end_offset)

    def batch_start(self, offset: Offset) -> Offset:
        """Where the batch begins that holds this offset; the offset itself where there is none."""
        holding = (each.base_offset for each in self.batches if each.base_offset <= offset < each.end_offset)
        return next(holding, offset)

    def epochs(self) -> list[EpochStart]:
        starts: dict[Epoch, Offset] = {}
        for batch in self.batches:
            if batch.base_offset < self.sound_end_offset:
                starts.setdefault(batch.epoch, batch.base_offset)
        return [EpochStart(epoch=epoch, start_offset=offset) for epoch, offset in starts.items()]

    def in_snapshot(self) -> list[tuple[Offset, MembershipRecord]]:
        """What the newest snapshot says of voters, at the last offset that it contains."""
        newest = self.newest_snapshot
        return [] if newest is None else [(Offset(newest.offset - 1), each) for each in self.snapshots[newest]]

    def recover(self) -> LogView:
        """What a start makes of a disk: a snapshot that holds more than a sound log takes its place."""
        newest = self.newest_snapshot
        while True:
            view = LogView(
                start_offset=self.start_offset,
                end_offset=self.sound_end_offset,
                epochs=self.epochs(),
                snapshots=self.snapshots,
                quarantine=self.recovered_quarantine(),
                committed_end_offset=self.committed_end_offset,
            )
            if self.damages or newest is None or not view.is_older_than(newest):
                return view
            self.begin_anew(newest)


def with_slice(effect: effects.ReplySnapshot) -> messages.FetchSnapshotResponse:
    """What the host makes of it: the bytes from there on."""
    message = effect.message
    if message.position >= SNAPSHOT_SIZE_BYTES:
        return dataclasses.replace(message, error=int(ErrorCode.POSITION_OUT_OF_RANGE))
    received_bytes = min(effect.size_bytes_max, SNAPSHOT_SIZE_BYTES - message.position)
    return dataclasses.replace(message, size_bytes=SNAPSHOT_SIZE_BYTES, received_bytes=received_bytes)
