"""No text from outside can move the cursor, every number of a table is whole, and a wait shows on a terminal only.

Values of the metadata log: text without secrets and control characters, whole JSON, or bytes with a note.
"""

import io
import sys
from pathlib import Path

import pytest

from pykraft.cli.metadata_values import is_metadata_file, metadata_json, metadata_payload, metadata_text
from pykraft.cli.printable import WaitingLine, print_table, printable
from tests.protocol.metadata.records import encoded


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"plain", "plain"),
        ("grün €", "grün €"),
        (b"\x1b[2J\n\t", r"\x1b[2J\n\t"),
        (b"\xff\0a", r"\xff\x00a"),
        ("\u202eright to left", r"\u202eright to left"),
        (memoryview(b"view"), "view"),
        (b"", ""),
    ],
)
def test_what_does_not_print_is_escaped(data: bytes | str, shown: str) -> None:
    assert printable(data) == shown


HEADS = ("epoch", "first offset", "begun", "records", "gap before, ms")
ROWS = [
    ("1", "0", "2026-11-22 12:00:00.123", "1,234,567", ""),
    ("12", "1234567", "2026-11-22 12:34:56.789", "98,765,432", "1234"),
]


def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int | None) -> str:
    """What a terminal of this width shows; None: what a pipe gets."""
    if width is None:
        monkeypatch.setenv("COLUMNS", "30")
    else:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", str(width))
    print_table("what the log of [n1] holds", HEADS, ROWS)
    return capsys.readouterr().out


@pytest.mark.parametrize("width", [None, 80, 200])
def test_a_table_that_fits_is_framed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int | None
) -> None:
    text = printed(monkeypatch, capsys, width)
    assert "what the log of [n1] holds" in text
    lines = text.splitlines()
    for row in (HEADS, *ROWS):
        assert len([line for line in lines if all(cell in line for cell in row)]) == 1
    assert "│" in lines[-2]


@pytest.mark.parametrize("width", [20, 40, 60])
def test_a_table_that_does_not_fit_is_a_block_for_each_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    assert printed(monkeypatch, capsys, width).splitlines()[:7] == [
        "what the log of [n1] holds:",
        "epoch: 1",
        "  first offset: 0",
        "  begun: 2026-11-22 12:00:00.123",
        "  records: 1,234,567",
        "epoch: 12",
        "  first offset: 1234567",
    ]


class Screen(io.StringIO):
    """A terminal, or not."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def shown(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> str:
    screen = Screen(is_terminal=is_terminal)
    monkeypatch.setenv("TERM", "xterm")
    for name in ("stderr", "__stderr__"):
        monkeypatch.setattr(sys, name, screen)
    line = WaitingLine()
    line.show(None)
    line.show("a:1: it knows no \x1b leader")
    line.show("b:1: [bold]Connection refused")
    line.show(None)
    return screen.getvalue()


def test_a_terminal_sees_it_as_long_as_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, is_terminal=True)
    assert "waiting for a leader, 0 s: " in text
    assert "b:1: [bold]Connection refused" in " ".join(text.split())
    erase_line = "\x1b[2K"
    assert erase_line in text.rsplit("refused", 1)[1]


def test_a_pipe_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not shown(monkeypatch, is_terminal=False)


def test_without_standard_error_there_is_nobody_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "__stderr__", None)
    WaitingLine().show("a:1: it knows no leader")


SCRAM = {"name": "al\x1bice", "mechanism": 1, "salt": b"s", "stored_key": b"k", "server_key": b"v", "iterations": 4096}


def test_text_has_no_secret_and_moves_no_cursor() -> None:
    value = encoded("USER_SCRAM_CREDENTIAL_RECORD", 0, SCRAM)
    line = (
        "USER_SCRAM_CREDENTIAL_RECORD name=al\\x1bice mechanism=1 salt=*** storedKey=*** serverKey=*** iterations=4096"
    )
    assert metadata_text(value) == line
    assert '"salt":"***","storedKey":"***","serverKey":"***"' in metadata_payload(value)
    assert "\x1b" not in metadata_payload(value)


def test_json_has_everything() -> None:
    shown = metadata_json(encoded("USER_SCRAM_CREDENTIAL_RECORD", 0, SCRAM))
    data = {
        "name": "al\x1bice",
        "mechanism": 1,
        "salt": "cw==",
        "storedKey": "aw==",
        "serverKey": "dg==",
        "iterations": 4096,
    }
    assert shown == {"payload": {"type": "USER_SCRAM_CREDENTIAL_RECORD", "version": 0, "data": data}}


@pytest.mark.parametrize(
    "value", [None, b"", b"\x01", b"\x02\x00\x00", b"\x01\x63\x00", b"\x01\x02\x09", b"\x01\x14\x00\x00\x00"]
)
def test_what_cannot_be_read_is_shown_with_a_note(value: bytes | None) -> None:
    note = "not a metadata record that can be read: "
    assert f"({note}" in metadata_text(value)
    assert metadata_payload(value) == metadata_text(value)
    assert metadata_json(value)["payloadProblem"].startswith(note)
    assert metadata_text(value).startswith("null (" if value is None else "")


@pytest.mark.parametrize(
    ("path", "is_metadata"),
    [
        ("data/__cluster_metadata-0/00000000000000000000.log", True),
        ("data/__cluster_metadata-0.1a2b-delete/00000000000000000000.log", True),
        ("data/bootstrap.checkpoint", True),
        ("data/__raft_performance_test-0/00000000000000000000.log", False),
        ("data/my__cluster_metadata-0/00000000000000000000.log", False),
    ],
)
def test_files_of_the_metadata_log_are_known_by_their_folder(path: str, is_metadata: bool) -> None:
    assert is_metadata_file(Path(path)) is is_metadata


def test_a_file_is_known_from_within_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert is_metadata_file(Path("00000000000000000000.log"))
