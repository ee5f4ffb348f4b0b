"""What listeners are given of snapshots: the newest in the place of what it holds, at first and when they lag."""

from __future__ import annotations

import pytest

from pykraft.client.serde import bytes_serde
from pykraft.host.delivery import Delivery, Loader
from pykraft.host.recent import RecentBatches
from pykraft.host.snapshot_files import SnapshotFiles
from pykraft.snapshot.catalog import Catalog
from pykraft.snapshot.reader import SnapshotReader
from pykraft.snapshot.retention import Retention
from pykraft.types import Offset
from tests.host.fakes import FakeListener, FakeLog, FakePorts, batch
from tests.log.page_cache_fs import PageCacheFs
from tests.snapshot.snapshots import DIRECTORY, id_of, write


def loader(taken: list[list[bytes]]) -> Loader:
    """Notes the records of each snapshot, and closes it."""

    def load(reader: SnapshotReader[bytes]) -> None:
        taken.append([value for one in reader for value in one.records])
        reader.close()

    return Loader(bytes_serde, load)


class SnapshotDesk:
    """A delivery beside a directory with a snapshot up to 3, of a log whose batches 0 to 4 are in memory."""

    def __init__(self, *, start_offset: int = 0) -> None:
        self.ports = FakePorts()
        fs = PageCacheFs()
        fs.mkdir(DIRECTORY)
        write(fs, [b"state"], snapshot_id=id_of(3, 1))
        catalog = Catalog(fs, DIRECTORY, [id_of(3, 1)])
        files = SnapshotFiles(fs=fs, directory=DIRECTORY, catalog=catalog, retention=Retention())
        recent = RecentBatches(end_offset=Offset(start_offset))
        recent.append([batch(offset) for offset in range(start_offset, 5)])
        self.delivery = Delivery(self.ports, FakeLog(), recent, Offset(start_offset), lambda *_: None, files)
        self.listener = FakeListener()
        self.taken: list[list[bytes]] = []

    def settle(self, high_watermark: int = 5) -> list[tuple[int, ...] | tuple[str, int, int | None]]:
        self.delivery.committed(Offset(high_watermark))
        while self.ports.reads:
            self.ports.finish_read()
        return self.listener.calls


@pytest.mark.conformance(119)
@pytest.mark.parametrize("start_offset", [0, 3])
def test_a_new_listener_gets_the_snapshot_and_then_what_follows(start_offset: int) -> None:
    desk = SnapshotDesk(start_offset=start_offset)
    desk.delivery.register(desk.listener, loader=loader(desk.taken))
    assert desk.settle() == [(3, 4)]
    assert desk.taken == [[b"state"]]


@pytest.mark.conformance(119)
def test_a_listener_that_fell_behind_the_log_start_gets_the_snapshot_again() -> None:
    desk = SnapshotDesk()
    desk.delivery.register(desk.listener, Offset(0), loader=loader(desk.taken))
    assert desk.settle(1) == [(0,)]
    desk.delivery.log_begins_at(Offset(3))
    assert desk.settle() == [(0,), (3, 4)]
    assert desk.taken == [[b"state"]]


def test_a_listener_that_begins_below_the_log_start_gets_the_snapshot() -> None:
    desk = SnapshotDesk(start_offset=3)
    desk.delivery.register(desk.listener, Offset(1), loader=loader(desk.taken))
    assert desk.settle() == [(3, 4)]
    assert desk.taken == [[b"state"]]


def test_who_cannot_load_a_snapshot_goes_on_where_the_log_starts() -> None:
    desk = SnapshotDesk()
    desk.delivery.register(desk.listener)
    assert desk.settle(1) == [(0,)]
    desk.delivery.log_begins_at(Offset(3))
    assert desk.settle() == [(0,), (3, 4)]


def test_who_went_away_while_a_snapshot_was_opened_does_not_get_it() -> None:
    desk = SnapshotDesk()
    registration = desk.delivery.register(desk.listener, loader=loader(desk.taken))
    desk.delivery.committed(Offset(5))
    registration.remove()
    assert desk.settle() == []
    assert desk.taken == []


@pytest.mark.conformance(119)
def test_who_reads_while_the_log_start_passes_by_loads_the_snapshot_then() -> None:
    desk = SnapshotDesk()
    desk.delivery.recent.evict(Offset(0))
    desk.delivery.recent.begin_anew_at(Offset(3))
    desk.delivery.recent.append([batch(3), batch(4)])
    desk.delivery.register(desk.listener, Offset(0), loader=loader(desk.taken))
    desk.delivery.committed(Offset(5))
    _, then = desk.ports.reads.pop()
    desk.delivery.log_begins_at(Offset(3))
    then(None)
    assert desk.settle() == [(3, 4)]
    assert desk.taken == [[b"state"]]
