"""`pykraft pipeline`: from a log to tables and metrics on the command line; wrong input is one line and a status."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.request import urlopen
from zipfile import ZipFile

import click
import pytest
from click.testing import CliRunner

from pykraft.cli.errors import exit_code
from pykraft.cli.main import main
from pykraft.cli.pipeline.command import _watch, connection_options, metrics_option, served_metrics
from pykraft.errors import AddressInUseError, ConfigError, UsageError
from pykraft.security.contexts import Side
from pykraft.spark.pipeline.stream_metrics import StreamMetrics
from pykraft.spark.tables.names import BRONZE
from pykraft.types import Endpoint
from tests.security.credentials import context, properties
from tests.spark.logs import three_batches, write_segment

if TYPE_CHECKING:  # it needs Spark, and this module does not
    from pykraft.spark.pipeline.run import KeptQuery

TIMEOUT_S = 280


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    """The exit status of `pykraft pipeline` in this process."""
    monkeypatch.setattr(sys, "argv", ["pykraft", "pipeline", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def start(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`pykraft pipeline` in a process of its own, since a session belongs to one."""
    command = [sys.executable, "-m", "pykraft", "pipeline", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "--tables", "t"], "either --bootstrap-controller or --path"),
        (["run", "--tables", "t", "--path", "p", "--bootstrap-controller", "a:1"], "either --bootstrap-controller"),
        (["run", "--tables", "t", "--path", "p", "--from", "first"], "--from 'first': it must be earliest"),
        (["run", "--tables", "t", "--bootstrap-controller", "a"], "host:port"),
        (
            ["run", "--tables", "t", "--bootstrap-controller", "a:1", "--command-config", "absent"],
            "absent: No such file",
        ),
        (["run", "--tables", "t", "--path", "p", "--master", "cluster"], "--master cluster: it must be local[CORES]"),
        (["run", "--tables", "t", "--path", "p", "--conf", "memory"], "--conf memory: it must be a property of Spark"),
        (["run", "--tables", "t", "--path", "p", "--conf", "a=b"], "--conf a=b: it must be a property of Spark"),
        (["run", "--tables", "t", "--path", "p"], "p: no segment files; give partition directories"),
        (["run", "--tables", "t", "--path", "p", "--metrics-port", "a:b"], "--metrics-port 'a:b': give a port, or one"),
        (["run", "--path", "p"], "--tables is missing; see pykraft pipeline run --help"),
        (["status", "--tables", "t"], "no pipeline has written there"),
        (["report", "--tables", "t"], "no pipeline has written there"),
        (["report", "--tables", "t", "--beside", "."], "--beside shows two runs on a page: give --html, too"),
        (["upkeep", "--tables", "absent"], "--tables absent: No such file or directory: give the folder that"),
        (["upkeep", "--tables", "."], "there are no tables; pykraft pipeline run creates them"),
        (["upkeep", "--tables", ".", "--retention-hours", "24"], "--retention-hours 24: a query that began earlier"),
        (["upkeep", "--tables", ".", "--target-size", "0"], "--target-size 0: give a whole number of at least 1"),
    ],
)
def test_wrong_input_is_one_line_and_status_2(
    arguments: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, *arguments) == 2
    error = capsys.readouterr().err
    assert told in error
    assert "Traceback" not in error
    assert not (tmp_path / "t").exists()


def test_the_package_travels_as_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, "package", str(tmp_path / "pykraft.zip")) == 0
    assert "pykraft/spark/source.py" in ZipFile(tmp_path / "pykraft.zip").namelist()
    (tmp_path / "file").touch()
    assert run(monkeypatch, "package", str(tmp_path / "file" / "pykraft.zip")) == 2


class EndingQuery:
    """A query that was restarted, wrote two micro-batches, and ends when it is waited for the second time."""

    restarts = 1
    newest: Mapping[str, Any] | None = None

    def __init__(self) -> None:
        self._waits = 0

    def wait(self, timeout_s: float) -> bool:
        del timeout_s
        self._waits += 1
        return self._waits == 2

    def progress(self) -> list[Mapping[str, Any]]:
        told = [self._report(2 * self._waits + number) for number in (0, 1)]
        self.newest = {**self._report(2 * self._waits + 2), "numInputRows": 0}
        return told

    def _report(self, number: int) -> Mapping[str, Any]:
        end = json.dumps({"cluster": "c", "offset": 10 * number})
        return {
            "batchId": number,
            "timestamp": str(number),
            "numInputRows": 3,
            "durationMs": {"triggerExecution": 7},
            "sources": [{"endOffset": end, "latestOffset": json.dumps({"offset": 60})}],
        }


def test_what_is_told_is_also_measured(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = StreamMetrics("q")
    _watch(cast("KeptQuery", EndingQuery()), metrics, as_json=True)
    said = capsys.readouterr()
    assert [json.loads(line)["batch_id"] for line in said.out.splitlines()] == [2, 3, 4, 5]
    assert "written: 12 batches in 6 micro-batches" in said.err
    assert said.err.count("the query was restarted") == 1
    measured = metrics.render().decode()
    assert 'pykraft_stream_batch_id{query="q"} 5.0\n' in measured
    assert 'pykraft_stream_reached_offset{query="q",replica=""} 60.0\n' in measured, "the idle report is newer"
    assert 'pykraft_stream_restarts_total{query="q"} 1.0\n' in measured


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_log_becomes_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = str(tmp_path / "tables")
    segment = write_segment(tmp_path / "n1" / "p-0", b"".join(three_batches()))
    done = start("run", "--tables", tables, "--path", str(segment.parent), "--json")
    assert done.returncode == 0, done.stderr
    (line,) = (json.loads(each) for each in done.stdout.splitlines())
    assert (line["batch_id"], line["batches"]) == (0, 3)
    assert "written: 3 batches in 1 micro-batch\n" in done.stderr
    assert run(monkeypatch, "status", "--tables", tables, "--json") == 0
    assert json.loads(capsys.readouterr().out)["tables"]["silver_records"]["rows"] == 6
    assert run(monkeypatch, "status", "--tables", tables) == 0
    assert "silver_records" in capsys.readouterr().out


@pytest.mark.spark
def test_upkeep_reports_what_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.spark.tables.files import make_table

    make_table(tmp_path / BRONZE, appends=3)
    assert run(monkeypatch, "upkeep", "--tables", str(tmp_path)) == 0
    out = capsys.readouterr().out
    assert BRONZE in out
    assert "files before" in out
    words = ["upkeep", "--tables", str(tmp_path), "--retention-hours", "0", "--allow-short-retention", "--json"]
    assert run(monkeypatch, *words) == 0
    told = json.loads(capsys.readouterr().out)["tables"][BRONZE]
    assert told == {"files_before": 1, "files": 1, "rewritten_bytes": 0, "deleted_files": 3}


ANSWER_TIMEOUT_S = 10.0


@click.command()
@metrics_option
def command(*, metrics_at: Endpoint | None) -> None:
    """Print the address."""
    click.echo(str(metrics_at))


@pytest.mark.parametrize(
    ("words", "told"),
    [((), "None"), (("--metrics-port", "0"), "localhost:0"), (("--metrics-port", "[::]:9404"), "[::]:9404")],
)
def test_metrics_are_for_this_machine_unless_a_host_is_named(words: tuple[str, ...], told: str) -> None:
    assert CliRunner().invoke(command, words).output == f"{told}\n"


def test_a_free_port_is_told_and_serves_what_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    with served_metrics(Endpoint("localhost", 0)) as metrics:
        said = capsys.readouterr()
        assert said.out == "", "standard output is for results"
        url = said.err.removeprefix("metrics are at ").strip()
        metrics.note_restarts(3)
        with urlopen(url, timeout=ANSWER_TIMEOUT_S) as answer:  # noqa: S310 - it is what was told
            assert b'\npykraft_stream_restarts_total{query="pykraft pipeline"} 3.0\n' in answer.read()


def test_metrics_are_protected_as_a_nodes_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = {f"listener.name.prometheus.{key}": value for key, value in properties(tmp_path / "c").items()}
    config = tmp_path / "tool.properties"
    lines = [f"{key}={value}" for key, value in own.items()]
    config.write_text("\n".join(["listener.security.protocol.map=PROMETHEUS:SSL", *lines]))
    assert connection_options(config) == {}
    with served_metrics(Endpoint("localhost", 0), config):
        url = capsys.readouterr().err.removeprefix("metrics are at ").strip()
        assert url.startswith("https://")
        known = context({key.removeprefix("listener.name.prometheus."): own[key] for key in own}, Side.CLIENT).current
        with urlopen(url, timeout=ANSWER_TIMEOUT_S, context=known) as answer:  # noqa: S310 - it is what was told
            assert b"pykraft_stream_restarts_total" in answer.read()
        stranger = ssl.create_default_context(cafile=own["listener.name.prometheus.ssl.truststore.location"])
        with pytest.raises(OSError, match=r"certificate.required|reset|EOF|closed"):
            urlopen(url, timeout=ANSWER_TIMEOUT_S, context=stranger)  # noqa: S310 - as above
        with pytest.raises(OSError, match=r"reset|closed|without response|Connection"):
            urlopen(url.replace("https", "http"), timeout=ANSWER_TIMEOUT_S)  # noqa: S310 - as above


def test_a_certificate_that_cannot_be_used_is_named_with_the_line(tmp_path: Path) -> None:
    config = tmp_path / "tool.properties"
    config.write_text(f"listener.security.protocol.map=PROMETHEUS:SSL\nssl.keystore.location={tmp_path}/absent\n")
    with (
        pytest.raises(ConfigError, match=r"tool\.properties: line 2: property ssl\.keystore\.location = "),
        served_metrics(Endpoint("localhost", 0), config),
    ):
        pytest.fail("the block is not entered")


def test_without_the_option_nothing_is_served(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with served_metrics(None) as metrics:
        metrics.note_restarts(1)
    assert capsys.readouterr().err == ""


def test_a_port_in_use_is_one_line_that_may_be_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = Endpoint("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(AddressInUseError) as caught, served_metrics(at):
            pytest.fail("the block is not entered")
    told = f"--metrics-port = '{at}': cannot be bound: address already in use: stop the process that listens there"
    assert str(caught.value).startswith(told)
    assert exit_code(caught.value) == 1


def test_an_address_of_another_machine_is_a_wrong_argument() -> None:
    told = "^--metrics-port = '192[.]0[.]2[.]1:0': cannot be bound: "
    with pytest.raises(ConfigError, match=told) as caught, served_metrics(Endpoint("192.0.2.1", 0)):
        pytest.fail("the block is not entered")
    assert exit_code(caught.value) == 2


def test_without_the_client_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    told = r"^--metrics-port needs prometheus-client, which is not installed: pip install 'pykraft\[metrics\]'$"
    with pytest.raises(UsageError, match=told), served_metrics(Endpoint("localhost", 0)):
        pytest.fail("the block is not entered")
