"""Fetches a snapshot of a live quorum into a temporary file, for a client without a log directory.

This module owns the temporary directory and the one download in it. Invariant: a returned snapshot is complete and
every batch of it is sound; memory holds at most one slice. An interrupted fetch resumes where it stopped, as long as
the same leader serves the same snapshot. A fetch without progress ends after a time limit: see `SnapshotFetch.fetch`.

Source: KIP-630 §FetchSnapshot.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from pykraft.client.remote.leader_fetch import LeaderFetch, Patience
from pykraft.core.messages import FetchSnapshotRequest, FetchSnapshotResponse
from pykraft.errors import ProtocolError, QuorumUnavailableError, error_name
from pykraft.log.os_fs import OsFs
from pykraft.snapshot.download import Download
from pykraft.snapshot.files import checkpoint_path, stem_of
from pykraft.types import Buffer, Epoch, OffsetAndEpoch


class SnapshotFetch:
    """The fetches of one observer, in one event loop; a thread writes the files."""

    def __init__(self, leader: LeaderFetch, patience: Patience, *, size_bytes_max: int) -> None:
        """``size_bytes_max`` limits one slice."""
        self._leader = leader
        self._timeout_s = patience.timeout_ms / 1_000
        self._size_bytes_max = size_bytes_max
        self._folder: TemporaryDirectory[str] | None = None
        self._stuck_since_s: float | None = None

    def close(self) -> None:
        """Remove everything that was fetched."""
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.cleanup()

    async def fetch(self, snapshot_id: OffsetAndEpoch) -> Path | None:
        """The file of this snapshot, complete; None when the caller must ask the leader again which snapshot to fetch.

        Errors: QuorumUnavailableError when no byte of any snapshot arrived within the time limit for a leader;
        StorageError for the temporary file.
        """
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="pykraft-snapshot-")
        directory = Path(self._folder.name)
        epoch = self._leader.epoch
        download = Download(OsFs(), directory, snapshot_id, leader_epoch=epoch)
        try:
            while not await asyncio.to_thread(download.catch_up):
                pass
            is_whole = download.is_whole
            while not is_whole:
                found = await self._slice(download, epoch)
                if found is None:
                    self._give_up_when_stuck(snapshot_id)
                    await self._leader.pause()
                    return None
                is_whole = found
            await asyncio.to_thread(download.freeze)
        except ProtocolError as error:
            # The leader sent bytes that cannot be a snapshot, so do not resume this download.
            download.abandon()
            self._leader.reject(str(error))
            self._give_up_when_stuck(snapshot_id)
            return None
        finally:
            download.close()
        return checkpoint_path(directory, snapshot_id)

    async def _slice(self, download: Download, epoch: Epoch) -> bool | None:
        """Fetch the next bytes; True when they are the last. None when this leader does not have them.

        Errors: ProtocolError for bytes that cannot belong to a snapshot.
        """
        position = download.position

        def request_in(known: Epoch) -> FetchSnapshotRequest:
            return FetchSnapshotRequest(
                replica=None,
                epoch=known,
                snapshot_id=download.snapshot_id,
                position=position,
                size_bytes_max=self._size_bytes_max,
            )

        found = await self._leader.ask_for_snapshot(request_in)
        # Another leader's file may have other bytes, so start again with its epoch.
        if found is None or self._leader.epoch != epoch:
            return None
        answer, data = found
        problem = _what_is_wrong(answer, data, download.snapshot_id, position)
        if problem is not None:
            self._leader.reject(problem)
            return None
        await asyncio.to_thread(download.append, data)
        self._leader.accept()
        self._stuck_since_s = None
        return download.position == answer.size_bytes

    def _give_up_when_stuck(self, snapshot_id: OffsetAndEpoch) -> None:
        """Check for progress. Errors: QuorumUnavailableError when there was none for too long."""
        now_s = asyncio.get_running_loop().time()
        if self._stuck_since_s is None:
            self._stuck_since_s = now_s
        if now_s >= self._stuck_since_s + self._timeout_s:
            self._stuck_since_s = None
            what = f"the snapshot {stem_of(snapshot_id)} could not be fetched"
            raise QuorumUnavailableError(f"{what} within {self._timeout_s:g} s: {self._leader.story}")


def _what_is_wrong(
    answer: FetchSnapshotResponse, data: Buffer, snapshot_id: OffsetAndEpoch, position: int
) -> str | None:
    """Why a leader's answer is unusable; None if it is usable."""
    if answer.error:
        return f"it answers FetchSnapshot with {error_name(answer.error)}"
    if (answer.snapshot_id, answer.position) != (snapshot_id, position):
        sent = f"{stem_of(answer.snapshot_id)} from position {answer.position} on"
        return f"asked for the snapshot {stem_of(snapshot_id)} from {position} on, it sends {sent}"
    if not len(data) or position + len(data) > answer.size_bytes:
        return f"it sends {len(data)} bytes at {position} of a snapshot of {answer.size_bytes} bytes"
    return None
