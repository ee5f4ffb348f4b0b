"""``pykraft quorum add-controller`` and ``remove-controller``: their output, and what they reject before they ask."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pykraft.cli.quorum.command import quorum
from pykraft.cli.storage import storage
from pykraft.errors import QuorumUnavailableError, UsageError
from pykraft.local.ports import free_ports

DIRECTORY_ID = "MrUabWf55NPhe7sFKQnEEg"
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
    assert gone == {"id": 4, "directoryId": DIRECTORY_ID, "dryRun": True}
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
