"""`pykraft pipeline run --metrics-port`: where metrics are served, and what is said if that cannot be."""

from __future__ import annotations

import socket
import sys
from urllib.request import urlopen

import click
import pytest
from click.testing import CliRunner

from pykraft.cli.errors import exit_code
from pykraft.cli.pipeline.command import metrics_option, served_metrics
from pykraft.errors import AddressInUseError, ConfigError, UsageError
from pykraft.types import Endpoint

TIMEOUT_S = 10.0


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
        with urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310 - it is what was told
            assert b'\npykraft_stream_restarts_total{query="pykraft pipeline"} 3.0\n' in answer.read()


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
