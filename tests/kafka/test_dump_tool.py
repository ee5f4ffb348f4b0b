"""Kafka's dump tool reads what pykraft wrote: batches, offset indexes, time indexes; and it reports planted damage.

All files go through two runs of the tool: one that reads everything and compares indexes with logs, one that makes the
check which a Java node makes of an index at its start.

Kafka's dump tool reads the checkpoints that pykraft wrote, and `pykraft dump` prints the same.
"""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from lab.kafka.java import Kafka, Main
from pykraft.cli.dump import dump
from pykraft.client.serde import bytes_serde
from pykraft.config import LogSettings
from pykraft.log.log import Log
from pykraft.log.os_fs import OsFs
from pykraft.protocol.records import encode_batch, encode_control_batch, scan
from pykraft.snapshot.download import Download
from pykraft.snapshot.files import BOOTSTRAP_ID, checkpoint_path
from pykraft.snapshot.head import RawReader
from pykraft.snapshot.writer import SnapshotWriter
from pykraft.types import ControlRecord, Epoch, KRaftVersion, LeaderChange, NodeId, OffsetAndEpoch, Uuid, VoterSet
from tests.kafka.dump import DumpedBatch, dump_log
from tests.snapshot.snapshots import TIMESTAMP_MS, VOTERS, id_of

pytestmark = pytest.mark.kafka

TOPIC_ID = Uuid(bytes(15) + b"\2")
CONFIG = LogSettings(segment_size_bytes=200_000, index_interval_bytes=2_000, index_size_bytes_max=100_000)
EPOCHS = 3
BATCHES_PER_EPOCH = 60


def write_log(folder: Path) -> Path:
    """A log with control batches, several epochs and segments, and batches from one small record to many large ones."""
    source = random.Random(7)
    directory = folder / "__raft_performance_test-0"
    log, _ = Log.open(OsFs(), directory, config=CONFIG, topic_id=TOPIC_ID)
    now_ms = 1_700_000_000_000
    for epoch in range(1, EPOCHS + 1):
        leader = LeaderChange(leader_id=NodeId(1), voters=(NodeId(1), NodeId(2)), granting_voters=(NodeId(1),))
        records: list[ControlRecord] = [leader, KRaftVersion(1)] if epoch == 1 else [leader]
        batch = encode_control_batch(records, base_offset=log.end_offset, epoch=Epoch(epoch), timestamp_ms=now_ms)
        log.append([batch])
        for _ in range(BATCHES_PER_EPOCH):
            now_ms += source.choice((0, 1, 25, 1_000))
            count = source.choice((1, 1, 2, 70, 400))
            values = [source.randbytes(source.choice((1, 10, 63, 64, 200))) for _ in range(count)]
            batch = encode_batch(values, base_offset=log.end_offset, epoch=Epoch(epoch), timestamp_ms=now_ms)
            log.append([batch])
        log.flush()
    log.close()
    return directory


def files(directory: Path, *suffixes: str) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.suffix in suffixes)


def expected_batches(segment: Path) -> list[DumpedBatch]:
    return [
        DumpedBatch(
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            records_count=header.records_count,
            epoch=header.epoch,
            is_control=header.is_control,
            position=position,
            max_timestamp=header.max_timestamp,
            size_bytes=header.size_bytes,
            crc=header.crc,
            is_valid=True,
        )
        for position, header in scan(segment.read_bytes())
    ]


def copy_with_flips(directory: Path, to: Path, flips: Sequence[tuple[str, int]]) -> Path:
    """The first segment's files, with one bit flipped in each of these (suffix, position)."""
    to.mkdir()
    for path in files(directory, ".log", ".index", ".timeindex")[:3]:
        data = bytearray(path.read_bytes())
        for suffix, position in flips:
            if path.suffix == suffix:
                data[position] ^= 1
        (to / path.name).write_bytes(data)
    return to


@pytest.mark.conformance(150)
def test_kafka_reads_every_batch_and_every_index_of_our_log(kafka: Kafka, tmp_path: Path) -> None:
    directory = write_log(tmp_path)
    segments = files(directory, ".log")
    indexes = files(directory, ".index", ".timeindex")
    assert len(segments) > 3, "a log of one segment would prove less"

    dump = dump_log(kafka, [*segments, *indexes], "--deep-iteration")
    assert dump.complaints == []
    for segment in segments:
        assert dump.files[segment].batches == expected_batches(segment)
        assert dump.files[segment].records_count == sum(b.records_count for b in dump.files[segment].batches)
    assert dump.files[segments[-1]].batches[-1].last_offset == sum(dump.files[s].records_count for s in segments) - 1
    assert all(dump.files[index].entries for index in indexes if index.suffix == ".timeindex")
    for segment, index in zip(segments, files(directory, ".index"), strict=True):
        positions = {batch.position: batch.last_offset for batch in dump.files[segment].batches}
        assert [positions.get(position) for _, position in dump.files[index].entries] == [
            offset for offset, _ in dump.files[index].entries
        ]

    checked = dump_log(kafka, indexes, "--index-sanity-check")
    assert checked.complaints == []
    assert all(checked.files[index].is_sane for index in indexes)


def test_kafka_complains_about_a_log_and_an_index_that_are_wrong(kafka: Kafka, tmp_path: Path) -> None:
    directory = write_log(tmp_path)
    wrong_log = copy_with_flips(directory, tmp_path / "log", [(".log", 200)])
    wrong_time = copy_with_flips(directory, tmp_path / "time", [(".timeindex", 7)])
    dump = dump_log(kafka, [*files(wrong_log, ".log"), *files(wrong_time, ".timeindex")])
    assert "isvalid: false" in dump.complaints[-1]
    assert f"Found timestamp mismatch in :{files(wrong_time, '.timeindex')[0]}" in dump.complaints
    broken_offset = copy_with_flips(directory, tmp_path / "offset", [(".index", 7)])
    assert dump_log(kafka, files(broken_offset, ".index")).complaints


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
