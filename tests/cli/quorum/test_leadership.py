"""``pykraft quorum transfer``: its output, and what it rejects before it asks; tests of processes cover the rest."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest
from click.testing import CliRunner, Result

from pykraft.cli.quorum.command import quorum
from pykraft.errors import ErrorCode, RefusedError, UsageError
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body, Versions
from pykraft.rpc.api_versions import api_key_bodies
from tests.client.quorums import cluster_body, quorum_body
from tests.client.scripted import Script, ScriptedNode

NOBODY = ("--bootstrap-controller", "127.0.0.1:1", "--timeout", "1")
KEY = ApiKey.TRANSFER_LEADERSHIP


def transferred(*words: object, bootstrap: Sequence[str] = NOBODY) -> Result:
    return CliRunner().invoke(quorum, ["transfer", *map(str, words), *bootstrap])


def at_node(answer: Body | None, *words: object) -> tuple[Result, list[Body]]:
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
    result, asked = at_node(told, "--to", 3, "--catch-up", 2.5)
    assert result.stdout.startswith("Node 3 leads epoch 7 after ")
    assert [(each["target_id"], each["timeout_ms"]) for each in asked] == [(3, 2_500)]
    result, _ = at_node(told, "--to", 3, "--json")
    found = json.loads(result.stdout)
    assert (found["leaderId"], found["leaderEpoch"], found["tookMs"] >= 0) == (3, 7, True)


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_voter_that_leads_already_is_no_error(words: tuple[str, ...]) -> None:
    no = {"error_code": ErrorCode.ELECTION_NOT_NEEDED, "error_message": "node 1 already leads"}
    result, asked = at_node(no, "--to", 1, *words)
    assert (result.exit_code, len(asked)) == (0, 1)
    if words:
        assert json.loads(result.stdout) == {"leaderId": 1, "leaderEpoch": 4, "tookMs": 0}
    else:
        assert result.stdout == "Node 1 leads epoch 4 already: nothing to do\n"


def test_a_refusal_is_told_once() -> None:
    no = {"error_code": ErrorCode.REQUEST_TIMED_OUT, "error_message": "node 3 has not fetched since"}
    result, asked = at_node(no, "--to", 3)
    assert isinstance(result.exception, RefusedError)
    assert str(result.exception) == (
        "transferring the leadership to node 3 was refused: REQUEST_TIMED_OUT: node 3 has not fetched since"
    )
    assert len(asked) == 1


def test_a_leader_that_is_another_program_cannot_be_asked() -> None:
    result, _ = at_node(None, "--to", 3)
    assert isinstance(result.exception, UsageError)
    assert "does not offer TransferLeadership: it is another program, or an older one" in str(result.exception)


@pytest.mark.parametrize("seconds", [-1, 61, "nan", "inf"])
def test_a_leader_does_not_wait_for_ever(seconds: object) -> None:
    result = transferred("--to", 3, "--catch-up", seconds)
    assert isinstance(result.exception, UsageError)
    assert "0 to 60 seconds" in str(result.exception)


@pytest.mark.parametrize("words", [(), ("--to", "x"), ("--to", -1), ("--to", 2**31), ("--to", 1, "--catch-up", "x")])
def test_wrong_words(words: Sequence[object]) -> None:
    assert transferred(*words).exit_code == 2
