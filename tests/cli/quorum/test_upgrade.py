"""``pykraft quorum upgrade``: it raises only the named feature; tests of processes cover the rest."""

from __future__ import annotations

import asyncio
import json

import pytest
from click.testing import CliRunner, Result

from pykraft.cli.quorum.command import quorum
from pykraft.errors import ErrorCode, RefusedError, UsageError
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from tests.client.quorums import cluster_body
from tests.client.scripted import ScriptedNode

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


def test_nothing_is_raised_unasked() -> None:
    result = upgraded()
    assert result.exit_code == 2
    assert "--feature" in result.output
