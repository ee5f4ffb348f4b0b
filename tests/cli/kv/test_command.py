"""``pykraft kv watch``: lines and JSON lines, and where it stops. Options that the commands of ``pykraft kv`` share."""

import base64
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykraft import errors
from pykraft.cli.kv import command as items_module
from pykraft.cli.kv import command as lock_module
from pykraft.cli.kv import command as module
from pykraft.cli.kv.command import URLS, kv, lock, put, serve, wanted_range, watch
from pykraft.kv import service
from pykraft.kv.client import KeyValueClient
from pykraft.types import Endpoint
from tests.kv.scripted_node import Answer, ScriptedNode, error, scripted

PUT = {"revision": 3, "key": "a\n", "item": {"key": "a\n", "base64": "/w=="}}
DELETED = {"revision": 4, "key": "a", "item": None}


def call(node: ScriptedNode, *words: str) -> Result:
    return CliRunner().invoke(watch, ["--url", node.url, *words])


def test_each_change_is_a_line() -> None:
    with scripted(lambda path, body: [{"from_revision": 3}, PUT, {}, DELETED]) as node:
        result = call(node, "a", "--prefix", "--from", "3", "--max-changes", "2")
        assert result.exit_code == 0, result.exception
        assert result.stdout == "3\tput\ta\\n\t\\xff\n4\tdelete\ta\n"
        assert node.asked == [("/v1/watch", {"prefix": "a", "from_revision": 3})]
        told = call(node, "a", "--max-changes", "2", "--json").stdout.splitlines()
        assert [json.loads(line) for line in told] == [PUT, DELETED]


def test_compacted_changes_are_an_error() -> None:
    with scripted(lambda path, body: (410, error("compacted", oldest_revision=9))) as node:
        assert isinstance(call(node, "a", "--from", "3").exception, errors.CompactedError)


def test_the_default_nodes_are_those_of_serve() -> None:
    at_serve = KeyValueClient(URLS.split(","), timeout_s=1)._nodes
    assert [node[:3] for node in at_serve] == [(False, "127.0.0.1", port) for port in (7080, 7081, 7082)]
    with pytest.raises(errors.UsageError, match="give 1 to 15 addresses"):
        raise CliRunner().invoke(put, ["--url", " , ", "a", "b"]).exception or AssertionError


def test_file_of_client_properties_says_whom_to_trust(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\nssl.truststore.location=/nowhere.pem\n")
    done = CliRunner().invoke(put, ["--url", "https://h:1", "--command-config", str(file), "a", "b"])
    assert isinstance(done.exception, errors.ConfigError)
    assert "ssl.truststore.location = '/nowhere.pem': cannot be read" in str(done.exception)
    file.write_text("security.protocol=SSL\n")
    done = CliRunner().invoke(put, ["--url", "http://h:1", "a", "b"], env={"PYKRAFT_KV_COMMAND_CONFIG": str(file)})
    assert "each node is https://" in str(done.exception)


@pytest.mark.parametrize("way", ["token", "token file", "file in the environment", "user"])
def test_credentials_reach_a_proxy_that_demands_them(way: str, tmp_path: Path) -> None:
    demands = "Basic YW5uOnNlY3JldA==" if way == "user" else "Bearer secret"
    path = tmp_path / "token"
    path.write_text("secret\n")
    with scripted(lambda path, body: (200, {"revision": 4}), demands) as node:
        environment = {
            "token": {"PYKRAFT_KV_TOKEN": "secret"},
            "token file": {"PYKRAFT_KV_TOKEN": "another"},
            "file in the environment": {"PYKRAFT_KV_TOKEN_FILE": str(path)},
            "user": {},
        }[way]
        environment["PYKRAFT_KV_URL"] = node.url.replace("//", "//ann:secret@" if way == "user" else "//")
        words = ["--token-file", str(path)] if way == "token file" else []
        result = CliRunner().invoke(put, [*words, "a", "b"], env=environment)
        assert result.stdout == "revision 4\n", result.exception
        denied = CliRunner().invoke(put, ["--url", node.url, "a", "b"])
        assert "HTTP status 401" in str(denied.exception)


def test_secrets_are_not_taken_from_where_others_read_them(tmp_path: Path) -> None:
    with pytest.raises(errors.UsageError, match="all users see it in the list of processes") as caught:
        raise CliRunner().invoke(put, ["--url", "http://ann:secret@h", "a", "b"]).exception or AssertionError
    assert "secret" not in str(caught.value)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff")
    for path, told in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory"), (binary, "it is not ASCII")):
        with pytest.raises(errors.UsageError, match=rf"--token-file {path}: {told}"):
            raise CliRunner().invoke(put, ["--token-file", str(path), "a", "b"]).exception or AssertionError


def test_the_environment_may_name_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(lambda path, body: (200, {"revision": 4})) as node:
        monkeypatch.setenv("PYKRAFT_KV_URL", f" {node.url} ,")
        assert CliRunner().invoke(put, ["a", "b"]).stdout == "revision 4\n"


def test_a_range_is_a_key_or_a_prefix() -> None:
    assert wanted_range("a", is_prefix=False) == {"key": "a"}
    assert wanted_range("a", is_prefix=True) == {"prefix": "a"}


def at(node: ScriptedNode, *words: str, data: bytes | None = None) -> Result:
    return CliRunner().invoke(kv, [words[0], "--url", node.url, *words[1:]], input=data)


def item(key: str, value: bytes) -> dict[str, Any]:
    try:
        return {"key": key, "value": value.decode()}
    except UnicodeDecodeError:
        return {"key": key, "base64": base64.b64encode(value).decode()}


def range_of(*found: dict[str, Any]) -> Answer:
    return 200, {"revision": 9, "items": list(found), "more": False}


@pytest.mark.parametrize(
    ("words", "value", "shown"),
    [
        ((), b"red", b"red\n"),
        ((), b"r\x1b[2Jd\xff", b"r\\x1b[2Jd\\xff\n"),
        (("--raw",), b"r\x1b[2Jd\xff", b"r\x1b[2Jd\xff"),
    ],
)
def test_a_value_is_printed(words: Sequence[str], value: bytes, shown: bytes) -> None:
    with scripted(lambda path, body: range_of(item("color", value))) as node:
        result = at(node, "get", "color", *words)
        assert result.exit_code == 0, result.exception
        assert result.stdout_bytes == shown
        [(path, body)] = node.asked
        assert (path, body["key"], body["stale"]) == ("/v1/range", "color", False)


def test_a_missing_key_is_an_error_and_an_empty_prefix_is_not() -> None:
    with scripted(lambda path, body: range_of()) as node:
        result = at(node, "get", "a\nb", "--stale")
        assert isinstance(result.exception, errors.PykraftError)
        assert str(result.exception) == "there is no key 'a\\nb'"
        assert node.asked[0][1]["stale"] is True
        assert at(node, "get", "a", "--prefix").stdout == ""
        assert json.loads(at(node, "get", "a", "--json").stdout) == {"revision": 9, "items": [], "more": False}


def test_a_prefix_is_read_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items_module, "PAGE", 2)
    keys = [f"a/{number}" for number in range(5)]

    def answer(path: str, body: dict[str, Any]) -> Answer:
        left = [key for key in keys if key >= body.get("key", "")]
        found = left[: body["limit"]]
        return 200, {"revision": 9, "items": [item(key, b"\t") for key in found], "more": len(found) < len(left)}

    with scripted(answer) as node:
        result = at(node, "get", "a/", "--prefix")
        assert result.stdout == "".join(f"{key}\t\\t\n" for key in keys)
        assert [body.get("end") for _, body in node.asked] == [None, "a0", "a0"]
        assert [body.get("revision") for _, body in node.asked] == [None] * 3
        at(node, "get", "a/", "--prefix", "--revision", "7")
        assert [body.get("revision") for _, body in node.asked[3:]] == [7] * 3
        cut = at(node, "get", "a/", "--prefix", "--limit", "3")
        assert cut.stdout.count("\n") == 3
        assert cut.stderr == "pykraft: there are more than 3 keys: give a higher --limit\n"
        told = json.loads(at(node, "get", "a/", "--prefix", "--limit", "3", "--json").stdout)
        assert (len(told["items"]), told["more"]) == (3, True)


def test_a_value_is_text_or_standard_input() -> None:
    with scripted(lambda path, body: (200, {"revision": 4, "key": "a"})) as node:
        assert at(node, "put", "a", "b", "--lease", "7").stdout == "revision 4\n"
        told = at(node, "put", "a", "-", "--json", data=b"\xff\n")
        assert json.loads(told.stdout) == {"revision": 4, "key": "a"}
        assert [(body.get("value"), body.get("base64"), body.get("lease")) for _, body in node.asked] == [
            ("b", None, 7),
            (None, "/wo=", None),
        ]


def test_keys_are_deleted() -> None:
    with scripted(lambda path, body: (200, {"revision": 4, "deleted": 1})) as node:
        assert at(node, "del", "a").stdout == "deleted 1 key\n"
        assert json.loads(at(node, "del", "a", "--prefix", "--json").stdout) == {"revision": 4, "deleted": 1}
        assert [body.get("prefix") for _, body in node.asked] == [None, "a"]


def test_errors_are_told_as_they_are() -> None:
    with scripted(lambda path, body: (504, error("unknown", "unknown"))) as node:
        assert isinstance(at(node, "put", "a", "b").exception, errors.OutcomeUnknownError)
    with scripted(lambda path, body: (400, error("invalid"))) as node:
        assert isinstance(at(node, "put", "", "b").exception, errors.UsageError)
        assert isinstance(at(node, "get", "a", "--raw", "--json").exception, errors.UsageError)


HELD = {"held": True, "token": 5, "key": "tool/0000000000000005", "ahead": 0}


def answers(**others: Answer) -> Any:
    """A node on which the lock is free."""
    known = {"/v1/lock": (200, HELD), **{f"/v1/lease/{name}": answer for name, answer in others.items()}}
    return scripted(lambda path, body: known.get(path, (200, {"lease": 7})))


def locked(node: ScriptedNode, *words: str) -> Result:
    return CliRunner().invoke(lock, ["--url", node.url, *words])


def test_a_command_runs_with_the_token_and_its_status_counts(tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = f'echo "$PYKRAFT_LOCK_TOKEN $PYKRAFT_LOCK_KEY" >{told}; exit 7'
    with answers() as node:
        result = locked(node, "--json", "tool", "--", "sh", "-c", script)
        assert result.exit_code == 7
        assert told.read_text() == "5 tool/0000000000000005\n"
        assert json.loads(result.stdout) == {"name": "tool", "key": HELD["key"], "token": 5, "lease": 7}
        assert [path for path, _ in node.asked] == ["/v1/lease/grant", "/v1/lock", "/v1/lease/revoke"]
        assert node.asked[0][1]["ttl_ms"] == 10_000
        assert locked(node, "tool", "--", "sh", "-c", "kill -9 $$").exit_code == 137


def test_a_command_is_ended_when_the_lock_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "END_SHARE", 60)  # it may take its time
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    code = (
        "import pathlib, signal, sys, time\n"
        f"signal.signal(signal.SIGTERM, lambda *_: sys.exit(pathlib.Path({str(ended)!r}).touch()))\n"
        f"pathlib.Path({str(begun)!r}).touch()\n"
        "time.sleep(600)"
    )

    def answer(path: str, body: dict[str, Any]) -> Answer:
        if path == "/v1/lease/keep":
            # Lost only once the command handles the signal.
            return (409, error("lease_ended")) if begun.exists() else (200, {"lease": 7})
        return 200, HELD if path == "/v1/lock" else {"lease": 7}

    with scripted(answer) as node:
        result = locked(node, "--ttl", "1", "tool", "--", sys.executable, "-c", code)
    assert isinstance(result.exception, errors.LeaseLostError)
    assert "was ended, since another one may hold the lock now" in str(result.exception)
    assert ended.exists()


def test_a_command_that_ignores_its_end_is_killed() -> None:
    with answers(keep=(409, error("lease_ended"))) as node:
        result = locked(node, "--ttl", "1", "tool", "--", "sh", "-c", "trap '' TERM; while :; do sleep 0.01; done")
    assert isinstance(result.exception, errors.LeaseLostError)


def test_a_lock_that_is_not_free_and_commands_that_cannot_run(tmp_path: Path) -> None:
    with scripted(lambda path, body: (200, {"lease": 7, "held": False, "ahead": 1})) as node:
        result = locked(node, "--wait", "0.1", "tool", "--", "true")
        assert isinstance(result.exception, errors.QuorumUnavailableError)
        assert "lock 'tool' was not free within 0.1 s" in str(result.exception)
        asked = len(node.asked)
        for words, told in (
            (("tool", "--", "no-such-command"), "no-such-command: there is no such command"),
            (("", "--", "true"), "a lock has a name"),
        ):
            with pytest.raises(errors.UsageError, match=told):
                raise locked(node, *words).exception or AssertionError
        assert len(node.asked) == asked, "nothing was asked"
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o700)
    with answers() as node:
        result = locked(node, "tool", "--", str(broken))
        assert isinstance(result.exception, errors.UsageError)
        assert node.asked[-1][0] == "/v1/lease/revoke"


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests need no server."""
    monkeypatch.setattr("pykraft.kv.service.require_package", lambda: None)


def serving(*words: str) -> Result:
    return CliRunner().invoke(serve, words)


def test_a_node_has_the_file_and_what_overrides_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Any] = []
    monkeypatch.setattr(module, "_serve", lambda *given: served.append(given))
    path = tmp_path / "server.properties"
    path.write_text(
        "node.id=1\nlisteners=CONTROLLER://127.0.0.1:9093\ncontroller.listener.names=CONTROLLER\n"
        f"controller.quorum.voters=1@127.0.0.1:9093\nlog.dirs={tmp_path / 'data'}\n"
    )
    words = (
        "--http",
        "[::1]:81",
        "--override",
        "node.id=1",
        "--cluster-id",
        "mine",
        "--hold-at",
        "4",
        "--credentials-file",
        "c",
    )
    result = serving("--config", str(path), *words, "--credentials-file", "c")
    assert result.exit_code == 0, result.exception
    [(config, *others)] = served
    assert (config.node_id, config.cluster_id, *others) == (1, "mine", Endpoint("::1", 81), (4,), Path("c"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--http", "a:1,b:2"), "give one host:port"),
        (("--override", "a=b"), "--override, --cluster-id, --hold-at and --credentials-file need --config"),
        (("--credentials-file", "c"), "--override, --cluster-id, --hold-at and --credentials-file need --config"),
        (("--hold-at", "4"), "--override, --cluster-id, --hold-at and --credentials-file need --config"),
        (("--cluster-id", "a"), "--override, --cluster-id, --hold-at and --credentials-file need --config"),
        (("--http", "localhost:65535"), "ports are needed up to 65537"),
    ],
)
def test_wrong_options_are_told(words: Sequence[str], told: str) -> None:
    result = serving(*words)
    assert result.exit_code != 0
    assert told in str(result.exception)


def test_without_a_file_nodes_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    class Running:
        name, pid = "node 1", 77

    def try_quorum(nodes: int, first: Endpoint, *, show: Any, report: Any) -> None:
        assert nodes == 1
        show([(first, Running)])
        report("node 1 ended with -9; 0 of 1 are left")

    monkeypatch.setattr(service, "try_quorum", try_quorum)
    result = serving("--nodes", "1", "--http", "localhost:7000")
    assert result.exit_code == 0, result.exception
    assert result.stdout.startswith("node 1: http://localhost:7000, process 77\n")
    assert "  pykraft kv put --url http://localhost:7000 color red\n" in result.stdout
    assert result.stderr == "pykraft: node 1 ended with -9; 0 of 1 are left\n"
