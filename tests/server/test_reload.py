"""The socket by which a node on this machine is told to look at its files, and what it answers."""

import asyncio
import logging
import socket
import stat
from pathlib import Path

import pytest

from pykraft.errors import PykraftError, UsageError
from pykraft.security.files import FileReport, FileState
from pykraft.server.reload import SOCKET_NAME, ReloadSocket, ask_to_reload
from pykraft.types import NodeId

REPORT = FileReport(what="rules", files=(Path("acls"),), state=FileState.REFUSED, problem="line 1: no")


def reload_socket(directory: Path, *, answers: bool = True) -> ReloadSocket:
    loop = asyncio.get_running_loop()

    def reload() -> asyncio.Future[list[FileReport]]:
        future: asyncio.Future[list[FileReport]] = loop.create_future()
        if answers:
            future.set_result([REPORT])
        else:
            future.cancel()
        return future

    return ReloadSocket(loop, directory, NodeId(7), reload)


@pytest.mark.parametrize("name", ["n", "x" * 120])
async def test_whoever_connects_hears_what_became_of_the_files(tmp_path: Path, name: str) -> None:
    directory = tmp_path / name
    directory.mkdir()
    made = reload_socket(directory)
    assert stat.S_IMODE((directory / SOCKET_NAME).stat().st_mode) == 0o600
    wanted = {"what": "rules", "files": ["acls"], "state": "refused", "problem": "line 1: no"}
    for _ in range(2):
        assert await asyncio.to_thread(ask_to_reload, directory) == {"nodeId": 7, "files": [wanted]}
    made.close()
    made.close()
    assert list(directory.iterdir()) == []


async def test_what_a_killed_node_left_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as former:
        former.bind(str(tmp_path / SOCKET_NAME))
    with pytest.raises(UsageError, match="no node runs here"):
        ask_to_reload(tmp_path)
    made = reload_socket(tmp_path)
    assert (await asyncio.to_thread(ask_to_reload, tmp_path))["nodeId"] == 7
    made.close()


async def test_a_node_that_ends_answers_nobody(tmp_path: Path) -> None:
    made = reload_socket(tmp_path, answers=False)
    with pytest.raises(PykraftError, match="ended before it answered"):
        await asyncio.to_thread(ask_to_reload, tmp_path)
    made.close()


def test_a_node_that_does_not_answer_is_waited_for_so_long(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / SOCKET_NAME))
        silent.listen()
        with pytest.raises(PykraftError, match=r"did not answer within 0\.01 seconds"):
            ask_to_reload(tmp_path, timeout_s=0.01)


async def test_a_directory_that_can_have_no_socket_costs_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / SOCKET_NAME).mkdir()
    with caplog.at_level(logging.WARNING, logger="pykraft"):
        reload_socket(tmp_path).close()
    assert "pykraft quorum reload will not reach this node" in caplog.text


def test_without_a_node_or_a_folder_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no node runs here"):
        ask_to_reload(tmp_path)
    with pytest.raises(UsageError, match="Not a directory"):
        ask_to_reload(Path(__file__))
