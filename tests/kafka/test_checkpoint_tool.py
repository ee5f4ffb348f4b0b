"""Kafka's dump tool reads the checkpoints that pykraft wrote, and `pykraft dump` prints the same."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from lab.kafka.java import Kafka, Main
from pykraft.cli.dump import dump
from pykraft.client.serde import bytes_serde
from pykraft.log.os_fs import OsFs
from pykraft.snapshot.download import Download
from pykraft.snapshot.files import BOOTSTRAP_ID, checkpoint_path
from pykraft.snapshot.head import RawReader
from pykraft.snapshot.writer import SnapshotWriter
from pykraft.types import Epoch, OffsetAndEpoch, VoterSet
from tests.kafka.dump import dump_log
from tests.snapshot.snapshots import TIMESTAMP_MS, VOTERS, id_of

pytestmark = pytest.mark.kafka

STATIC = id_of(157, 3)
DYNAMIC = id_of(2**40, 5)
VALUES = [bytes([n % 26 + 97]) * (n * 7_919 % 9_000 + 1) for n in range(700)]


def write(directory: Path, snapshot_id: OffsetAndEpoch, values: list[bytes], voters: VoterSet | None) -> Path:
    writer = SnapshotWriter(
        OsFs(),
        directory,
        snapshot_id,
        bytes_serde,
        last_contained_log_timestamp=TIMESTAMP_MS,
        kraft_version=0 if voters is None else 1,
        voters=voters,
    )
    writer.append(values)
    writer.freeze()
    return checkpoint_path(directory, snapshot_id)


def fetch(path: Path, snapshot_id: OffsetAndEpoch, to: Path) -> Path:
    """The same snapshot as another replica gets it: in slices that end within records."""
    raw, download = (
        RawReader(OsFs(), path.parent, snapshot_id),
        Download(OsFs(), to, snapshot_id, leader_epoch=Epoch(9)),
    )
    while download.position < raw.size_bytes:
        download.append(raw.read(download.position, 100_003))
    download.freeze()
    raw.close()
    return checkpoint_path(to, snapshot_id)


@pytest.mark.conformance(126, 150)
def test_kafka_reads_our_checkpoints_written_and_fetched(kafka: Kafka, tmp_path: Path) -> None:
    written, fetched = tmp_path / "written-0", tmp_path / "fetched-0"
    written.mkdir()
    fetched.mkdir()
    paths = [
        write(written, STATIC, VALUES, None),
        write(written, DYNAMIC, VALUES, VOTERS),
        write(written, BOOTSTRAP_ID, [], VOTERS),
    ]
    paths.append(fetch(paths[1], DYNAMIC, fetched))
    read = dump_log(kafka, paths, "--deep-iteration")
    assert read.complaints == []
    assert [read.files[path].records_count for path in paths] == [702, 704, 4, 704]
    assert [sum(batch.size_bytes for batch in read.files[path].batches) for path in paths] == [
        path.stat().st_size for path in paths
    ]
    assert {batch.epoch for path in paths for batch in read.files[path].batches} == {0, 3, 5}
    assert len(read.files[paths[0]].batches) > 4

    theirs = kafka.run(Main.DUMP_LOG, "--deep-iteration", "--files", ",".join(map(str, paths))).stdout
    ours = CliRunner().invoke(dump, ["--deep-iteration", *map(str, paths)])
    assert ours.exit_code == 0
    assert ours.stdout.splitlines() == theirs.splitlines()


def test_kafka_complains_about_a_checkpoint_that_is_damaged(kafka: Kafka, tmp_path: Path) -> None:
    path = write(tmp_path, STATIC, VALUES, None)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert "isvalid: false" in dump_log(kafka, [path]).complaints[0]
