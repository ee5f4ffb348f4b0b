"""Addresses as text, ports that become known later, and invalid configurations."""

from pathlib import Path
from typing import Any

import pytest

from pykraft.client.configure import configure, voter_set, with_ports, with_voters
from pykraft.config import RaftConfig
from pykraft.errors import ConfigError, UsageError
from pykraft.types import Endpoint, VoterSet

WRONG: Any = "a:1"
WRONG_RULES: Any = "acls"


def test_a_voter_listens_where_its_entry_says(tmp_path: Path) -> None:
    config = configure(tmp_path, node_id=2, voters={1: "a:1", 2: "[::1]:2"})
    assert list(config.listeners) == list(config.advertised_listeners) == [("PLAINTEXT", Endpoint("::1", 2))]
    assert config.voters.ids == (1, 2)
    assert config.log_dir == tmp_path


def test_a_voter_may_listen_elsewhere(tmp_path: Path) -> None:
    config = configure(str(tmp_path), node_id=1, voters={1: "a:1"}, listen="b:2")
    assert config.listeners.get("plaintext") == Endpoint("b", 2)


@pytest.mark.conformance("H21")
def test_voters_may_be_named_later(tmp_path: Path) -> None:
    config = configure(tmp_path, node_id=1)
    assert config.listeners.get("PLAINTEXT") == Endpoint("127.0.0.1", 0)
    assert len(config.voters) == 0


def test_who_has_no_id_listens_nowhere(tmp_path: Path) -> None:
    config = configure(tmp_path, voters={1: "a:1"})
    assert (config.node_id, len(config.listeners)) == (None, 0)


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"node_id": -1}, "node.id"),
        ({"node_id": True}, "node.id"),
        ({"node_id": 2**31}, "node.id"),
        ({"node_id": "1"}, "node.id"),
        ({"node_id": 1, "voters": {1: "a"}}, "listeners"),
        ({"voters": {1: "a:x"}}, "controller.quorum.voters"),
        ({"voters": {1: ":1"}}, "controller.quorum.voters"),
        ({"voters": {1: "a:65536"}}, "controller.quorum.voters"),
        ({"voters": {1: "::1:5"}}, "controller.quorum.voters"),
        ({"voters": ["a:1"]}, "controller.quorum.voters"),
        ({"voters": "1@a:1"}, "controller.quorum.voters"),
        ({"voters": {1: 5}}, "controller.quorum.voters"),
        ({"voters": {-1: "a:1"}}, "controller.quorum.voters"),
        ({"listen": "a:1"}, "listeners"),
        ({"node_id": {}}, "node.id"),
        ({"node_id": 1, "listen": ""}, "listeners"),
        ({"voters": []}, "controller.quorum.voters"),
        ({"cluster_id": None}, "cluster.id"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, wrong: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as raised:
        configure(tmp_path, **wrong)
    assert raised.value.key == key


@pytest.mark.parametrize("directory", [None, 5, b"d", []])
def test_a_directory_is_a_path(directory: Any) -> None:
    with pytest.raises(ConfigError, match=r"property log\.dirs = .*: the directory is a str or a Path"):
        configure(directory)


def test_settings_have_their_types(tmp_path: Path) -> None:
    odd: Any = {"fetch_timeout_ms": 5}
    with pytest.raises(UsageError, match=r"raft = {'fetch_timeout_ms': 5}: it is a RaftConfig"):
        configure(tmp_path, raft=odd)
    with pytest.raises(UsageError, match=r"authorizer = 'acls': it is a AuthorizerSettings"):
        configure(tmp_path, authorizer=WRONG_RULES)
    with pytest.raises(UsageError, match=r"log = {'fetch_timeout_ms': 5}: it is a LogSettings"):
        configure(tmp_path, log=odd)


def test_ports_that_were_open_are_filled_in(tmp_path: Path) -> None:
    config = with_ports(configure(tmp_path, node_id=1, voters={1: "h:0", 2: "g:7"}), {"PLAINTEXT": 99})
    assert config.listeners.get("PLAINTEXT") == config.advertised_listeners.get("PLAINTEXT") == Endpoint("h", 99)
    config = with_voters(config, None)
    assert [str(voter.listeners.get("PLAINTEXT")) for voter in config.voters.voters] == ["h:99", "g:7"]


def test_voters_that_are_given_later_replace_the_former(tmp_path: Path) -> None:
    config = with_voters(configure(tmp_path, node_id=1, voters={1: "h:1"}), voter_set({2: "g:7", 3: "f:8"}))
    assert config.voters.ids == (2, 3)
    assert with_voters(config, VoterSet()).voters.ids == ()


def test_two_voters_with_one_address_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="voter 1 has this address, too"):
        with_voters(configure(tmp_path, node_id=1), voter_set({1: "h:1", 2: "h:1"}))


def test_the_open_port_of_another_voter_is_nobodys_to_know(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="port of another voter"):
        with_voters(configure(tmp_path, node_id=1), voter_set({2: "g:0"}))


def test_a_node_of_a_quorum_that_exists_needs_only_some_addresses() -> None:
    at = Endpoint("a", 1)
    config = configure("data", node_id=4, bootstrap=(at, at), raft=RaftConfig(auto_join=True))
    assert (config.bootstrap_servers, len(config.voters)) == ((at,), 0)
    assert configure("data").bootstrap_servers == ()
    with pytest.raises(UsageError, match=r"bootstrap = 'a:1': it is a list of Endpoint"):
        configure("data", bootstrap=WRONG)
