"""Bugs of snapshots in transit: from another node, or to the listener."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pykraft.core.connections import Connections
from pykraft.core.effects import AppendDownload, NotifyLeaderChange
from pykraft.core.events import DownloadAdvanced, SnapshotFrozen
from pykraft.core.on import download, snapshot
from pykraft.core.replica import Replica
from pykraft.host.delivery import Delivery, Registration
from pykraft.snapshot.catalog import Catalog, KeptSnapshot, Slice
from pykraft.snapshot.download import Download
from pykraft.snapshot.head import BatchStream, read_head
from pykraft.snapshot.writer import RawWriter
from pykraft.types import Instant, OffsetAndEpoch
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch


def part_of_a_download_counts_as_all(patch: Patch) -> None:
    """A follower takes the leader's first answer for the whole snapshot."""

    def all_of_it(**fields: Any) -> AppendDownload:
        return AppendDownload(**{**fields, "is_last": True})

    patch.setattr(download, "AppendDownload", all_of_it)
    patch.setattr(BatchStream, "finish", lambda self: None)


def part_of_another_leader_counts(patch: Patch) -> None:
    """A follower asks its new leader for the bytes of a snapshot after those that it has of the former leader."""
    known = download.on_download_advanced

    def on_download_advanced(replica: Replica, event: DownloadAdvanced, now: Instant) -> None:
        known(replica, replace(event, leader_epoch=replica.epoch), now)

    patch.everywhere(known, on_download_advanced)


def download_goes_on_at_the_last_whole_batch(patch: Patch) -> None:
    """A follower asks for the bytes after the last whole batch, so it gets the partial batch there twice."""
    patch.setattr(Download, "position", property(lambda self: self._stream.position))


def resumed_download_continues_at_the_uncut_size(patch: Patch) -> None:
    """A resumed download continues at the size its file had when it was opened, although a damaged end was cut off."""
    begin = Download.__init__

    def measured(self: Any, *args: Any, **more: Any) -> None:
        begin(self, *args, **more)
        self._found_bytes = self._raw.size_bytes

    patch.setattr(Download, "__init__", measured)
    patch.setattr(Download, "position", property(lambda self: max(self._found_bytes, self._raw.size_bytes)))


def resumed_part_is_not_written_again(patch: Patch) -> None:
    """A download continues after a failed sync with pages that only the page cache has; no later sync writes them."""
    patch.setattr(RawWriter, "write_again", lambda self, data, position: None)


def listener_is_not_given_the_snapshot(patch: Patch) -> None:
    """A listener continues after the end of a snapshot that it never got."""
    given = Registration._load
    patch.setattr(Registration, "_load", lambda self, reader, load: given(self, reader, lambda reader: reader.close()))


def leader_is_told_while_it_loads(patch: Patch) -> None:
    """A listener hears that its node leads while it still loads a snapshot."""
    leader_changed = Delivery.leader_changed

    def at_once(self: Delivery, news: NotifyLeaderChange) -> None:
        for registration in self._registrations:
            if registration._is_held or registration._is_busy:
                registration.listener.on_leader_change(news.epoch, news.leader_id)
        leader_changed(self, news)

    patch.setattr(Delivery, "leader_changed", at_once)


def snapshot_is_in_use_for_one_period(patch: Patch) -> None:
    """A snapshot counts as in use for one period after its first FetchSnapshot, however long the download takes."""
    read = Catalog.read

    def read_once(
        self: Catalog, snapshot_id: OffsetAndEpoch, position: int, size_bytes_max: int, *, mono_ms: int
    ) -> Slice | None:
        served = self._served.get(snapshot_id)
        first_ms = mono_ms if served is None else served.asked_mono_ms
        return read(self, snapshot_id, position, size_bytes_max, mono_ms=first_ms)

    patch.setattr(Catalog, "read", read_once)


def snapshot_is_in_use_between_two_searches(patch: Patch) -> None:
    """A snapshot counts as in use only if it was asked for since the last search, however often a node searches."""
    expired = Catalog.expired

    def hasty(self: Catalog, *given: Any, **named: Any) -> list[OffsetAndEpoch]:
        return expired(self, *given, **{**named, "fetch_timeout_ms": 0})

    patch.setattr(Catalog, "expired", hasty)


def slices_are_no_sign_of_life(patch: Patch) -> None:
    """A follower that downloads a snapshot does not extend its fetch timeout when a slice arrives."""
    patch.setattr(download, "note_response", lambda replica, now, *, has_progress: None)


def damaged_old_snapshot_ends_its_node(patch: Patch) -> None:
    """A node that looks for obsolete snapshots stops when it cannot read one of them, although it needs a newer one."""

    def read_fact(self: Catalog, snapshot_id: OffsetAndEpoch) -> KeptSnapshot:
        size_bytes, head = read_head(self._fs, self._directory, snapshot_id)
        return KeptSnapshot(
            snapshot_id=snapshot_id,
            size_bytes=size_bytes,
            last_contained_log_timestamp=head.last_contained_log_timestamp,
        )

    patch.setattr(Catalog, "_read_fact", read_fact)


def own_snapshot_keeps_the_fetch_under_way(patch: Patch) -> None:
    """A snapshot replaces a damaged log, but the Fetch that asked for records after the damage stays outstanding."""
    _keep_the_fetch(patch, is_damaged=True)


def _keep_the_fetch(patch: Patch, *, is_damaged: bool) -> None:
    install = snapshot._install

    def forgetful(replica: Replica, event: SnapshotFrozen) -> None:
        with Patch() as inner:
            if is_damaged == (replica.log.quarantine is not None):
                inner.setattr(Connections, "reset", lambda self: None)
            install(replica, event)

    patch.setattr(snapshot, "_install", forgetful)


MUTANTS = (
    Mutant(plant=slices_are_no_sign_of_life, source="KIP-630; a randomly drawn bug", scenario="slow_downloads"),
    Mutant(plant=damaged_old_snapshot_ends_its_node, source="a randomly drawn bug", scenario="old_heads"),
    Mutant(
        plant=own_snapshot_keeps_the_fetch_under_way,
        source="ours, until the simulator found it",
        scenario="damaged_while_saving",
    ),
    Mutant(
        plant=snapshot_is_in_use_for_one_period,
        source="an outside review planted it, and five minutes of downloads did not notice it",
        scenario="patience",
    ),
    Mutant(
        plant=snapshot_is_in_use_between_two_searches,
        source="ours, until a campaign found it: a node was sent one snapshot after the other, and never had the log",
        scenario="all_before_forgers",
    ),
    Mutant(
        plant=part_of_a_download_counts_as_all,
        source="KafkaRaftClient.handleFetchSnapshotResponse (compares sizes)",
        scenario="snapshots",
    ),
    Mutant(plant=part_of_another_leader_counts, source="ours until a moved world found it", scenario="slow_downloads"),
    Mutant(
        plant=download_goes_on_at_the_last_whole_batch,
        source="KIP-630 (unaligned records)",
        scenario="snapshots",
    ),
    Mutant(
        plant=resumed_download_continues_at_the_uncut_size,
        source="ours, almost: a partial download survives a power loss",
        scenario="hollow",
    ),
    Mutant(
        plant=resumed_part_is_not_written_again,
        source="Rebello et al., USENIX ATC 2020 (fsync errors); ours, as found by a review",
        scenario="unsynced",
    ),
    Mutant(
        plant=listener_is_not_given_the_snapshot,
        source="Kafka ListenerContext.fireHandleSnapshot",
        scenario="snapshots",
    ),
    Mutant(
        plant=leader_is_told_while_it_loads,
        source="Kafka RaftEventSimulationTest.LeaderNeverLoadSnapshot",
        scenario="snapshots",
    ),
)
