"""Which snapshot a listener is given before it can go on.

Source: KIP-630, KIP-853, KIP-1170; Kafka's ``KafkaRaftClient.updateListenersProgress`` and ``RaftClient.Listener``.
"""

from __future__ import annotations

import pytest

from pykraft.client.serde import bytes_serde
from pykraft.host.snapshots.loading import Loader, SnapshotLoading
from pykraft.snapshot.reader import SnapshotReader
from pykraft.types import Offset
from tests.host.fakes import snapshot_files


def load(reader: SnapshotReader[bytes]) -> None: ...


def bootstrap(reader: SnapshotReader[bytes]) -> None: ...


BOTH = Loader(bytes_serde, load, bootstrap=bootstrap)
LOADS = Loader(bytes_serde, load)


@pytest.mark.conformance(119, 128)
@pytest.mark.parametrize(
    ("loader", "snapshots", "next_offset", "start_offset", "expected"),
    [
        (None, [(9, 1)], 0, 0, None),
        (LOADS, [], 0, 0, None),
        (LOADS, [(9, 1)], 0, 0, load),
        (LOADS, [(9, 1)], 9, 0, None),
        (LOADS, [(5, 1), (9, 1)], 4, 5, load),
        (BOTH, [], 0, 0, bootstrap),
        (BOTH, [], 3, 0, None),
        (BOTH, [(9, 1)], 0, 0, load),
    ],
)
def test_at_first(
    loader: Loader | None, snapshots: list[tuple[int, int]], next_offset: int, start_offset: int, expected: object
) -> None:
    files = snapshot_files(*snapshots, has_bootstrap=True)
    wanted = SnapshotLoading(loader, files, is_fresh=True).wanted(Offset(next_offset), Offset(start_offset))
    assert (wanted and wanted.load) is expected


@pytest.mark.parametrize(("next_offset", "expected"), [(0, load), (4, load), (5, None), (7, None), (9, None)])
def test_later_on_only_what_the_log_does_not_hold(next_offset: int, expected: object) -> None:
    loading = SnapshotLoading(BOTH, snapshot_files((5, 1), (9, 1), has_bootstrap=True), is_fresh=True)
    loading.given()
    wanted = loading.wanted(Offset(next_offset), Offset(5))
    assert (wanted and wanted.load) is expected


def test_there_is_no_checkpoint_of_formatting_in_most_directories() -> None:
    assert SnapshotLoading(BOTH, snapshot_files(), is_fresh=True).wanted(Offset(0), Offset(0)) is None
