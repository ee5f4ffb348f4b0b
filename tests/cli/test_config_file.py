"""A properties file is found, read, and named in every message about it; ids are taken as given, or rejected."""

import logging
from pathlib import Path

import pytest

from pykraft.cli import config_file
from pykraft.config import NodeConfig
from pykraft.errors import ConfigError, UsageError
from pykraft.types import uuid_text

PROPERTIES = """
node.id=1
listeners=PLAINTEXT://localhost:9092
controller.listener.names=PLAINTEXT
controller.quorum.voters=1@localhost:9092
log.dirs=data
"""


def read_config(path: Path, *overrides: str) -> NodeConfig:
    properties = config_file.read_properties(path)
    config_file.override(properties, overrides, "--override")
    return config_file.checked_config(properties)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "server.properties"


def test_the_file_is_named_when_it_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=f"^--config {tmp_path}/absent: No such file or directory: give the path of a properties file$"
    ):
        read_config(tmp_path / "absent")
    with pytest.raises(UsageError, match=f"^--config {tmp_path}: Is a directory: give the path of a properties file$"):
        read_config(tmp_path)


@pytest.mark.parametrize("content", [b"node.id=1\n\0", b"#" * (config_file.CONFIG_SIZE_BYTES_MAX + 1)])
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


SPOT = "property some.key is unknown and has no effect"
MAP = "listener.security.protocol.map"
LATER = "it has no effect without authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
REMEDY = "if that is wrong, set advertised.listeners"
ALONE = "node.id 2 is not one of controller.quorum.voters: this node only observes"


@pytest.mark.parametrize(
    ("added", "overrides", "told"),
    [
        ("some.key=1", [], f"FILE: line 7: {SPOT}"),
        ("", ["some.key=1"], f"--override: {SPOT}"),
        ("some.key=1", ["some.key=2"], f"--override: {SPOT}"),
        ("node.id=2", [], f"FILE: line 7: {ALONE}"),
        ("", ["node.id=2"], f"--override: {ALONE}"),
        ("log.dirs=a,b", [], "FILE: line 7: of log.dirs only the first has an effect here: a"),
        ("", ["process.roles=broker,controller"], "--override: of process.roles only controller has an effect here"),
        ("broker.id=1", [], "FILE: line 7: property broker.id is now called node.id"),
        (
            "",
            ["broker.id=3"],
            "--override: property broker.id is now called node.id; that is also given, and 1 is used",
        ),
        (
            "",
            ["listeners=PLAINTEXT://:9092,B://:9099", "controller.listener.names=PLAINTEXT"],
            f"--override: other nodes will dial localhost:9099 for B; {REMEDY}",
        ),
    ],
)
def test_a_warning_says_where_the_value_comes_from(
    path: Path, caplog: pytest.LogCaptureFixture, added: str, overrides: list[str], told: str
) -> None:
    path.write_text(f"{PROPERTIES}{added}\n")
    with caplog.at_level(logging.WARNING, logger="pykraft"):
        read_config(path, *overrides)
    assert caplog.messages == [told.replace("FILE", str(path))]


@pytest.mark.parametrize(
    ("added", "overrides", "told"),
    [
        ("", ["node.id=x"], "--override: property node.id = 'x': "),
        ("node.id=x", [], "FILE: line 7: property node.id = 'x': "),
        ("node.id=x", ["log.dirs=y"], "FILE: line 7: property node.id = 'x': "),
        (
            "listeners=PLAINTEXT://localhost:9092,SASL_SSL://localhost:9093",
            [],
            "FILE: property sasl.enabled.mechanisms is required: some of PLAIN",
        ),
        (f"{MAP}=PLAINTEXT:TLS", [], f"FILE: line 7: property {MAP} = 'PLAINTEXT:TLS': NAME:PROTOCOL with one of"),
        ("ssl.client.auth=none", [], "FILE: line 7: property ssl.client.auth = 'none': no listener uses it"),
        ("super.users=User:a", [], f"FILE: line 7: property super.users = 'User:a': {LATER}"),
        ("controller.listener.names=A", [], "FILE: line 7: property controller.listener.names = 'A': each name must"),
        ("", ["log.dirs="], "--override: property log.dirs is required: "),
        ("pykraft.topic=__cluster_metadata", [], "FILE: line 5: property controller.quorum.voters = "),
    ],
)
def test_an_error_blames_the_line_or_the_option_that_is_wrong(
    path: Path, added: str, overrides: list[str], told: str
) -> None:
    path.write_text(f"{PROPERTIES}{added}\n")
    with pytest.raises(ConfigError) as caught:
        read_config(path, *overrides)
    assert str(caught.value).startswith(told.replace("FILE", str(path)))


def test_an_error_about_a_missing_property_names_the_file_and_the_older_name_that_was_given(path: Path) -> None:
    path.write_text(PROPERTIES.replace("log.dirs=data\n", ""))
    with pytest.raises(ConfigError, match=rf"^{path}: property log\.dirs is required: "):
        read_config(path)
    path.write_text(PROPERTIES.replace("node.id=1", "broker.id=x"))
    with pytest.raises(ConfigError, match=rf"^{path}: line 2: property node\.id = 'x': .* \(given as broker\.id\)$"):
        read_config(path)


@pytest.mark.parametrize("text", ["node.id", "=1", " = "])
def test_an_override_is_a_key_and_a_value(path: Path, text: str) -> None:
    path.write_text(PROPERTIES)
    with pytest.raises(UsageError, match=f"^--override: '{text}': give a property and its value: key=value$"):
        read_config(path, text)


def test_a_file_is_looked_for_here_and_then_in_the_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, clone = tmp_path / "here", tmp_path / "clone"
    for folder in (here, clone):
        folder.mkdir()
    monkeypatch.chdir(here)
    name = Path("server.properties")
    assert config_file.find_config(name, clone) == name
    (clone / name).touch()
    assert config_file.find_config(name, clone) == clone / name
    assert config_file.find_config(name, None) == name
    (here / name).touch()
    assert config_file.find_config(name, clone) == name


def test_partitions_of_other_topics_are_told_of(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(path.parent)
    path.write_text(PROPERTIES)
    config = read_config(path)
    config_file.warn_of_neighbors(config)
    for name in ("__raft_performance_test-0", "lost+found", "c.d-1", "a-0"):
        (path.parent / "data" / name).mkdir(parents=True)
    assert caplog.messages == []
    with caplog.at_level(logging.WARNING, logger="pykraft"):
        config_file.warn_of_neighbors(config)
        for number in range(3):
            (path.parent / "data" / f"b-{number}").mkdir()
        config_file.warn_of_neighbors(config)
    only = "this node reads and writes only __raft_performance_test-0"
    assert caplog.messages == [
        f"data also holds a-0, c.d-1: {only}",
        f"data also holds a-0, b-0, b-1 and 2 more: {only}",
    ]


@pytest.mark.parametrize("text", ["MkU3OEVBNTcwNTJENDM2Qg", "a", "my.cluster_1-2", "x" * 255])
def test_a_cluster_id_is_letters_digits_and_three_signs(text: str) -> None:
    assert config_file.parse_cluster_id(text) == text


@pytest.mark.parametrize("text", ["", "x" * 256, "a b", "a/b", "\u00fc", "a\n"])
def test_any_other_cluster_id_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--cluster-id .*: give 1 to 255 letters"):
        config_file.parse_cluster_id(text)


@pytest.mark.conformance("H17", "H18")
@pytest.mark.parametrize("text", ["b8tRS7h4TJ2Vt43Dp85v2A", "4-e97nI7eHPYKfEDtW8rtQ", "-AAAAAAAAAAAAAAAAAAAAA"])
def test_a_directory_id_may_hold_and_begin_with_a_hyphen(text: str) -> None:
    assert uuid_text(config_file.parse_directory_id(text)) == text


@pytest.mark.parametrize(
    "text", ["", "short", "b8tRS7h4TJ2Vt43Dp85v2A=", "AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ"]
)
def test_any_other_directory_id_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--replica-directory-id"):
        config_file.parse_directory_id(text)
