"""Ports before the start, errors that prevent a start, and what is released then."""

import asyncio
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from pykraft.client import Node, text_serde, voter_set
from pykraft.errors import ConfigError, CorruptionError, NotRunningError, StorageError
from pykraft.types import Endpoint, VoterSet
from tests.client.nodes import BOTH, Recorder, alone, config_of, run


def is_taken(endpoint: Endpoint) -> bool:
    """Whether somebody listens; nobody is bothered by a connection."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((endpoint.host, endpoint.port))
        except OSError:
            return True
        return False


async def test_a_bound_node_holds_its_port_until_it_is_closed(tmp_path: Path) -> None:
    node = Node(config_of(tmp_path), text_serde)
    assert node.endpoint.port == 0
    await node.bind()
    await node.bind()
    endpoint = node.endpoint
    assert is_taken(endpoint)
    await node.close()
    assert not is_taken(endpoint)
    with pytest.raises(NotRunningError, match="make a new Node"):
        await node.bind()
    with pytest.raises(NotRunningError):
        await node.initialize()


@BOTH
async def test_the_port_of_an_only_voter_may_be_open(tmp_path: Path, own_thread: bool) -> None:
    async with Node(alone(tmp_path), text_serde, own_thread=own_thread) as node:
        assert node.voter_node(1) == node.endpoint
        assert is_taken(node.endpoint)
    assert not is_taken(node.endpoint)


@BOTH
async def test_a_port_that_is_taken_is_told(tmp_path: Path, own_thread: bool) -> None:
    first = Node(config_of(tmp_path, 1), text_serde)
    await first.bind()
    config = replace(config_of(tmp_path, 2), listeners=first.listeners, advertised_listeners=first.listeners)
    second = Node(config, text_serde, own_thread=own_thread)
    with pytest.raises(ConfigError, match="cannot be bound"):
        await second.bind()
    with pytest.raises(ConfigError, match="cannot be bound"):
        await second.initialize(voter_set({2: "127.0.0.1:1"}))
    await first.close()


@BOTH
@pytest.mark.parametrize("voters", [None, VoterSet(), voter_set({2: "127.0.0.1:0"})])
async def test_without_voters_that_can_be_reached_there_is_no_node(
    tmp_path: Path, own_thread: bool, voters: VoterSet | None
) -> None:
    node = Node(config_of(tmp_path), text_serde, own_thread=own_thread)
    with pytest.raises(ConfigError, match=r"controller\.quorum\.voters"):
        await node.initialize(voters)
    assert not is_taken(node.endpoint)


@BOTH
async def test_a_directory_is_one_nodes(tmp_path: Path, own_thread: bool) -> None:
    async with Node(alone(tmp_path), text_serde):
        second = Node(alone(tmp_path), text_serde, own_thread=own_thread)
        with pytest.raises(StorageError, match="lock"):
            await second.initialize()
        with pytest.raises(NotRunningError):
            await second.propose(["a"])


@BOTH
async def test_a_damaged_directory_is_refused_with_its_story(tmp_path: Path, own_thread: bool) -> None:
    config = alone(tmp_path)

    async with Node(config, text_serde) as node:
        await node.wait_for_leader()
    state = config.partition_directory / "quorum-state"
    state.write_text(state.read_text().replace("1", "9", 1))
    with pytest.raises(CorruptionError, match="quorum-state"):
        async with Node(config, text_serde, own_thread=own_thread):
            pass


@BOTH
async def test_an_offset_that_no_log_has_keeps_the_node_from_beginning(tmp_path: Path, own_thread: bool) -> None:
    node = Node(alone(tmp_path), text_serde, own_thread=own_thread)
    node.register(Recorder())
    beginning = asyncio.create_task(node.initialize())
    await asyncio.wait([beginning], timeout=0)
    beginning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beginning
    await node.wait_closed()
    async with Node(alone(tmp_path), text_serde, own_thread=own_thread) as again:
        await again.wait_for_leader()


@BOTH
async def test_who_is_closed_while_it_begins_does_not_begin(tmp_path: Path, own_thread: bool) -> None:
    node = Node(alone(tmp_path), text_serde, own_thread=own_thread)
    beginning = asyncio.create_task(node.initialize())
    await asyncio.wait([beginning], timeout=0)
    await node.close()
    with pytest.raises(NotRunningError, match="closed while it was being initialized"):
        await beginning


@BOTH
def test_the_end_of_the_program_ends_the_node(tmp_path: Path, own_thread: bool) -> None:
    async def forgetful() -> None:
        node = Node(alone(tmp_path), text_serde, own_thread=own_thread)
        await node.initialize()
        await node.wait_for_leader()

    run(forgetful)
    run(forgetful)  # the directory is free again
