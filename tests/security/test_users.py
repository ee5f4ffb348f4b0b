"""The file of SCRAM's users: written and read again, and what ``--add-scram`` takes."""

import json
import stat
from pathlib import Path

import pytest

from pykraft.errors import UsageError
from pykraft.security import users
from pykraft.security.exchanges import ITERATIONS_MAX
from pykraft.security.users import NewUser, ScramUsers, parse_new_user, read_users, users_files, write_users
from tests.security.proofs import PASSWORD, sasl_security

SALT = b"a salt of sixteen"


def test_users_are_read_as_written_and_have_no_password(tmp_path: Path) -> None:
    path, known = tmp_path / "folder" / "users.json", ScramUsers()
    NewUser("SCRAM-SHA-256", "alice", PASSWORD).add_to(known)
    NewUser("SCRAM-SHA-256", "bob", PASSWORD, 8_192, SALT).add_to(known)
    NewUser("SCRAM-SHA-512", "bob", PASSWORD).add_to(known)
    write_users(path, known)
    assert read_users(path) == known
    assert known["SCRAM-SHA-256"]["alice"][0] != known["SCRAM-SHA-512"]["bob"][0], "each has a salt of its own"
    assert known["SCRAM-SHA-256"]["bob"][0::3] == (SALT, 8_192)
    assert json.dumps(PASSWORD)[1:-1] not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    write_users(path, {"SCRAM-SHA-256": {}})
    assert (read_users(path), list(path.parent.iterdir())) == ({}, [path])


def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=f"{tmp_path}/file/users.json: "):
        write_users(tmp_path / "file" / "users.json", {})


def test_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "users.json").mkdir()
    with pytest.raises(UsageError):
        write_users(tmp_path / "users.json", {})
    assert [each.name for each in tmp_path.iterdir()] == ["users.json"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "7",
        '{"SCRAM-SHA-256": 7}',
        '{"SCRAM-SHA-256": {"a": {}}}',
        '{"SCRAM-SHA-256": {"a": {"salt": "!", "stored_key": "", "server_key": "", "iterations": 4096}}}',
        '{"SCRAM-SHA-256": {"a": {"salt": "", "stored_key": "", "server_key": "", "iterations": 1}}}',
        '{"SCRAM-SHA-256": {"a": {"salt": "", "stored_key": "", "server_key": "", "iterations": "4096"}}}',
    ],
)
def test_other_content_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "users.json").write_text(content)
    with pytest.raises(ValueError, match="no file that `pykraft users` wrote"):
        read_users(tmp_path / "users.json")


def test_file_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "SIZE_BYTES_MAX", 10)
    (tmp_path / "users.json").write_text(" " * 11)
    with pytest.raises(ValueError, match="more than 10 bytes"):
        read_users(tmp_path / "users.json")


@pytest.mark.parametrize(
    ("text", "user"),
    [
        ("SCRAM-SHA-256=[name=alice,password=a secret]", NewUser("SCRAM-SHA-256", "alice", "a secret")),
        (
            ' SCRAM-SHA-512 = [ name = "al,ice", iterations=8192 ,password="]=", salt="YSBzYWx0IG9mIHNpeHRlZW4="] ',
            NewUser("SCRAM-SHA-512", "al,ice", "]=", 8_192, SALT),
        ),
    ],
)
def test_option_has_kafkas_form(text: str, user: NewUser) -> None:
    assert parse_new_user(text) == user


@pytest.mark.parametrize(
    "text",
    [
        "SCRAM-SHA-1=[name=a,password=s3cret]",
        "SCRAM-SHA-256=name=a,password=s3cret",
        "SCRAM-SHA-256=[name=a]",
        "SCRAM-SHA-256=[password=s3cret]",
        "SCRAM-SHA-256=[name=,password=s3cret]",
        "SCRAM-SHA-256=[name=a,password=]",
        "SCRAM-SHA-256=[name=a,password=s3cret,iterations=1]",
        f"SCRAM-SHA-256=[name=a,password=s3cret,iterations={ITERATIONS_MAX + 1}]",
        "SCRAM-SHA-256=[name=a,password=s3cret,iterations=x]",
        "SCRAM-SHA-256=[name=a,password=s3cret,salt=!]",
        "SCRAM-SHA-256=[name=a,saltedpassword=s3cret,salt=YSBz]",
        'SCRAM-SHA-256=[name=a,password="s3cret]',
    ],
)
def test_other_form_is_refused_without_a_quotation(text: str) -> None:
    with pytest.raises(UsageError, match="--add-scram: ") as caught:
        parse_new_user(text)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(("name", "salt"), [("", SALT), ("a", b"short"), ("a\u0007", SALT)])
def test_what_scram_cannot_keep_is_refused(name: str, salt: bytes) -> None:
    user = NewUser("SCRAM-SHA-256", name, PASSWORD, salt=salt)
    with pytest.raises(UsageError, match="user "):
        user.add_to({})


def test_printed_user_has_no_password() -> None:
    assert PASSWORD not in repr(NewUser("SCRAM-SHA-256", "alice", PASSWORD))


def test_files_of_a_listener(tmp_path: Path) -> None:
    given = {"scram-sha-512__pykraft__scram__users": "/other"}
    found = users_files(sasl_security(tmp_path, "SCRAM-SHA-256", **given))
    assert found == {tmp_path / "users.json", Path("/other")}
