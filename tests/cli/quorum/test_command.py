"""`pykraft quorum describe`: its options, JSON, the wait for a leader, and one line for each kind of wrong input."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from click.testing import CliRunner, Result

from pykraft.cli.quorum.command import quorum
from pykraft.errors import QuorumUnavailableError, UsageError
from pykraft.local.ports import HOST, free_ports
from pykraft.protocol.messages import ApiKey
from pykraft.types import Endpoint
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
    "two views": ["--bootstrap-controller", "a:1", "describe", "--status", "--replication"],
    "ages of a status": ["--bootstrap-controller", "a:1", "describe", "--status", "--human-readable"],
    "ages as JSON": ["--bootstrap-controller", "a:1", "describe", "--replication", "--human-readable", "--json"],
    "a view watched": ["--bootstrap-controller", "a:1", "describe", "--status", "--watch"],
    "no nodes": ["describe", "--status"],
    "nodes twice": ["--bootstrap-controller", "a:1", "describe", "--status", "--bootstrap-controller", "a:1"],
    "both kinds of nodes": ["--bootstrap-controller", "a:1", "--bootstrap-server", "b:1", "describe", "--status"],
    "no port": ["--bootstrap-controller", "a", "describe", "--status"],
    "no time": ["--bootstrap-controller", "a:1", "--timeout", "0", "describe", "--status"],
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


def test_a_verb_that_does_not_exist_is_refused() -> None:
    assert call("--bootstrap-controller", "a:1", "destroy").exit_code == 2
