"""Wrong values are refused with the option, the value and what to give; ``--json`` means the same for every command."""

import os
import re
from pathlib import Path

import click
import pytest

from pykraft.cli.parsing.value import (
    ExistingPath,
    NewFile,
    NewFolder,
    NumberType,
    OneOf,
    WrongValueError,
    any_of,
    listen_address,
    several_of,
)
from pykraft.errors import UsageError
from pykraft.object_storage.uris import UriPath
from pykraft.types import Endpoint
from tests.cli.command_tree import leaves

OPTION = click.Option(["-o", "--option"])
ARGUMENT = click.Argument(["file"])


@pytest.mark.parametrize(
    ("number", "text", "told"),
    [
        (NumberType(), "x", "--option x: give a whole number"),
        (NumberType(), "1.5", "--option 1.5: give a whole number"),
        (NumberType(float), "x", "--option x: give a number"),
        (NumberType(int, 1), "0", "--option 0: give a whole number of at least 1"),
        (NumberType(int, 1, 3), "4", "--option 4: give a whole number from 1 to 3"),
        (NumberType(int, 1, 3), "many", "--option many: give a whole number from 1 to 3"),
        (NumberType(float, 0.1, 3600.0), "1e9", "--option 1e9: give a number from 0.1 to 3600"),
        (NumberType(float, 0.1, 3600.0), "nan", "--option nan: give a number from 0.1 to 3600"),
    ],
)
def test_a_number_is_within_its_bounds(number: NumberType, text: str, told: str) -> None:
    with pytest.raises(WrongValueError) as caught:
        number.convert(text, OPTION, None)
    assert caught.value.format_message() == told


def test_numbers_on_the_bounds_are_taken() -> None:
    assert [NumberType(int, 1, 3).convert(text, None, None) for text in ("1", "3")] == [1, 3]
    assert NumberType(float, 0.5).convert("0.5", None, None) == 0.5


@pytest.mark.parametrize(
    ("kind", "name", "told"),
    [
        (ExistingPath("give it"), "absent", "No such file or directory: give it"),
        (ExistingPath("give it"), "folder", "Is a directory: give it"),
        (ExistingPath("give it"), "file/below", "Not a directory: give it"),
        (ExistingPath("give it", is_folder=True), "file", "Not a directory: give it"),
        (ExistingPath("give it", is_folder=True), "absent", "No such file or directory: give it"),
    ],
)
def test_a_path_exists_and_is_of_the_right_kind(tmp_path: Path, kind: ExistingPath, name: str, told: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    path = str(tmp_path / name)
    for param, prefix in ((ARGUMENT, ""), (OPTION, "--option ")):
        with pytest.raises(WrongValueError) as caught:
            kind.convert(path, param, None)
        assert caught.value.format_message() == f"{prefix}{path}: {told}"


def test_a_path_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ExistingPath("give it", is_folder=True).convert(str(tmp_path), None, None) == tmp_path
    monkeypatch.setattr(os, "access", lambda *_: False)  # whoever runs the tests may be allowed everything
    with pytest.raises(WrongValueError, match="Permission denied"):
        ExistingPath("give it", is_folder=True).convert(str(tmp_path), None, None)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("absent/file", "there is no folder {}/absent; make it first"),
        ("file/below", "there is no folder {}/file; make it first"),
        ("folder", "Is a directory; give a file"),
    ],
)
def test_a_file_is_written_into_a_folder_that_exists(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    path = str(tmp_path / name)
    with pytest.raises(WrongValueError) as caught:
        NewFile().convert(path, OPTION, None)
    assert caught.value.format_message() == f"--option {path}: {told.format(tmp_path)}"
    assert not (tmp_path / "absent").exists()
    for taken in ("file", "new"):
        assert NewFile().convert(str(tmp_path / taken), OPTION, None) == tmp_path / taken


def test_a_folder_may_be_new_but_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WrongValueError, match="Not a directory"):
        NewFolder().convert(str(tmp_path / "file"), OPTION, None)
    for taken in (tmp_path, tmp_path / "a" / "b"):
        assert NewFolder().convert(str(taken), OPTION, None) == taken


def test_the_shell_completes_files_and_folders() -> None:
    context = click.Context(click.Command("x"))
    kinds = [ExistingPath("give it"), NewFile(), ExistingPath("give it", is_folder=True), NewFolder()]
    offered = [item.type for kind in kinds for item in kind.shell_complete(context, OPTION, "a")]
    assert offered == ["file", "file", "dir", "dir"]


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_uri_is_taken_where_it_can_be_read_and_looked_up_later(is_folder: bool) -> None:
    there = ExistingPath("give it", is_folder=is_folder, may_be_uri=True).convert("s3://bucket/n1", None, None)
    assert (type(there), str(there)) == (UriPath, "s3://bucket/n1")
    with pytest.raises(WrongValueError, match="No such file or directory: give it"):
        ExistingPath("give it", is_folder=is_folder).convert("s3://bucket/n1", None, None)


def test_a_file_uri_is_a_path(tmp_path: Path) -> None:
    kind = ExistingPath("give it", is_folder=True, may_be_uri=True)
    assert kind.convert(f"file://{tmp_path}", None, None) == tmp_path


def test_a_folder_to_write_is_not_a_uri_and_its_key_is_not_repeated() -> None:
    with pytest.raises(WrongValueError, match="a URI: these files are written on disks only; give a folder") as raised:
        NewFolder().convert("s3://key:SECRET@bucket/n1", OPTION, None)
    assert "SECRET" not in raised.value.format_message()


def test_a_folder_of_tables_may_be_a_uri_without_a_key(tmp_path: Path) -> None:
    kind = NewFolder(may_be_uri=True)
    there = kind.convert("s3://bucket/tables", OPTION, None)
    assert (type(there), str(there)) == (UriPath, "s3://bucket/tables")
    assert kind.convert(f"file://{tmp_path}", OPTION, None) == tmp_path
    with pytest.raises(UsageError, match="give no key") as raised:
        kind.convert("s3://key:SECRET@bucket/n1", OPTION, None)
    assert "SECRET" not in str(raised.value)


NAMES = ("kill", "kill-all", "pause")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("", ["kill", "kill-all", "pause"]),
        ("ki", ["kill", "kill-all"]),
        ("pause,", ["pause,kill", "pause,kill-all"]),
        ("pause,kill,k", ["pause,kill,kill-all"]),
        ("pause,x", []),
    ],
)
def test_the_last_of_several_names_is_completed(typed: str, offered: list[str]) -> None:
    option = click.Option(["--only"], shell_complete=several_of(lambda: NAMES))
    assert [item.value for item in option.shell_complete(click.Context(click.Command("x")), typed)] == offered


def test_one_name_is_completed() -> None:
    option = click.Option(["--only"], shell_complete=any_of(lambda: NAMES))
    assert [item.value for item in option.shell_complete(click.Context(click.Command("x")), "p")] == ["pause"]


def test_a_word_that_is_not_similar_gets_the_list_alone() -> None:
    with pytest.raises(click.BadParameter, match=r"^x: give one of kill, kill-all, pause$"):
        OneOf(NAMES).convert("x", None, None)
    with pytest.raises(click.BadParameter, match=r"; did you mean pause\?$"):
        OneOf(NAMES).convert("pase", None, None)


WITHOUT = {
    "pykraft certs": "writes files",
    "pykraft completion": "prints a script",
    "pykraft kv serve": "runs until it is stopped",
    "pykraft new": "writes files",
    "pykraft local down": "prints what it stopped",
    "pykraft pipeline package": "writes a file",
    "pykraft server": "runs until it is stopped",
    "pykraft users add": "writes a file",
    "pykraft users remove": "writes a file",
}
"""Commands without a result that a program would read."""


def test_every_command_with_a_result_has_the_same_flag() -> None:
    without = set()
    for name, command in leaves():
        found = [each for each in command.params if isinstance(each, click.Option) and "--json" in each.opts]
        if not found:
            without.add(name)
            continue
        [option] = found
        assert option.is_flag, name
        assert option.name == "as_json", name
        told = option.help or ""
        assert told.startswith("Print "), name
        assert "JSON" in told, name
    assert without == set(WITHOUT)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("a:80", "a", 80), ("a:0", "a", 0), ("[::1]:81", "::1", 81), ("192.0.2.1:65535", "192.0.2.1", 65_535)],
)
def test_an_address_has_a_host_and_a_port(text: str, host: str, port: int) -> None:
    assert listen_address("--at", text) == listen_address("--at", text, host="localhost") == Endpoint(host, port)


@pytest.mark.parametrize("port", [0, 9404])
def test_a_port_alone_is_that_of_the_known_host(port: int) -> None:
    assert listen_address("--at", str(port), host="localhost") == Endpoint("localhost", port)


@pytest.mark.parametrize(
    "text",
    ["", ":", ":80", "a:", "a:b", "a:65536", "a:-1", "a:1,b:2", "::1:80", "http://a:80", "x", "-1", "65536", "1.5"],
)
@pytest.mark.parametrize("host", [None, "localhost"])
def test_anything_else_is_refused_with_what_to_give(text: str, host: str | None) -> None:
    port = "a port, or " if host else ""
    told = f"--at {text!r}: give {port}one host:port (IPv6 in brackets), with a port from 0 to 65535"
    with pytest.raises(UsageError, match=f"^{re.escape(told)}$"):
        listen_address("--at", text, host=host)


def test_a_port_alone_is_refused_where_no_host_is_known() -> None:
    with pytest.raises(UsageError, match="--at '80': give one host:port"):
        listen_address("--at", "80")
