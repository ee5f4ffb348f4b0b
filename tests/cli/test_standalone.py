"""The server under the names of Kafka's scripts: a wrong command line prints the usage, every failure exits with 1."""

from pathlib import Path

import pytest

from pykraft import __version__
from pykraft.cli.standalone import run
from pykraft.errors import StorageError
from pykraft.server import run as server_run
from pykraft.server.workload import Load

NAME = "test-kraft-server-start.sh"
PROPERTIES = """
node.id=1
listeners=PLAINTEXT://localhost:9092
controller.quorum.voters=1@localhost:9092
log.dirs=data
"""


@pytest.fixture
def config_path(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(PROPERTIES)
    return path


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "the configuration file is missing: give --config FILE"),
        (["--config"], "requires an argument"),
        (["--confg", "x"], "no such option --confg; did you mean --config?"),
        (["a", "b"], "unexpected extra argument"),
        (["--config", "a", "--throughput", "many"], "--throughput many: give a whole number"),
    ],
)
def test_a_wrong_command_line_prints_the_usage(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(NAME, words) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"Usage: {NAME} ")
    assert "--throughput" in said.err
    last = said.err.splitlines()[-1]
    assert last.startswith(f"{NAME}: ")
    assert says.replace("'", "") in last.replace("'", "")


def test_a_wrong_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(NAME, [str(tmp_path / "absent")]) == 1
    assert (
        capsys.readouterr().err
        == f"{NAME}: --config {tmp_path / 'absent'}: No such file or directory: give the path of a properties file\n"
    )


@pytest.mark.parametrize("error", [StorageError("disk", "full"), PermissionError(13, "Permission denied")])
def test_whatever_fails_is_one(
    error: Exception, config_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(server_run, "serve", fail)
    assert run(NAME, ["--config", str(config_path)]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == f"{NAME}: {error}"


def test_what_ends_well_is_zero(
    config_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server_run, "serve", lambda *_: None)
    assert run(NAME, ["--config", str(config_path)]) == 0
    assert run(NAME, ["--version"]) == 0
    assert capsys.readouterr().out == f"{__version__}\n"
    assert run(NAME, ["--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: {NAME} ")


def test_a_load_is_written_as_kafkas_test_server_does(config_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[Load | None] = []
    monkeypatch.setattr(server_run, "serve", lambda _, options: loads.append(options.load))
    for words in ([], ["--record-size", "100"], ["--throughput", "7"], ["--no-workload"]):
        assert run(NAME, ["--config", str(config_path), *words]) == 0
    assert loads == [
        Load(records_per_s=5_000, record_size_bytes=256),
        Load(records_per_s=5_000, record_size_bytes=100),
        Load(records_per_s=7, record_size_bytes=256),
        None,
    ]
