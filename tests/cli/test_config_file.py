"""A properties file is found, read in the encodings that occur, and named in every message about it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pykraft.cli.config_file import CONFIG_SIZE_BYTES_MAX, find_config, naming, read_config, tell_of_neighbors
from pykraft.errors import ConfigError, StorageError, UsageError

PROPERTIES = """
node.id=1
listeners=PLAINTEXT://localhost:9092
controller.listener.names=PLAINTEXT
controller.quorum.voters=1@localhost:9092
log.dirs=data
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "server.properties"


def test_the_file_is_named_when_it_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=f"^--config {tmp_path}/absent: No such file or directory: give the path of a properties file$"
    ):
        read_config(tmp_path / "absent")
    with pytest.raises(UsageError, match=f"^--config {tmp_path}: Is a directory$"):
        read_config(tmp_path)


@pytest.mark.parametrize("content", [b"node.id=1\n\0", b"#" * (CONFIG_SIZE_BYTES_MAX + 1)])
def test_a_file_that_cannot_be_properties_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(UsageError, match="a properties file is text"):
        read_config(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_text_is_read_in_the_encodings_that_occur(path: Path, encoding: str) -> None:
    path.write_text(PROPERTIES.replace("=data", "=Bücher"), encoding=encoding)
    assert read_config(path).log_dir == Path("Bücher")


@pytest.mark.parametrize(("key", "value"), [("node.id", "one"), ("log.dirs", r"\uZZ")])
def test_a_wrong_property_is_named_with_its_file(path: Path, key: str, value: str) -> None:
    path.write_text(f"{PROPERTIES}{key}={value}\n")
    with pytest.raises(UsageError, match=f"^{path}: line 7: property {key} = "):
        read_config(path)


def test_warnings_name_the_file(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.write_text(f"{PROPERTIES}some.key=1\n")
    with caplog.at_level(logging.WARNING, logger="pykraft"):
        read_config(path)
    assert caplog.messages == [f"{path}: line 7: property some.key is unknown and has no effect"]


def test_only_properties_are_named_with_their_file(path: Path) -> None:
    with pytest.raises(UsageError, match=f"^{path}: property a = 'b': c$"), naming(path):
        raise ConfigError("a", "b", "c")
    with pytest.raises(StorageError, match=r"^elsewhere: full$"), naming(path):
        raise StorageError("elsewhere", "full")


def test_a_file_is_looked_for_here_and_then_in_the_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, clone = tmp_path / "here", tmp_path / "clone"
    for folder in (here, clone):
        folder.mkdir()
    monkeypatch.chdir(here)
    name = Path("server.properties")
    assert find_config(name, clone) == name
    (clone / name).touch()
    assert find_config(name, clone) == clone / name
    assert find_config(name, None) == name
    (here / name).touch()
    assert find_config(name, clone) == name


def test_partitions_of_other_topics_are_told_of(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(path.parent)
    path.write_text(PROPERTIES)
    config = read_config(path)
    tell_of_neighbors(config)
    for name in ("__raft_performance_test-0", "lost+found", "c.d-1", "a-0"):
        (path.parent / "data" / name).mkdir(parents=True)
    assert caplog.messages == []
    with caplog.at_level(logging.WARNING, logger="pykraft"):
        tell_of_neighbors(config)
        for number in range(3):
            (path.parent / "data" / f"b-{number}").mkdir()
        tell_of_neighbors(config)
    only = "this node reads and writes only __raft_performance_test-0"
    assert caplog.messages == [
        f"data also holds a-0, c.d-1: {only}",
        f"data also holds a-0, b-0, b-1 and 2 more: {only}",
    ]
