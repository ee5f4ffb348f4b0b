"""A download accepts sound bytes only, resumes after any interruption, and freezes only a complete snapshot."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.core.messages import FetchSnapshotResponse
from pykraft.errors import ErrorCode, ProtocolError, StorageError, UsageError
from pykraft.log.fs import make_directory
from pykraft.log.os_fs import OsFs
from pykraft.protocol.api import ApiKey
from pykraft.rpc.codec import decode_answer
from pykraft.rpc.context import RpcContext
from pykraft.sim.machine.disk import SYNC_ERROR, Interrupted, VirtualDisk
from pykraft.snapshot import download
from pykraft.snapshot.download import Download
from pykraft.snapshot.files import checkpoint_path, clean_at_start, list_snapshots, part_path
from pykraft.types import ZERO_UUID, Epoch, Offset
from tests.snapshot.snapshots import DIRECTORY, ID, disk, id_of, small_batches

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "dynamic"
LEADER_EPOCH = Epoch(7)
PART = part_path(DIRECTORY, ID, leader_epoch=LEADER_EPOCH)
CHECKPOINT = checkpoint_path(DIRECTORY, ID)
SERVED = small_batches()


def begin(fs: VirtualDisk, epoch: Epoch = LEADER_EPOCH) -> Download:
    return Download(fs, DIRECTORY, ID, leader_epoch=epoch)


def caught_up(found: Download) -> Download:
    while not found.catch_up():
        pass
    return found


def fetch_all(found: Download, chunk_size_bytes: int = 1_000) -> None:
    while found.position < len(SERVED):
        found.append(SERVED[found.position : found.position + chunk_size_bytes])
    found.freeze()


@pytest.mark.conformance(122)
@given(chunk_size_bytes=st.integers(1, len(SERVED) + 10))
def test_a_snapshot_is_fetched_in_chunks_of_any_size(chunk_size_bytes: int) -> None:
    fs = disk()
    found = begin(fs)
    assert (found.snapshot_id, found.position, found.catch_up()) == (ID, 0, True)
    fetch_all(found, max(chunk_size_bytes, 100))
    fs.lose_power()
    assert fs.listdir(DIRECTORY) == [CHECKPOINT.name]
    assert fs.read(CHECKPOINT) == SERVED


@pytest.mark.parametrize("size_bytes", [len(SERVED) // 2, len(SERVED)])
def test_what_a_failed_sync_left_in_the_page_cache_is_written_again(size_bytes: int) -> None:
    for seed in range(20):
        fs = VirtualDisk(Random(seed))
        make_directory(fs, DIRECTORY)
        found = begin(fs)
        found.append(SERVED[:size_bytes])
        fs.io_errors.plan(SYNC_ERROR, 0)
        with pytest.raises(StorageError):
            found._raw._file.sync()
        fs.io_errors.mend()
        fs.drop_handles()
        again = caught_up(begin(fs))
        fetch_all(again)
        fs.lose_power()
        assert fs.read(CHECKPOINT) == SERVED


def test_a_part_is_cut_before_what_the_disk_cannot_read_any_more() -> None:
    fs = disk()
    begin(fs).append(SERVED)
    directory = fs.directory(DIRECTORY)
    assert directory is not None
    inode = directory.cached[PART.name]
    inode.sync()
    inode.lose_page(0)
    again = caught_up(begin(fs))
    assert again.position == 0
    fetch_all(again)
    assert fs.read(CHECKPOINT) == SERVED


@pytest.mark.conformance(122)
@pytest.mark.parametrize("catch_up_size_bytes", [100, 4_096, 2**20])
def test_a_closed_download_goes_on_at_its_last_whole_batch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, catch_up_size_bytes: int
) -> None:
    monkeypatch.setattr(download, "CATCH_UP_SIZE_BYTES", catch_up_size_bytes)
    first = Download(OsFs(), tmp_path, ID, leader_epoch=LEADER_EPOCH)
    first.append(SERVED[:100])
    first.append(SERVED[100:-10])
    first.close()
    again = Download(OsFs(), tmp_path, ID, leader_epoch=LEADER_EPOCH)
    assert not again.catch_up() or len(SERVED) <= catch_up_size_bytes
    assert 0 < caught_up(again).position <= len(SERVED) - 10
    fetch_all(again)
    assert checkpoint_path(tmp_path, ID).read_bytes() == SERVED


@pytest.mark.conformance(122)
def test_the_answers_of_a_kafka_leader_are_its_file(tmp_path: Path) -> None:
    context = RpcContext(cluster_id=None, topic_name="__cluster_metadata", topic_id=ZERO_UUID, default_listener="X")
    snapshot_id = id_of(63, 1)
    found = Download(OsFs(), tmp_path, snapshot_id, leader_epoch=Epoch(1))
    for path in sorted(GOLDEN.glob("frames/59-FetchSnapshot-v1-*.txt")):
        response = path.read_text().split("\nresponse ")[1].split()[0]
        answer = decode_answer(ApiKey.FETCH_SNAPSHOT, 1, bytes.fromhex(response)[4:], context)
        assert isinstance(answer.message, FetchSnapshotResponse)
        assert (answer.message.snapshot_id, answer.message.position) == (snapshot_id, found.position)
        found.append(answer.records)
        assert found.position < answer.message.size_bytes or path.stem.endswith("-3")
    found.freeze()
    name = checkpoint_path(tmp_path, snapshot_id).name
    assert (tmp_path / name).read_bytes() == (GOLDEN / "disk/n9/data/__cluster_metadata-0" / name).read_bytes()


def test_a_part_of_another_epoch_is_not_gone_on_with() -> None:
    fs = disk()
    first = begin(fs)
    first.append(SERVED[:200])
    first.close()
    assert begin(fs, Epoch(8)).position == 0
    assert fs.listdir(DIRECTORY) == [part_path(DIRECTORY, ID, leader_epoch=Epoch(8)).name]


def test_an_abandoned_download_leaves_nothing() -> None:
    fs = disk()
    found = begin(fs)
    found.append(SERVED[:200])
    found.abandon()
    assert fs.listdir(DIRECTORY) == []
    with pytest.raises(UsageError, match="was closed"):
        found.append(SERVED[200:])


def test_damaged_bytes_are_the_leaders_fault_and_are_not_written() -> None:
    fs = disk()
    found = begin(fs)
    found.append(SERVED[:200])
    with pytest.raises(
        ProtocolError, match="that the leader sends is damaged at position 189: expected a batch header"
    ) as caught:
        found.append(bytes(len(SERVED) - 200))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert fs.read(PART) == SERVED[:200]


def test_a_snapshot_of_another_id_is_refused() -> None:
    found = Download(disk(), DIRECTORY, id_of(157, 4), leader_epoch=LEADER_EPOCH)
    with pytest.raises(ProtocolError, match="expected epoch 4 as in the snapshot's id, found epoch 3"):
        found.append(SERVED[:200])


@pytest.mark.parametrize("size_bytes", [0, 79, len(SERVED) - 75, len(SERVED) - 1])
def test_nothing_but_a_whole_snapshot_is_frozen(size_bytes: int) -> None:
    fs = disk()
    found = begin(fs)
    found.append(SERVED[:size_bytes])
    with pytest.raises(ProtocolError, match=f"offset {ID.offset} and epoch {ID.epoch} that the leader sends"):
        found.freeze()
    found.abandon()
    assert fs.listdir(DIRECTORY) == []


@given(
    chunk_size_bytes=st.integers(100, 9_000),
    seed=st.integers(0, 2**32),
    crashes=st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=6),
)
def test_a_download_survives_any_number_of_crashes(
    chunk_size_bytes: int, seed: int, crashes: list[tuple[int, bool]]
) -> None:
    fs = disk(seed)
    fs.sync_dir(DIRECTORY)
    for operations, loses_power in crashes:
        fs.interrupt_within(operations, loses_power=loses_power)
        try:
            if not clean_at_start(fs, DIRECTORY, log_start_offset=Offset(0), leader_epoch=LEADER_EPOCH):
                fetch_all(caught_up(begin(fs)), chunk_size_bytes)
        except Interrupted:
            pass
        if loses_power:
            fs.lose_power()
        fs.drop_handles()
        if list_snapshots(fs, DIRECTORY):
            assert fs.read(CHECKPOINT) == SERVED
    if not clean_at_start(fs, DIRECTORY, log_start_offset=Offset(0), leader_epoch=LEADER_EPOCH):
        fetch_all(caught_up(begin(fs)), chunk_size_bytes)
    assert fs.read(CHECKPOINT) == SERVED
    assert fs.listdir(DIRECTORY) == [CHECKPOINT.name]
