"""`pykraft quorum`: the options, output and JSON of each verb, and what it rejects before it asks."""

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pykraft.cli.errors import exit_code
from pykraft.cli.quorum import command as voters_commands
from pykraft.cli.quorum.command import quorum
from pykraft.cli.storage import storage
from pykraft.client.remote.admin import Admin
from pykraft.client.remote.quorum import Quorum
from pykraft.errors import ErrorCode, PykraftError, QuorumUnavailableError, RefusedError, UsageError
from pykraft.local.voters import HOST, free_ports
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body, Versions
from pykraft.rpc.api_versions import api_key_bodies
from pykraft.security.files import FileReport, FileState
from pykraft.server.reload import ReloadSocket
from pykraft.types import Endpoint, NodeId, Uuid, uuid_text
from tests.client.quorums import CLUSTER_ID, cluster_body, quorum_body
from tests.client.scripted import Script, ScriptedNode


@contextmanager
def served(*, listed: slice = slice(3)) -> Iterator[Endpoint]:
    """A quorum of one scripted node, on a thread and loop of its own; ``listed`` voters have known listeners."""
    started = threading.Event()
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()
    body = quorum_body(2)
    scripts: dict[ApiKey, Script] = {
        ApiKey.DESCRIBE_CLUSTER: lambda _: cluster_body(2, {2: node.endpoint}),
        ApiKey.DESCRIBE_QUORUM: lambda _: {**body, "nodes": body["nodes"][listed]},
    }
    node = ScriptedNode(scripts)

    async def main() -> None:
        async with node:
            started.set()
            await ended.wait()

    def serve() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(main())

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert started.wait(10)
        yield node.endpoint
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()


def call(*arguments: str) -> Result:
    return CliRunner().invoke(quorum, arguments)


def test_options_may_stand_before_or_after_the_verb() -> None:
    with served() as endpoint:
        before = call("--bootstrap-controller", str(endpoint), "--timeout", "5", "describe", "--status")
        after = call("describe", "--status", "--bootstrap-controller", str(endpoint), "--timeout", "5")
        assert before.exit_code == after.exit_code == 0
        assert before.output == after.output
        assert before.output.splitlines()[:2] == [f"ClusterId:              {CLUSTER_ID}", "LeaderId:               2"]


def test_json_has_the_same_names_and_numbers() -> None:
    with served() as endpoint:
        status = json.loads(call("--bootstrap-controller", str(endpoint), "describe", "--status", "--json").output)
        rows = json.loads(call("--bootstrap-controller", str(endpoint), "describe", "--replication", "--json").output)
        shown = call("--bootstrap-controller", str(endpoint), "describe", "--replication").output
        aged = call("--bootstrap-controller", str(endpoint), "describe", "--replication", "--human-readable").output
    assert (status["clusterId"], status["maxFollowerLag"], status["maxFollowerLagTimeMs"]) == (CLUSTER_ID, 2, 2)
    assert status["currentVoters"][0]["endpoints"] == ["CONTROLLER://[::1]:9001"]
    assert [(each["nodeId"], each["lag"], each["status"]) for each in rows] == [
        (2, 0, "Leader"),
        (1, 0, "Follower"),
        (3, 2, "Follower"),
        (9, 11, "Observer"),
    ]
    assert [line.split("\t")[0].strip() for line in shown.splitlines()] == ["NodeId", "2", "1", "3", "9"]
    assert " ms ago" in aged.splitlines()[1]


def test_without_a_view_the_verdict_comes_first() -> None:
    only_the_leader = slice(1, 2)
    with served(listed=only_the_leader) as endpoint:
        shown = call("--bootstrap-controller", str(endpoint), "describe")
        told = json.loads(call("--bootstrap-controller", str(endpoint), "describe", "--json").output)
    assert shown.output.startswith("healthy: 3 of 3 voters follow leader 2 in epoch 4\n\nClusterId:  ")
    assert shown.output.splitlines()[10].split()[:3] == ["2", "Leader", "[::1]:9002"]
    assert (told["verdict"], told["status"]["leaderId"], told["replication"][3]["nodeId"]) == ("healthy", 2, 9)


WRONG = {
    "ages of a status": ["--bootstrap-controller", "a:1", "describe", "--status", "--human-readable"],
    "ages as JSON": ["--bootstrap-controller", "a:1", "describe", "--replication", "--human-readable", "--json"],
    "a view watched": ["--bootstrap-controller", "a:1", "describe", "--status", "--watch"],
    "nodes twice": ["--bootstrap-controller", "a:1", "describe", "--status", "--bootstrap-controller", "a:1"],
    "both kinds of nodes": ["--bootstrap-controller", "a:1", "--bootstrap-server", "b:1", "describe", "--status"],
}


@pytest.mark.parametrize("arguments", WRONG.values(), ids=WRONG)
def test_wrong_arguments_are_the_callers_mistake(arguments: Sequence[str]) -> None:
    result = call(*arguments)
    assert isinstance(result.exception, UsageError)
    assert "\n" not in str(result.exception)


def test_nobody_there_is_one_line() -> None:
    [port] = free_ports(1)
    result = call("--bootstrap-controller", f"{HOST}:{port}", "describe", "--status")
    assert isinstance(result.exception, QuorumUnavailableError)
    assert str(result.exception) == f"no node answers: {HOST}:{port}: connection refused"


FEATURE = ("--feature", "kraft.version=1")


def upgraded(*words: str, bootstrap: str = "127.0.0.1:1") -> Result:
    return CliRunner().invoke(quorum, ["upgrade", *words, "--bootstrap-controller", bootstrap, "--timeout", "3"])


def at_node(answer: Body, *words: str) -> tuple[Result, list[Body]]:
    """Run it against a node that leads, and answers this."""

    async def main() -> tuple[Result, list[Body]]:
        node = ScriptedNode(
            {
                ApiKey.DESCRIBE_CLUSTER: lambda _: cluster_body(1, {1: node.endpoint}),
                ApiKey.UPDATE_FEATURES: lambda _: answer,
            }
        )
        async with node:
            result = await asyncio.to_thread(upgraded, *words, bootstrap=str(node.endpoint))
        return result, node.requests(ApiKey.UPDATE_FEATURES)

    return asyncio.run(main())


@pytest.mark.parametrize("dry_run", [False, True])
def test_the_leader_is_asked_for_what_was_named(dry_run: bool) -> None:
    flags = ("--dry-run",) if dry_run else ()
    result, [asked] = at_node({"error_code": 0}, *FEATURE, *flags)
    assert result.stdout == f"kraft.version {'can be' if dry_run else 'was'} upgraded to 1.\n"
    [update] = asked["feature_updates"]
    assert (update["feature"], update["max_version_level"], asked["validate_only"]) == ("kraft.version", 1, dry_run)
    result, _ = at_node({"error_code": 0}, *FEATURE, "--json", *flags)
    assert json.loads(result.stdout) == {"feature": "kraft.version", "level": 1, "dryRun": dry_run}


def test_a_refusal_says_why() -> None:
    no = {"error_code": ErrorCode.INVALID_UPDATE_VERSION, "error_message": "voter 2 supports kraft.version 0 to 0"}
    result, _ = at_node(no, *FEATURE)
    assert isinstance(result.exception, RefusedError)
    assert str(result.exception).endswith("INVALID_UPDATE_VERSION: voter 2 supports kraft.version 0 to 0")


@pytest.mark.parametrize(
    ("feature", "text"),
    [
        ("kraft.version", "give NAME=LEVEL, such as kraft.version=1"),
        ("kraft.version=-1", "NAME=LEVEL"),
        ("kraft.version=1.5", "NAME=LEVEL"),
        ("kraft.version=99999", "NAME=LEVEL"),
        ("kraft.version=1=1", "NAME=LEVEL"),
        ("", "NAME=LEVEL"),
        ("metadata.version=7", "a pykraft quorum has only the feature kraft.version"),
    ],
)
def test_what_is_no_feature(feature: str, text: str) -> None:
    result = upgraded("--feature", feature)
    assert isinstance(result.exception, UsageError)
    assert text in str(result.exception)


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
    monkeypatch.setattr(voters_commands, "VOTERS_WATCH_S", 0.05)
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


def test_nobody_answers(properties: Path) -> None:
    [port] = free_ports(1)
    formatted(properties)
    nobody = ("--bootstrap-controller", f"127.0.0.1:{port}", "--timeout", "1")
    for words in (
        ("add-controller", "--command-config", properties),
        ("remove-controller", "-i", 4, "-d", DIRECTORY_ID),
    ):
        assert isinstance(run(*words, *nobody).exception, QuorumUnavailableError)


NOWHERE = ("--bootstrap-controller", "127.0.0.1:1", "--timeout", "1")
KEY = ApiKey.TRANSFER_LEADERSHIP


def transferred(*words: object, bootstrap: Sequence[str] = NOWHERE) -> Result:
    return CliRunner().invoke(quorum, ["transfer", *map(str, words), *bootstrap])


def transferred_at(answer: Body | None, *words: object) -> tuple[Result, list[Body]]:
    """Run it against a node that leads as node 1, and answers this or does not know the API."""

    async def main() -> tuple[Result, list[Body]]:
        scripts: dict[ApiKey, Script] = {ApiKey.DESCRIBE_CLUSTER: lambda _: cluster_body(1, {1: node.endpoint})}
        if answer is None:
            served = {ApiKey.API_VERSIONS: Versions(0, 4), ApiKey.DESCRIBE_CLUSTER: Versions(0, 2)}
            scripts[ApiKey.API_VERSIONS] = lambda _: {"api_keys": api_key_bodies(served)}
        else:
            scripts |= {KEY: lambda _: answer, ApiKey.DESCRIBE_QUORUM: lambda _: quorum_body(1)}
        node = ScriptedNode(scripts)
        async with node:
            bootstrap = ("--bootstrap-controller", str(node.endpoint), "--timeout", "3")
            result = await asyncio.to_thread(transferred, *words, bootstrap=bootstrap)
        return result, node.requests(KEY)

    return asyncio.run(main())


def test_the_new_leader_and_its_epoch_are_told() -> None:
    told = {"error_code": 0, "leader_id": 3, "leader_epoch": 7}
    result, asked = transferred_at(told, "--to", 3, "--catch-up", 2.5)
    assert result.stdout.startswith("Node 3 leads epoch 7 after ")
    assert [(each["target_id"], each["timeout_ms"]) for each in asked] == [(3, 2_500)]
    result, _ = transferred_at(told, "--to", 3, "--json")
    found = json.loads(result.stdout)
    assert (found["leaderId"], found["leaderEpoch"], found["tookMs"] >= 0) == (3, 7, True)


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_voter_that_leads_already_is_no_error(words: tuple[str, ...]) -> None:
    no = {"error_code": ErrorCode.ELECTION_NOT_NEEDED, "error_message": "node 1 already leads"}
    result, asked = transferred_at(no, "--to", 1, *words)
    assert (result.exit_code, len(asked)) == (0, 1)
    if words:
        assert json.loads(result.stdout) == {"leaderId": 1, "leaderEpoch": 4, "tookMs": 0}
    else:
        assert result.stdout == "Node 1 leads epoch 4 already: nothing to do\n"


def test_a_refusal_is_told_once() -> None:
    no = {"error_code": ErrorCode.REQUEST_TIMED_OUT, "error_message": "node 3 has not fetched since"}
    result, asked = transferred_at(no, "--to", 3)
    assert isinstance(result.exception, RefusedError)
    assert str(result.exception) == (
        "transferring the leadership to node 3 was refused: REQUEST_TIMED_OUT: node 3 has not fetched since"
    )
    assert len(asked) == 1


def test_a_leader_that_is_another_program_cannot_be_asked() -> None:
    result, _ = transferred_at(None, "--to", 3)
    assert isinstance(result.exception, UsageError)
    assert "does not offer TransferLeadership: it is another program, or an older one" in str(result.exception)


REPORTS = [
    FileReport(what="certificates", files=(Path("ca.pem"), Path("n.pem")), state=FileState.TAKEN_UP),
    FileReport(what="rules", files=(Path("acls"),), state=FileState.REFUSED, problem="line 1: \x1bno"),
    FileReport(what="users and keys", files=(Path("users"),), state=FileState.UNCHANGED),
]


def reload(directory: Path, reports: list[FileReport], *words: str) -> Result:
    """What the command says of a node that answers so."""

    async def main() -> Result:
        loop = asyncio.get_running_loop()

        def answer() -> asyncio.Future[list[FileReport]]:
            future: asyncio.Future[list[FileReport]] = loop.create_future()
            future.set_result(reports)
            return future

        node = ReloadSocket(loop, directory, NodeId(1), answer)
        try:
            return await asyncio.to_thread(call, "reload", str(directory), *words)
        finally:
            node.close()

    return asyncio.run(main())


def test_reload_says_what_became_of_each_file(tmp_path: Path) -> None:
    result = reload(tmp_path, REPORTS)
    assert result.stdout.splitlines() == [
        "certificates (ca.pem, n.pem): taken up",
        "rules (acls): refused, the former ones stay in use: line 1: \\x1bno",
        "users and keys (users): unchanged",
    ]
    assert (str(result.exception), result.exit_code) == ("1 of 3 cannot be taken up", 1)
    assert reload(tmp_path, REPORTS[:1]).exit_code == 0


def test_reload_says_the_same_in_json(tmp_path: Path) -> None:
    result = reload(tmp_path, REPORTS[1:], "--json")
    found = json.loads(result.stdout)
    assert (found["nodeId"], [each["state"] for each in found["files"]]) == (1, ["refused", "unchanged"])
    assert isinstance(result.exception, PykraftError)


def test_reload_is_for_this_machine(tmp_path: Path) -> None:
    result = call("--bootstrap-controller", "a:1", "reload", str(tmp_path))
    assert str(result.exception) == "reload is for a node on this machine: leave out --bootstrap-controller"
    assert "no node runs here" in str(call("reload", str(tmp_path)).exception)
