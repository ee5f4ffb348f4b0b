"""Who owns a log directory; formatting writes all directories or none, and a start accepts what it wrote."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from pykraft.errors import ConfigError, CorruptionError, ForeignDirectoryError, StorageError, UsageError
from pykraft.log.directory import Formatted, LogDirectory, format_directories, inspect_directories, meta_in
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.meta import MetaProperties, encode_meta
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


IDS = [Uuid(bytes([at]) * 16) for at in (1, 2, 3)]


def format_all(
    *paths: Path, cluster_id: str = "c", node_id: int = 1, given: dict[Path, Uuid] | None = None, ignore: bool = False
) -> list[Formatted]:
    ids = iter(IDS)
    return format_directories(
        OsFs(),
        paths,
        node_id=NodeId(node_id),
        cluster_id=cluster_id,
        directory_ids=given or {},
        ignore_formatted=ignore,
        random_uuid=lambda: next(ids),
    )


def problems(*paths: Path, node_id: int = 1) -> list[str]:
    return inspect_directories(OsFs(), paths, node_id=NodeId(node_id)).problems


def test_each_directory_has_an_id_of_its_own_and_a_start_takes_it(tmp_path: Path) -> None:
    one, two = tmp_path / "deep/one", tmp_path / "two"
    done = format_all(one, two, given={two: IDS[2]})
    assert [(each.path, each.directory_id, each.is_new) for each in done] == [(one, IDS[0], True), (two, IDS[2], True)]
    opened = LogDirectory.open(
        OsFs(), two, node_id=NodeId(1), cluster_id="c", directory_id=None, random_uuid=lambda: IDS[1]
    )
    assert opened.directory_id == IDS[2]
    opened.release()
    inspected = inspect_directories(OsFs(), [one, two], node_id=NodeId(1))
    assert inspected.problems == []
    assert inspected.meta == MetaProperties(node_id=NodeId(1), cluster_id="c", directory_id=IDS[0])


def test_what_is_formatted_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    format_all(two)
    with pytest.raises(UsageError, match="is already formatted: --ignore-formatted"):
        format_all(one, two)
    assert not one.exists()
    done = format_all(one, two, ignore=True)
    assert [each.is_new for each in done] == [True, False]


def test_what_is_ignored_must_be_the_same_nodes(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    format_all(two)
    for changed in ({"cluster_id": "d"}, {"node_id": 2}, {"given": {two: IDS[2]}}):
        with pytest.raises(ForeignDirectoryError, match=r"expected .*, but read "):
            format_all(one, two, ignore=True, **changed)
        assert not one.exists()
    (two / "meta.properties").write_text("garbage")
    with pytest.raises(CorruptionError):
        format_all(one, two, ignore=True)


def test_every_problem_is_told_in_kafkas_words(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("absent", "file", "bare", "first", "other", "node", "bad", "old")]
    _, file, bare, first, other, node, bad, old = paths
    file.write_text("")
    bare.mkdir()
    format_all(first)
    format_all(other, cluster_id="d")
    format_all(node, node_id=2)
    bad.mkdir()
    (bad / "meta.properties").write_text("version=1\nnode.id=x\n")
    old.mkdir()
    meta = MetaProperties(node_id=NodeId(1), cluster_id="c", directory_id=None)
    (old / "meta.properties").write_bytes(encode_meta(meta))
    told = problems(*paths)
    assert told[:5] == [
        f"{tmp_path}/absent does not exist",
        f"{file} is not a directory",
        f"{bare} is not formatted.",
        "Mismatched cluster IDs between storage directories.",
        "Mismatched node IDs between storage directories.",
    ]
    assert told[5].startswith(f"Error loading {bad}/meta.properties: at position 0: expected ")
    assert "has no directory.id" in told[6]
    assert len(told) == 7
    assert "those of node 1, and the configuration is node 3's" in problems(first, node_id=3)[0]


def test_what_a_directory_was_formatted_for(tmp_path: Path) -> None:
    fs, path = OsFs(), tmp_path / "data"
    assert meta_in(fs, path) is None
    [done] = format_all(path)
    assert meta_in(fs, path) == MetaProperties(node_id=NodeId(1), cluster_id="c", directory_id=done.directory_id)
