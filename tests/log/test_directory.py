"""Who owns a log directory: the lock, and the identity in meta.properties.

Source: KIP-858, KIP-853 §Directory id; Kafka's ``MetaPropertiesEnsemble`` and ``DirectoryId``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from pykraft.errors import ConfigError, CorruptionError, ForeignDirectoryError, StorageError
from pykraft.log.directory import LogDirectory
from pykraft.log.os_fs import OsFs
from pykraft.types import NodeId, Uuid, uuid_text
from tests.disks import ScriptedDisk

PATH = Path("/data/logs")
META = PATH / "meta.properties"
ID_A, ID_B = Uuid(b"a" * 16), Uuid(b"b" * 16)


def open_directory(
    fs: ScriptedDisk,
    *,
    node_id: int | None = 1,
    cluster_id: str = "cluster",
    directory_id: Uuid | None = None,
    random_uuid: Callable[[], Uuid] = lambda: ID_A,
) -> LogDirectory:
    return LogDirectory.open(
        fs,
        PATH,
        node_id=None if node_id is None else NodeId(node_id),
        cluster_id=cluster_id,
        directory_id=directory_id,
        random_uuid=random_uuid,
    )


@pytest.mark.conformance(1)
def test_a_new_directory_gets_a_durable_identity() -> None:
    fs = ScriptedDisk()
    assert open_directory(fs).directory_id == ID_A
    fs.power_loss(Random(1))
    assert open_directory(fs, random_uuid=lambda: ID_B).directory_id == ID_A
    assert fs.read(META) == b"#\nnode.id=1\ndirectory.id=YWFhYWFhYWFhYWFhYWFhYQ\nversion=1\ncluster.id=cluster\n"


@pytest.mark.conformance(1)
def test_a_configured_directory_id_is_taken_and_then_checked() -> None:
    fs = ScriptedDisk()
    open_directory(fs, directory_id=ID_B).release()
    assert open_directory(fs, directory_id=ID_B).directory_id == ID_B
    fs.kill()
    with pytest.raises(ForeignDirectoryError, match=f"expected directory.id={uuid_text(ID_A)}, found directory.id="):
        open_directory(fs, directory_id=ID_A)


def test_an_old_file_without_directory_id_gets_one() -> None:
    fs = ScriptedDisk()
    fs.write(META, b"version=1\nnode.id=1\ncluster.id=cluster\n")
    assert open_directory(fs, random_uuid=lambda: ID_B).directory_id == ID_B
    assert uuid_text(ID_B).encode() in fs.read(META)


def test_another_replicas_directory_is_refused_and_unlocked() -> None:
    fs = ScriptedDisk()
    open_directory(fs).release()
    for expected, other in (
        ("expected node.id=2, found node.id=1", {"node_id": 2}),
        ("expected cluster.id=x, found cluster.id=cluster", {"cluster_id": "x"}),
    ):
        with pytest.raises(ForeignDirectoryError) as caught:
            open_directory(fs, **other)
        assert f"{META}: {expected}; this directory is another replica's: correct" in str(caught.value)
    assert open_directory(fs).directory_id == ID_A


def test_a_damaged_file_is_refused_and_the_lock_is_let_go() -> None:
    fs = ScriptedDisk()
    fs.write(META, b"garbage")
    for _ in range(2):
        with pytest.raises(CorruptionError, match=r"meta\.properties"):
            open_directory(fs)


def test_random_ids_that_kafka_could_not_use_are_drawn_again() -> None:
    drawn: Iterator[Uuid] = iter([Uuid(bytes(15) + b"\x63"), Uuid(b"\xf8" + bytes(15)), ID_B])
    assert uuid_text(Uuid(b"\xf8" + bytes(15))).startswith("-")
    assert open_directory(ScriptedDisk(), random_uuid=lambda: next(drawn)).directory_id == ID_B


@pytest.mark.conformance(1)
def test_a_reserved_directory_id_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"directory\.id = 'AAAAAAAAAAAAAAAAAAAAAA': the 100 lowest"):
        open_directory(ScriptedDisk(), directory_id=Uuid(bytes(16)))


def test_only_one_process_has_a_directory(tmp_path: Path) -> None:
    def claim() -> LogDirectory:
        return LogDirectory.open(
            OsFs(), tmp_path, node_id=NodeId(1), cluster_id="c", directory_id=ID_A, random_uuid=lambda: ID_B
        )

    directory = claim()
    with pytest.raises(StorageError, match=r"this process already holds it"):
        claim()
    directory.release()
    claim().release()


def test_an_observer_without_an_id_leaves_no_identity_behind() -> None:
    fs = ScriptedDisk()
    first = open_directory(fs, node_id=None)
    assert first.directory_id == ID_A
    assert not fs.exists(META)
    with pytest.raises(StorageError, match="lock"):
        open_directory(fs, node_id=None)
    first.release()
    assert open_directory(fs, node_id=None, directory_id=ID_B).directory_id == ID_B


def test_an_observer_without_an_id_does_not_take_a_nodes_directory() -> None:
    fs = ScriptedDisk()
    open_directory(fs).release()
    with pytest.raises(ForeignDirectoryError, match=r"observer without node\.id"):
        open_directory(fs, node_id=None)
