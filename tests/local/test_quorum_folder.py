"""The folder of a local quorum keeps ports and cluster id, names every fault, and removes only what pykraft made."""

import json
from math import inf
from pathlib import Path

import pytest

from pykraft.config.properties import node_config, parse_properties
from pykraft.errors import LocalQuorumError, UsageError
from pykraft.local.background_quorum import bring_up
from pykraft.local.quorum_folder import FILE_NAME, QuorumFolder, locked, make_folder
from pykraft.security.contexts import Side, TlsContext


def made(path: Path, count: int = 2) -> QuorumFolder:
    make_folder(path)
    folder = QuorumFolder.create(path, node_count=count)
    folder.write_configs()
    return folder


def test_a_quorum_is_remembered(tmp_path: Path) -> None:
    folder = made(tmp_path / "deep" / "q")
    assert QuorumFolder.read(tmp_path / "deep" / "q") == folder
    assert sorted(folder.ports) == [1, 2]
    assert folder.bootstrap == ",".join(f"127.0.0.1:{port}" for port in folder.ports.values())
    for node_id in folder.ports:
        parsed = node_config(parse_properties((folder.home(node_id) / "server.properties").read_text()))
        assert parsed.warnings == ()
        assert parsed.config.node_id == node_id
        assert parsed.config.voters.ids == (1, 2)
        assert parsed.config.log_dir == folder.home(node_id) / "data"


def test_the_ports_of_a_quorum_may_be_chosen(tmp_path: Path) -> None:
    folder = QuorumFolder.create(tmp_path, node_count=3, first_port=9093)
    assert folder.bootstrap == "127.0.0.1:9093,127.0.0.1:9094,127.0.0.1:9095"
    with pytest.raises(UsageError, match=r"--port 9094: the quorum in \S+ has port 9093 and keeps it"):
        bring_up(tmp_path, first_port=9094, report=print)


def test_a_changed_file_stays_and_a_moved_folder_takes_its_data_along(tmp_path: Path) -> None:
    config = made(tmp_path / "q").home(1) / "server.properties"
    config.write_text(config.read_text() + "metadata.log.segment.bytes=9000000\n")
    before = config.read_text()
    QuorumFolder.read(tmp_path / "q").write_configs()
    assert config.read_text() == before

    moved = tmp_path / r"a\new place"
    (tmp_path / "q").rename(moved)
    QuorumFolder.read(moved).write_configs()
    text = (moved / "n1" / "server.properties").read_text()
    assert text == before.replace(str(tmp_path / "q"), str(moved))


def test_secured_quorum_keeps_its_certificates_and_may_be_moved(tmp_path: Path) -> None:
    (tmp_path / "q").mkdir()
    QuorumFolder.create(tmp_path / "q", node_count=2, has_tls=True).write_configs()
    moved = tmp_path / "moved"
    (tmp_path / "q").rename(moved)
    folder = QuorumFolder.read(moved)
    folder.write_configs()
    assert folder.client_config == moved / "client.properties"
    assert TlsContext(folder.security, Side.CLIENT).expires_s < inf
    parsed = node_config(parse_properties((moved / "n2" / "server.properties").read_text()))
    security = parsed.config.security_between_nodes
    assert security.text("ssl.client.auth") == "required"
    assert (moved / "n2" / security.text("ssl.keystore.location")).samefile(moved / "certs" / "node2.pem")
    assert (moved / "certs" / "ca-key.pem").stat().st_mode & 0o777 == 0o600
    (moved / "certs" / "mine.pem").touch()
    assert folder.delete() == [moved / "certs" / "mine.pem", moved / "certs"]
    assert sorted(path.name for path in moved.iterdir()) == ["certs"]


def test_quorum_does_not_become_a_secured_one(tmp_path: Path) -> None:
    assert made(tmp_path).client_config is None
    with pytest.raises(UsageError, match=r"--tls: the quorum in \S+ has none and stays so; give another folder"):
        bring_up(tmp_path, has_tls=True, report=print)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "there is no local quorum in"),
        ("{", "is damaged"),
        ("[]", "is damaged"),
        ('{"version": 1, "clusterId": "x", "ports": {"a": 1}}', "is damaged"),
        ('{"version": 2, "clusterId": "x", "ports": {"1": 1}}', "is of version 2"),
        ('{"version": 1, "clusterId": "x", "ports": {}}', "and this pykraft knows 1"),
    ],
)
def test_a_folder_without_a_quorum_is_named(tmp_path: Path, content: str | None, told: str) -> None:
    if content is not None:
        (tmp_path / FILE_NAME).write_text(content)
    with pytest.raises(UsageError, match=told) as raised:
        QuorumFolder.read(tmp_path)
    assert str(tmp_path) in str(raised.value)


def test_what_is_in_the_way_is_named_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(UsageError, match=r"file is not a directory: .*--dir"):
        make_folder(file)
    with pytest.raises(UsageError, match=r"x is not a directory: .*--dir"):
        make_folder(file / "x")
    with pytest.raises(UsageError, match=r"holds 'file' and no local quorum: .*--dir"):
        make_folder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    (tmp_path / "q" / FILE_NAME).mkdir(parents=True)
    with pytest.raises(UsageError, match=r"quorum.json: Is a directory"):
        QuorumFolder.read(tmp_path / "q")


def test_what_cannot_be_written_is_named() -> None:
    for path in (Path("/proc"), Path("/proc/new")):
        with pytest.raises(UsageError, match=r"/proc.*: .*give another folder with --dir"):
            make_folder(path)
    with pytest.raises(UsageError, match=r"/proc: .*give another folder with --dir"), locked(Path("/proc")):
        pass
    with pytest.raises(UsageError, match=r"/proc: .*give another folder with --dir"):
        QuorumFolder.create(Path("/proc"), node_count=1)
    with pytest.raises(UsageError, match=r"/proc/n1: .*give another folder with --dir"):
        QuorumFolder(path=Path("/proc"), cluster_id="x", ports={1: 1}).write_configs()


def test_one_command_at_a_time(tmp_path: Path) -> None:
    refused = pytest.raises(LocalQuorumError, match="another `pykraft local` command")
    with locked(tmp_path), refused, locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_only_what_pykraft_made_is_removed(tmp_path: Path) -> None:
    folder = made(tmp_path / "q")
    for node_id in folder.ports:
        partition = folder.home(node_id) / "data" / "__raft_performance_test-0"
        partition.mkdir(parents=True)
        for file in (partition / "0.log", partition.parent / "meta.properties", folder.home(node_id) / "pid"):
            file.touch()
    with locked(folder.path):
        assert folder.delete() == []
    assert list(tmp_path.iterdir()) == []

    folder = made(tmp_path / "q", count=3)
    notes = folder.path / "notes.txt"
    saved = folder.home(1) / "old.log"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "meta.properties").touch()
    (folder.home(2) / "data").symlink_to(elsewhere)
    other = folder.home(3) / "data" / "another"
    other.mkdir(parents=True)
    for file in (notes, saved):
        file.touch()
    assert set(folder.delete()) == {notes, saved, folder.home(2) / "data", other}
    assert (elsewhere / "meta.properties").exists()
    assert not (folder.home(1) / "server.properties").exists()
    assert not (folder.path / FILE_NAME).exists()


def test_a_quorum_that_was_only_begun_can_be_removed(tmp_path: Path) -> None:
    (tmp_path / "q").mkdir()
    folder = QuorumFolder.create(tmp_path / "q", node_count=1)
    assert json.loads((tmp_path / "q" / FILE_NAME).read_text())["version"] == 1
    assert folder.delete() == []
    assert list(tmp_path.iterdir()) == []
