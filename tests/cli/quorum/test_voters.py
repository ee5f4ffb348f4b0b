"""``pykraft quorum add-controller`` and ``remove-controller``: their output, and what they reject before they ask."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pykraft.cli.errors import exit_code
from pykraft.cli.quorum import voters as voters_commands
from pykraft.cli.quorum.command import quorum
from pykraft.cli.storage import storage
from pykraft.client.remote.admin import Admin
from pykraft.client.remote.quorum import Quorum
from pykraft.errors import PykraftError, QuorumUnavailableError, UsageError
from pykraft.local.ports import free_ports
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.types import Uuid, uuid_text
from tests.client.quorums import cluster_body, quorum_body
from tests.client.scripted import Script, ScriptedNode

DIRECTORY_ID = "MrUabWf55NPhe7sFKQnEEg"
DIRECTORY_OF_200 = uuid_text(Uuid(bytes(15) + bytes([200])))
NOBODY = ("--bootstrap-controller", "127.0.0.1:1", "--timeout", "1")


def run(*words: object) -> Result:
    return CliRunner().invoke(quorum, [str(word) for word in words])


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "node.properties"
    path.write_text(
        "process.roles=controller\nnode.id=4\nlisteners=CONTROLLER://127.0.0.1:9094,OTHER://127.0.0.1:9095\n"
        f"controller.listener.names=CONTROLLER\nlog.dirs={tmp_path}/data\n"
        "controller.quorum.bootstrap.servers=127.0.0.1:9093\n"
    )
    return path


def formatted(properties: Path) -> None:
    words = ["format", "-c", str(properties), "-t", "cluster", "-N", "--replica-directory-id", DIRECTORY_ID]
    assert CliRunner().invoke(storage, words).exit_code == 0


def test_a_dry_run_asks_nobody(properties: Path) -> None:
    formatted(properties)
    added = run("add-controller", "--dry-run", "--command-config", properties, *NOBODY)
    assert added.stdout == (
        f"DRY RUN of adding controller 4 with directory id {DIRECTORY_ID} and endpoints: CONTROLLER://127.0.0.1:9094\n"
    )
    removed = run("remove-controller", "-i", 4, "-d", DIRECTORY_ID, "--dry-run", *NOBODY)
    assert removed.stdout == f"DRY RUN of removing KRaft controller 4 with directory id {DIRECTORY_ID}\n"
    told = json.loads(run("add-controller", "--dry-run", "--json", "--command-config", properties, *NOBODY).stdout)
    assert told == {"id": 4, "directoryId": DIRECTORY_ID, "endpoints": ["CONTROLLER://127.0.0.1:9094"], "dryRun": True}
    gone = json.loads(run("remove-controller", "-i", 4, "-d", DIRECTORY_ID, "--dry-run", "--json", *NOBODY).stdout)
    assert gone == {"id": 4, "directoryId": DIRECTORY_ID, "dryRun": True, "joinedAgain": False}
    both = ("remove-controller", "-i", 4, "-d", DIRECTORY_ID, "--unregister", "--dry-run", *NOBODY)
    assert run(*both).stdout == f"{removed.stdout}DRY RUN of unregistering controller 4\n"
    assert json.loads(run(*both, "--json").stdout) == gone | {"unregistered": True}


def test_a_node_is_added_only_once_it_has_an_identity(properties: Path, tmp_path: Path) -> None:
    missing = run("add-controller", "--command-config", properties, *NOBODY)
    assert isinstance(missing.exception, UsageError)
    assert "does not exist: start the node once" in str(missing.exception)
    formatted(properties)
    meta = tmp_path / "data/meta.properties"
    meta.write_text(meta.read_text().replace("node.id=4", "node.id=5"))
    other = run("add-controller", "--command-config", properties, *NOBODY)
    assert "belongs to node 5" in str(other.exception)
    meta.write_text("version=1\nnode.id=4\ncluster.id=cluster\n")
    nameless = run("add-controller", "--command-config", properties, *NOBODY)
    assert "has no directory.id" in str(nameless.exception)


def removed(*again: bool, words: Sequence[str] = ()) -> tuple[Result, int]:
    """Remove voter 200 of a quorum that then describes it as a voter, or not; and how often that was asked for."""
    answers = iter(again)

    async def main() -> tuple[Result, int]:
        def describe(_: Body) -> Body:
            return quorum_body(1, (1, 200) if next(answers, again[-1]) else (1,))

        scripts: dict[ApiKey, Script] = {
            ApiKey.DESCRIBE_CLUSTER: lambda _: cluster_body(1, {1: node.endpoint}),
            ApiKey.REMOVE_RAFT_VOTER: lambda _: {"error_code": 0, "error_message": None},
            ApiKey.DESCRIBE_QUORUM: describe,
        }
        node = ScriptedNode(scripts)
        async with node:
            bootstrap = ("--bootstrap-controller", str(node.endpoint), "--timeout", "3")
            result = await asyncio.to_thread(
                run, "remove-controller", "-i", 200, "-d", DIRECTORY_OF_200, *bootstrap, *words
            )
        return result, len(node.requests(ApiKey.DESCRIBE_QUORUM))

    return asyncio.run(main())


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voters_commands, "WATCH_PAUSE_S", 0.001)


@pytest.mark.usefixtures("quick")
def test_a_node_that_joins_by_itself_is_not_simply_removed() -> None:
    result, asked = removed(False, True)
    assert result.stdout == f"Removed KRaft controller 200 with directory id {DIRECTORY_OF_200}\n"
    assert type(result.exception) is PykraftError
    assert exit_code(result.exception) == 1
    assert "controller 200 was removed and is a voter again" in str(result.exception)
    assert "stop it before" in str(result.exception)
    assert asked == 2
    # It is not unregistered either.
    result, _ = removed(True, words=("--json", "--unregister"))
    assert json.loads(result.stdout) == {
        "id": 200,
        "directoryId": DIRECTORY_OF_200,
        "dryRun": False,
        "joinedAgain": True,
    }
    assert type(result.exception) is PykraftError


@pytest.mark.usefixtures("quick")
def test_a_node_that_stays_away_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voters_commands, "WATCH_S", 0.05)
    result, asked = removed(False, words=("--json",))
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout)["joinedAgain"] is False
    assert asked >= 1


@pytest.mark.usefixtures("quick")
def test_a_quorum_that_is_gone_cannot_tell_who_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unavailable(*_: object) -> Quorum:
        raise QuorumUnavailableError("no node answers")

    monkeypatch.setattr(Admin, "describe_quorum", unavailable)
    result, _ = removed(False)
    assert result.exit_code == 0
    assert "nobody can tell whether the node joins again: no node answers" in result.stderr


def test_what_is_missing_is_named() -> None:
    assert "give --command-config" in str(run("add-controller", *NOBODY).exception)
    assert run("remove-controller", "-i", -1, "-d", DIRECTORY_ID, *NOBODY).exit_code == 2
    short = run("remove-controller", "-i", 1, "-d", "short", *NOBODY)
    assert isinstance(short.exception, UsageError)
    assert str(short.exception).startswith("--controller-directory-id 'short' is not a Kafka UUID")


def test_nobody_answers(properties: Path) -> None:
    [port] = free_ports(1)
    formatted(properties)
    nobody = ("--bootstrap-controller", f"127.0.0.1:{port}", "--timeout", "1")
    for words in (
        ("add-controller", "--command-config", properties),
        ("remove-controller", "-i", 4, "-d", DIRECTORY_ID),
    ):
        assert isinstance(run(*words, *nobody).exception, QuorumUnavailableError)
