"""``pykraft kv lock``: the command's environment and status, and its end when the lock is lost."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykraft.cli.kv import command as lock_module
from pykraft.cli.kv.command import lock
from pykraft.errors import LeaseLostError, QuorumUnavailableError, UsageError
from tests.kv.scripted_node import Answer, ScriptedNode, error, scripted

HELD = {"held": True, "token": 5, "key": "tool/0000000000000005", "ahead": 0}


def answers(**others: Answer) -> Any:
    """A node on which the lock is free."""
    known = {"/v1/lock": (200, HELD), **{f"/v1/lease/{name}": answer for name, answer in others.items()}}
    return scripted(lambda path, body: known.get(path, (200, {"lease": 7})))


def call(node: ScriptedNode, *words: str) -> Result:
    return CliRunner().invoke(lock, ["--url", node.url, *words])


def test_a_command_runs_with_the_token_and_its_status_counts(tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = f'echo "$PYKRAFT_LOCK_TOKEN $PYKRAFT_LOCK_KEY" >{told}; exit 7'
    with answers() as node:
        result = call(node, "--json", "tool", "--", "sh", "-c", script)
        assert result.exit_code == 7
        assert told.read_text() == "5 tool/0000000000000005\n"
        assert json.loads(result.stdout) == {"name": "tool", "key": HELD["key"], "token": 5, "lease": 7}
        assert [path for path, _ in node.asked] == ["/v1/lease/grant", "/v1/lock", "/v1/lease/revoke"]
        assert node.asked[0][1]["ttl_ms"] == 10_000
        assert call(node, "tool", "--", "sh", "-c", "kill -9 $$").exit_code == 137


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
        result = call(node, "--ttl", "1", "tool", "--", sys.executable, "-c", code)
    assert isinstance(result.exception, LeaseLostError)
    assert "was ended, since another one may hold the lock now" in str(result.exception)
    assert ended.exists()


def test_a_command_that_ignores_its_end_is_killed() -> None:
    with answers(keep=(409, error("lease_ended"))) as node:
        result = call(node, "--ttl", "1", "tool", "--", "sh", "-c", "trap '' TERM; while :; do sleep 0.01; done")
    assert isinstance(result.exception, LeaseLostError)


def test_a_lock_that_is_not_free_and_commands_that_cannot_run(tmp_path: Path) -> None:
    with scripted(lambda path, body: (200, {"lease": 7, "held": False, "ahead": 1})) as node:
        result = call(node, "--wait", "0.1", "tool", "--", "true")
        assert isinstance(result.exception, QuorumUnavailableError)
        assert "lock 'tool' was not free within 0.1 s" in str(result.exception)
        asked = len(node.asked)
        for words, told in (
            (("tool", "--", "no-such-command"), "no-such-command: there is no such command"),
            (("", "--", "true"), "a lock has a name"),
        ):
            with pytest.raises(UsageError, match=told):
                raise call(node, *words).exception or AssertionError
        assert len(node.asked) == asked, "nothing was asked"
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o700)
    with answers() as node:
        result = call(node, "tool", "--", str(broken))
        assert isinstance(result.exception, UsageError)
        assert node.asked[-1][0] == "/v1/lease/revoke"
