"""``pykraft server``: the configuration that results from options and properties file, without running a node."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pykraft import __version__
from pykraft.cli.server import server
from pykraft.cli.storage import storage
from pykraft.config import TEST_CLUSTER_ID, NodeConfig
from pykraft.errors import ConfigError, UsageError
from pykraft.server import log_file as log_file_module
from pykraft.server import run
from pykraft.server.run import ServerOptions
from pykraft.server.workload import Load
from pykraft.types import uuid_parse

DIRECTORY_ID = "-nkij_D9XRiYKNb41SiJoA"
PROPERTIES = """
node.id=1
listeners=PLAINTEXT://localhost:9092
controller.listener.names=PLAINTEXT
controller.quorum.voters=1@localhost:9092
log.dirs=data
"""


@pytest.fixture
def config_path(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(PROPERTIES)
    return path


@pytest.fixture(autouse=True)
def served(monkeypatch: pytest.MonkeyPatch) -> list[tuple[NodeConfig, ServerOptions]]:
    """What the command asked to be served."""
    served: list[tuple[NodeConfig, ServerOptions]] = []
    monkeypatch.setattr(run, "serve", lambda config, options: served.append((config, options)))
    return served


def invoke(path: Path, *options: str) -> Any:
    return CliRunner().invoke(server, ["--config", str(path), *options])


def refused(path: Path, *options: str) -> str:
    result = invoke(path, *options)
    assert isinstance(result.exception, UsageError), result.output
    return str(result.exception)


def test_a_log_file_has_a_size_and_successors(
    config_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[Path, dict[str, int]]] = []

    def log_file(path: Path, **limits: int) -> logging.Handler:
        made.append((path, limits))
        return logging.NullHandler()

    monkeypatch.setattr(log_file_module, "LogFile", log_file)
    path = tmp_path / "node.log"
    assert invoke(config_path, "--log-file", str(path)).exit_code == 0
    assert invoke(config_path, "--log-file", str(path), "--log-file-mib", "1", "--log-files", "2").exit_code == 0
    assert made == [
        (path, {"size_bytes_max": 10 * 2**20, "files_max": 5}),
        (path, {"size_bytes_max": 2**20, "files_max": 2}),
    ]
    assert "give a whole number from 2 to 1000" in invoke(config_path, "--log-files", "1").output
    assert "there is no folder" in invoke(config_path, "--log-file", str(tmp_path / "absent" / "node.log")).output


def test_a_node_writes_only_what_it_is_told_to(
    config_path: Path, served: list[tuple[NodeConfig, ServerOptions]]
) -> None:
    assert invoke(config_path).exit_code == 0
    assert invoke(config_path, "--throughput", "7").exit_code == 0
    (config, options), (_, loaded) = served
    assert options == ServerOptions(load=None)
    assert loaded == ServerOptions(load=Load(records_per_s=7, record_size_bytes=256))
    assert (config.cluster_id, config.directory_id, config.node_id) == (TEST_CLUSTER_ID, None, 1)


@pytest.mark.conformance("H17", "H19")
def test_options_count_before_properties(config_path: Path, served: list[tuple[NodeConfig, ServerOptions]]) -> None:
    options = ["--replica-directory-id", DIRECTORY_ID, "--cluster-id", "my-cluster.1", "--throughput", "-1"]
    options += ["--record-size", "100", "--ack-fd", "7", "--loop", "asyncio"]
    assert invoke(config_path, *options).exit_code == 0
    [(config, chosen)] = served
    assert (config.cluster_id, config.directory_id) == ("my-cluster.1", uuid_parse(DIRECTORY_ID))
    load = Load(records_per_s=-1, record_size_bytes=100)
    assert chosen == ServerOptions(load=load, ack_descriptor=7, loop="asyncio")


def test_a_formatted_directory_says_which_cluster(
    tmp_path: Path, served: list[tuple[NodeConfig, ServerOptions]]
) -> None:
    path = tmp_path / "formatted.properties"
    path.write_text(PROPERTIES.replace("log.dirs=data", f"log.dirs={tmp_path}/data"))
    assert CliRunner().invoke(storage, ["format", "-c", str(path), "-t", "my-cluster"]).exit_code == 0
    assert invoke(path).exit_code == 0
    assert invoke(path, "--cluster-id", "another").exit_code == 0
    assert [config.cluster_id for config, _ in served] == ["my-cluster", "another"]


def test_a_node_may_go_without_load(config_path: Path, served: list[tuple[NodeConfig, ServerOptions]]) -> None:
    assert invoke(config_path, "--throughput", "7", "--no-workload").exit_code == 0
    assert served[0][1].load is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--throughput", "-2"], "--throughput -2"),
        (["--throughput", "1", "--record-size", "0"], "--record-size 0"),
        (["--record-size", "100"], "--record-size needs --throughput"),
        (["--replica-directory-id", "AAAAAAAAAAAAAAAAAAAAAQ"], "are reserved by Kafka"),
        (["--replica-directory-id", "short"], "--replica-directory-id"),
        (["--cluster-id", ""], "--cluster-id"),
        (["--cluster-id", "a\nversion=2"], "--cluster-id"),
        (["--cluster-id", "x" * 256], "--cluster-id"),
    ],
)
def test_a_wrong_option_is_named(config_path: Path, options: list[str], says: str) -> None:
    assert says in refused(config_path, *options)


@pytest.mark.conformance("H64")
def test_the_file_may_be_an_argument_as_in_2020(
    config_path: Path, served: list[tuple[NodeConfig, ServerOptions]]
) -> None:
    assert CliRunner().invoke(server, [str(config_path), "--throughput", "7"]).exit_code == 0
    [(config, options)] = served
    assert (config.node_id, options.load) == (1, Load(records_per_s=7))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "the configuration file is missing: give --config FILE"),
        (["--config", "a", "b"], "two configuration files, a and b: give one"),
    ],
)
def test_there_is_one_file(words: list[str], says: str) -> None:
    result = CliRunner().invoke(server, words)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_file_of_the_clone_is_found_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: list[tuple[NodeConfig, ServerOptions]]
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "one.properties").write_text(PROPERTIES)
    monkeypatch.chdir("/")
    result = invoke(Path("config/one.properties"), "--clone", str(tmp_path))
    assert result.exit_code == 0
    assert len(served) == 1


def test_the_version_is_told() -> None:
    assert CliRunner().invoke(server, ["--version"]).stdout == f"{__version__}\n"


def test_a_property_that_turns_out_wrong_later_is_named_with_its_file(
    config_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def serve(config: NodeConfig, options: ServerOptions) -> None:
        raise ConfigError("listeners", "PLAINTEXT://localhost:9092", "cannot be bound")

    monkeypatch.setattr(run, "serve", serve)
    assert refused(config_path).startswith(f"{config_path}: line 3: property listeners = ")
    assert refused(config_path, "--override", "listeners=PLAINTEXT://:9092").startswith(
        "--override: property listeners"
    )


@pytest.mark.parametrize(("level", "is_told"), [("info", True), ("warning", True), ("error", False)])
def test_warnings_about_properties_go_to_standard_error(tmp_path: Path, level: str, is_told: bool) -> None:
    path = tmp_path / "server.properties"
    path.write_text(PROPERTIES + "some.key=1\n")
    result = invoke(path, "--log-level", level)
    assert (f"WARNING {path}: line 7: property some.key is unknown and has no effect" in result.stderr) is is_told
    assert result.stdout == ""


def test_the_log_can_be_json(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(PROPERTIES + "some.key=1\n")
    [line] = invoke(path, "--log-format", "json").stderr.splitlines()
    fields = json.loads(line)
    assert fields.pop("wall_ms") > 0
    assert fields == {"level": "WARNING", "message": f"{path}: line 7: property some.key is unknown and has no effect"}


def test_an_override_counts_instead_of_the_files_line(
    config_path: Path, served: list[tuple[NodeConfig, ServerOptions]]
) -> None:
    invoke(config_path, "--override", "node.id=2", "--override", "controller.quorum.voters=2@a=b:9092")
    assert "a=b" in refused(config_path, "--override", "controller.quorum.voters=2@a=b:x")
    (config, _) = served[0]
    assert (config.node_id, config.voters.ids) == (2, (2,))


def test_overrides_may_come_from_the_environment(
    config_path: Path, served: list[tuple[NodeConfig, ServerOptions]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYKRAFT_OVERRIDE", "node.id=3 log.dirs=elsewhere")
    invoke(config_path)
    (config, _) = served[0]
    assert (config.node_id, config.log_dir) == (3, Path("elsewhere"))
    invoke(config_path, "--override", "node.id=4")
    (_, (config, _)) = served
    assert (config.node_id, config.log_dir) == (4, Path("elsewhere"))  # both count, the option last


@pytest.mark.parametrize("value", ["node.id=x", "node.id"])
def test_a_wrong_override_of_the_environment_is_named_as_such(
    value: str, config_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYKRAFT_OVERRIDE", value)
    assert refused(config_path).startswith("PYKRAFT_OVERRIDE: ")
