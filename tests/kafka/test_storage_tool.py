"""Kafka's storage tool and ours on each other's directories: the same bytes, the same output, the same errors."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from lab.kafka.java import Kafka, Main
from pykraft.cli.storage import storage
from pykraft.local.voters import write_properties
from pykraft.log.small_files.meta import parse_meta
from pykraft.protocol.records import decode_control, scan
from pykraft.types import ControlRecord, SnapshotHeader, Uuid, uuid_text
from tests.kafka.dump import dump_log

pytestmark = pytest.mark.kafka

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"


def config(folder: Path, **changes: str) -> Path:
    values = {
        "process.roles": "controller",
        "node.id": "1",
        "listeners": "CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": "1@127.0.0.1:9093",
        "log.dirs": f"{folder}/a,{folder}/b",
        **changes,
    }
    return write_properties(folder / "node.properties", values)


def ours(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(storage, [str(word) for word in words])
    return result.exit_code, result.stdout


def theirs(kafka: Kafka, *words: object) -> tuple[int, str]:
    done = kafka.run(Main.STORAGE, *(str(word) for word in words))
    return done.status, done.stdout


def without_dates(path: Path) -> list[str]:
    """The lines of a meta.properties, without Java's date and the random id."""
    lines = path.read_text().splitlines()
    return [line for line in lines if not line.startswith("#") and not line.startswith("directory.id")]


def test_info_says_the_same_of_every_state(kafka: Kafka, tmp_path: Path) -> None:
    path = config(tmp_path)

    def compare() -> int:
        status, text = ours("info", "-c", path)
        assert (status, text) == theirs(kafka, "info", "-c", path)
        return status

    assert compare() == 1  # nothing is there
    assert ours("format", "-c", path, "-t", CLUSTER)[0] == 0
    assert compare() == 0  # formatted by us
    (tmp_path / "b/meta.properties").rename(tmp_path / "saved")
    assert compare() == 1  # one is not formatted
    saved = (tmp_path / "saved").read_text()
    (tmp_path / "b/meta.properties").write_text(saved.replace(CLUSTER, "4S55zmMtQNag8xbhqc7CTQ"))
    assert compare() == 1  # of two clusters


def test_what_we_formatted_is_formatted_for_kafka(kafka: Kafka, tmp_path: Path) -> None:
    path = config(tmp_path)
    assert ours("format", "-c", path, "-t", CLUSTER)[0] == 0
    again = kafka.run(Main.STORAGE, "format", "-c", str(path), "-t", CLUSTER)
    assert again.status != 0
    assert "is already formatted" in again.stderr
    ignored = theirs(kafka, "format", "-c", path, "-t", CLUSTER, "--ignore-formatted")
    assert ignored == (0, "All of the log directories are already formatted.\n")
    assert ignored == ours("format", "-c", path, "-t", CLUSTER, "--ignore-formatted")


def test_what_kafka_formatted_is_formatted_for_us(kafka: Kafka, tmp_path: Path) -> None:
    path = config(tmp_path)
    status, text = theirs(kafka, "format", "-c", path, "-t", CLUSTER)
    assert status == 0
    lines = [line.rpartition(" with ")[0] for line in text.splitlines() if line.startswith("Formatting ")]
    assert ours("format", "-c", path, "-t", CLUSTER)[0] != 0
    assert ours("format", "-c", path, "-t", CLUSTER, "-g") == (0, "All of the log directories are already formatted.\n")
    metas = [tmp_path / "a/meta.properties", tmp_path / "b/meta.properties"]
    contents = [without_dates(meta) for meta in metas]
    for meta in metas:
        assert parse_meta(meta, meta.read_bytes()).cluster_id == CLUSTER
        meta.unlink()
    status, text = ours("format", "-c", path, "-t", CLUSTER)
    assert status == 0
    assert sorted(line.rpartition(" with ")[0] for line in text.splitlines()) == sorted(lines)
    assert [without_dates(meta) for meta in metas] == contents


OTHER = f"2@127.0.0.1:9094:{uuid_text(Uuid(bytes(range(16, 32))))}"


@pytest.mark.conformance(142, 150)
@pytest.mark.parametrize("listed", [False, True], ids=["standalone", "initial-controllers"])
def test_both_write_the_same_first_voters_and_kafka_reads_ours(kafka: Kafka, tmp_path: Path, *, listed: bool) -> None:
    voters = {"controller.quorum.voters": "", "controller.quorum.bootstrap.servers": "127.0.0.1:9093"}
    own = uuid_text(Uuid(bytes(range(1, 17))))
    how = ["-I", f"1@127.0.0.1:9093:{own},{OTHER}"] if listed else ["-s"]

    (tmp_path / "theirs").mkdir()
    path = config(tmp_path / "theirs", **voters)
    status, text = theirs(kafka, "format", "-c", path, "-t", CLUSTER, *how)
    assert status == 0
    assert "Formatting dynamic metadata voter directory" in text
    meta = tmp_path / "theirs/a/meta.properties"
    directory_id = parse_meta(meta, meta.read_bytes()).directory_id
    assert directory_id is not None
    if listed:
        assert uuid_text(directory_id) == own

    (tmp_path / "ours").mkdir()
    path = config(tmp_path / "ours", **voters)
    own_id = [] if listed else ["--replica-directory-id", uuid_text(directory_id)]
    status, text = ours("format", "-c", path, "-t", CLUSTER, *how, *own_id)
    assert status == 0
    assert "Formatting dynamic metadata voter directory" in text
    name = "00000000000000000000-0000000000.checkpoint"
    mine = tmp_path / "ours/a/__raft_performance_test-0" / name
    assert controls(mine) == controls(tmp_path / "theirs/a/__cluster_metadata-0" / name)
    dump = dump_log(kafka, [mine], "--cluster-metadata-decoder")
    assert dump.complaints == []
    assert (dump.files[mine].records_count, len(dump.files[mine].batches)) == (4, 2)


def controls(path: Path) -> list[ControlRecord]:
    """What is in a checkpoint of Raft's own records, without the times."""
    data = path.read_bytes()
    found = [
        record
        for position, header in scan(data)
        for record in decode_control(data[position : position + header.size_bytes])
    ]
    return [SnapshotHeader(0) if isinstance(each, SnapshotHeader) else each for each in found]
