"""What commands print fits a terminal of 40, 80 and 120 columns: no word is broken, and each number is whole.

A word that is longer than the terminal, such as a path, stays whole; Kafka's own formats are as Kafka prints them.
"""

import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from rich.console import Console

from pykraft.cli.local import headline
from pykraft.cli.printable import print_lines
from pykraft.cli.quorum import overview
from pykraft.cli.sim.run import BAR_WIDTH_MIN, sim
from pykraft.cli.verify import verify
from pykraft.cli.version import version
from pykraft.client.remote.quorum import Health, QuorumVerdict
from tests.cli.sim_worlds import live
from tests.log.data_directory import flip, make_node, segments

WIDTHS = (40, 80, 120)


class Terminal(io.StringIO):
    """A terminal in memory."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A damaged partition directory with a file that is left over."""
    made = make_node(tmp_path / "data")
    flip(segments(made)[1], 80)
    (made / "quorum-state.tmp").write_bytes(b"")
    return made


@pytest.fixture(params=WIDTHS)
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    columns: int = request.param
    monkeypatch.setenv("COLUMNS", str(columns))
    return columns


def printed(monkeypatch: pytest.MonkeyPatch, command: click.Command, *words: str) -> str:
    with monkeypatch.context() as patch:
        terminal = Terminal()
        patch.setattr("sys.stdout", terminal)
        with pytest.raises(SystemExit):
            command.main([*words], prog_name="pykraft")
        return terminal.getvalue()


def check(text: str, wide: str, width: int) -> None:
    """It fits, but for words that are longer, and has every word and number of the wide one."""
    for line in text.splitlines():
        assert len(line) <= width or len(line.split()) <= 2, line
    words, whole = (sorted(set(re.findall(r"[^\s:]+", each))) for each in (text, wide))
    assert words == whole


def test_verify(node: Path, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(monkeypatch, verify, str(node))
    monkeypatch.setenv("COLUMNS", "2000")
    wide = printed(monkeypatch, verify, str(node))
    check(text, wide, width)
    assert len(wide.splitlines()) < len(text.splitlines())


def test_version(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"executable": "/usr/bin/python3", "platform": "Linux", "python": "CPython 3.11", "version": "1.0"}
    monkeypatch.setattr("sys.executable", facts["executable"])
    monkeypatch.setattr("platform.platform", lambda: facts["platform"])
    text = printed(monkeypatch, version, "--verbose")
    monkeypatch.setenv("COLUMNS", "2000")
    check(text, printed(monkeypatch, version, "--verbose"), width)
    assert "pykraft.client.listeners" in text


def test_sim_run(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykraft.cli.sim.run.simulate_all", lambda seeds, **_: [live(seed) for seed in seeds])
    monkeypatch.setattr("pykraft.cli.sim.run.time", SimpleNamespace(monotonic=lambda: 0.0))
    text = printed(monkeypatch, sim, "run", "--seeds", "3", "--coverage")
    monkeypatch.setenv("COLUMNS", "2000")
    check(text, printed(monkeypatch, sim, "run", "--seeds", "3", "--coverage"), max(width, 100))
    assert any(line.startswith("PASSED: 3 seeds") for line in text.splitlines())


def test_the_bar_of_sim_run_cuts_no_number(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("pykraft.cli.sim.run.simulate_all", lambda seeds, **_: [live(seed) for seed in seeds])
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setattr("sys.__stderr__", shown)
    printed(monkeypatch, sim, "run", "--seeds", "3")
    assert "3/3" in shown.getvalue()
    assert "…" not in shown.getvalue()
    assert ("seeds/s" in shown.getvalue()) is (width >= BAR_WIDTH_MIN)


def test_headlines(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    nodes = [SimpleNamespace(pid=1)] * 3
    found: Any = SimpleNamespace(nodes=nodes, leader_id=1, epoch=12, high_watermark=1_234_567)
    told = headline(found)
    monkeypatch.setattr("sys.stdout", terminal)
    print_lines([told])
    check(terminal.getvalue(), told, width)


def test_a_verdict(width: int) -> None:
    told = "voter 2 at localhost:20102: connection refused, for 14 s; voter 3 at localhost:20103: no answer"
    console = Console(file=Terminal(), force_terminal=True, width=width, no_color=True)
    picture = overview._picture(console, QuorumVerdict(health=Health.NO_LEADER, detail=told), None)
    check(picture.plain, f"{Health.NO_LEADER.value}: {told}", width)
