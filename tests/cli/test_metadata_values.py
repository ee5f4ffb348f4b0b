"""Values of the metadata log: text without secrets and control characters, whole JSON, or bytes with a note."""

from pathlib import Path

import pytest

from pykraft.cli.metadata_values import is_metadata_file, metadata_json, metadata_payload, metadata_text
from tests.protocol.metadata.records import encoded

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
