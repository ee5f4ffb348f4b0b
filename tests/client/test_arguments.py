"""A wrong argument of any call is the caller's error, and the node continues; so is a wrong bootstrap list."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pykraft.client import Node, text_serde
from pykraft.client.arguments import ENDPOINTS_MAX, epoch_number, nodes_to_contact, parse_bootstrap, truth, whole_number
from pykraft.errors import ConfigError, UsageError
from pykraft.types import Endpoint
from tests.client.nodes import BOTH, Recorder, alone, config_of


@pytest.mark.parametrize("value", ["1", 1.0, True, None, -1, 5])
def test_what_is_no_whole_number_within_its_bounds_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match=r"size = .*: it is a whole number from 0 to 4"):
        whole_number("size", value, least=0, most=4)


def test_epochs_may_be_older_than_all_but_not_larger_than_any() -> None:
    assert (epoch_number(-1), epoch_number(2**31 - 1)) == (-1, 2**31 - 1)
    with pytest.raises(UsageError, match="epoch = 2147483648"):
        epoch_number(2**31)


@BOTH
async def test_no_wrong_argument_ends_a_node(tmp_path: Path, own_thread: bool) -> None:
    odd: Any = "1"
    not_text: list[Any] = [[5], [None]]

    async with Node(alone(tmp_path), text_serde, own_thread=own_thread) as node:
        await node.wait_for_leader()
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: node.propose("hello"),
            lambda: node.propose(["a"], epoch=odd),
            lambda: node.prepare_append(odd, ["a"]),
            lambda: node.schedule_append(odd, ["a"]),
            lambda: node.resign(odd),
            lambda: node.shutdown(odd),
            lambda: node.shutdown(-1),
        ]
        for call in calls:
            with pytest.raises(UsageError):
                await call()
        for records in not_text:
            with pytest.raises(TypeError, match="a record is text here"):
                await node.propose(records)
        with pytest.raises(UsageError, match="from_offset = '1'"):
            node.register(Recorder(), from_offset=odd)
        assert (await node.propose(["a"])).count == 1


def test_a_client_contacts_a_list_of_endpoints() -> None:
    at, odd = Endpoint("h", 1), [None, 5, "h:1", ["h:1"], {"h": 1}]
    assert nodes_to_contact("bootstrap", [at, at]) == [at]
    for value in odd:
        with pytest.raises(UsageError, match=r"bootstrap = .*: it is a list of Endpoint; .*parse_bootstrap makes one"):
            nodes_to_contact("bootstrap", value)
    with pytest.raises(UsageError, match="the bootstrap list is empty"):
        nodes_to_contact("bootstrap", ())


def test_what_is_neither_true_nor_false_is_refused(tmp_path: Path) -> None:
    assert (truth("t", value=True), truth("t", value=False)) == (True, False)
    odd: Any = "no"
    with pytest.raises(UsageError, match="own_thread = 'no': it is True or False"):
        Node(alone(tmp_path), own_thread=odd)


async def test_what_is_no_configuration_serde_or_set_of_voters_is_refused(tmp_path: Path) -> None:
    nothing: Any = None
    not_serdes: list[Any] = [nothing, type(text_serde), object()]
    not_voters: list[Any] = ["1@h:1", [1], {1: 5}, {"1": "h:1"}]
    with pytest.raises(UsageError, match="configure makes one"):
        Node(nothing)
    for serde in not_serdes:
        with pytest.raises(UsageError, match="is not a serde"):
            Node(alone(tmp_path), serde)

    for voters in not_voters:
        node = Node(config_of(tmp_path), text_serde)
        with pytest.raises(ConfigError, match=r"controller\.quorum\.voters"):
            await node.initialize(voters)


async def test_voters_may_be_named_by_their_addresses(tmp_path: Path) -> None:
    node = Node(config_of(tmp_path), text_serde)
    await node.initialize({1: "127.0.0.1:0"})
    async with node:
        assert (await node.wait_for_leader()).leader_id == 1


def test_nodes_come_in_order_and_once() -> None:
    found = parse_bootstrap("--list", " b:2 ,a.example:1,[::1]:9092,,b:2,127.0.0.1:65535")
    assert found == (Endpoint("b", 2), Endpoint("a.example", 1), Endpoint("::1", 9092), Endpoint("127.0.0.1", 65535))


@pytest.mark.parametrize(
    "text",
    [
        "",
        " , ",
        "a",
        "a:",
        ":1",
        "a:0",
        "a:65536",
        "a:1x",
        "a:-1",
        "http://a:1",
        "a b:1",
        "::1:1",
        "[x]:1",
        "h" * 256 + ":1",
    ],
)
def test_anything_else_is_one_line_that_names_the_option(text: str) -> None:
    with pytest.raises(UsageError, match="--list"):
        parse_bootstrap("--list", text)


def test_what_is_no_text_is_refused() -> None:
    odd: list[Any] = [None, 5, b"a:1", ["a:1"]]
    for value in odd:
        with pytest.raises(UsageError, match=r"--list = .*: it is a text, host:port"):
            parse_bootstrap("--list", value)


def test_a_list_is_not_endless() -> None:
    with pytest.raises(UsageError, match="101 nodes"):
        parse_bootstrap("--list", ",".join(f"a:{port}" for port in range(1, ENDPOINTS_MAX + 2)))
