"""The static list of voters: no two have one address, and it agrees with what a node says of itself."""

from __future__ import annotations

import pytest

from pykraft.config.properties import node_config
from pykraft.config.static_voters import own_entry_warning, refuse_shared_addresses
from pykraft.errors import ConfigError
from pykraft.types import Endpoint, Listeners, NodeId, ReplicaKey, Voter, VoterSet

NAME = "CONTROLLER"


def endpoint(text: str) -> Endpoint:
    host, _, port = text.rpartition(":")
    return Endpoint(host, int(port))


def voters(**addresses: str) -> VoterSet:
    """Voters by address: ``n1="h:1"``."""
    return VoterSet.of(
        Voter(key=ReplicaKey(NodeId(int(name[1:]))), listeners=Listeners(((NAME, endpoint(address)),)))
        for name, address in addresses.items()
    )


@pytest.mark.parametrize(("one", "other"), [("h:1", "h:1"), ("h:1", "H:1"), ("localhost:1", "127.0.0.1:1")])
def test_two_voters_at_one_address_are_refused(one: str, other: str) -> None:
    with pytest.raises(ConfigError, match=f"controller.quorum.voters = '3@{other}': voter 1 has this address, too"):
        refuse_shared_addresses(voters(n1=one, n2="g:1", n3=other))


@pytest.mark.parametrize(("one", "other"), [("h:1", "h:2"), ("h:1", "g:1"), ("h:1", "127.0.0.1:1"), ("h:0", "h:0")])
def test_voters_at_addresses_that_may_differ_are_fine(one: str, other: str) -> None:
    refuse_shared_addresses(voters(n1=one, n2=other))


def test_the_address_of_another_voter_is_not_advertised() -> None:
    listed = voters(n1="a:1", n2="b:1", n3="c:1")
    for node_id in (NodeId(1), NodeId(4)):  # a voter, and an observer
        with pytest.raises(ConfigError, match=f"CONTROLLER://B:1': .* has node 2 at this address, .* node {node_id}"):
            own_entry_warning(listed, node_id, NAME, endpoint("0.0.0.0:1"), endpoint("B:1"))


def test_an_advertised_address_that_contradicts_the_own_entry_is_told() -> None:
    listed = voters(n1="a:1", n2="b:1")
    told = own_entry_warning(listed, NodeId(1), NAME, endpoint("a:1"), endpoint("d:1"))
    assert told is not None
    assert "has this node at a:1, and advertised.listeners at d:1: other nodes dial a:1 for its vote, and d:1" in told
    for advertised in ("a:1", "10.0.0.1:1"):  # a name may have any address
        assert own_entry_warning(listed, NodeId(1), NAME, endpoint("z:9"), endpoint(advertised)) is None


def test_where_a_node_listens_is_compared_if_it_advertises_nothing() -> None:
    listed = voters(n1="a:1", n2="b:1")
    told = own_entry_warning(listed, NodeId(1), NAME, endpoint("a:2"), None)
    assert told is not None
    assert "has this node at a:1, and it listens at a:2" in told
    assert own_entry_warning(listed, NodeId(1), NAME, endpoint(":1"), None) is None
    assert own_entry_warning(listed, NodeId(1), NAME, None, None) is None
    assert own_entry_warning(listed, NodeId(4), NAME, endpoint("a:2"), endpoint("d:1")) is None


def test_an_error_or_warning_names_its_property() -> None:
    own = {"node.id": "1", "log.dirs": "data", "listeners": "CONTROLLER://:1", "controller.listener.names": NAME}
    with pytest.raises(ConfigError) as caught:
        node_config({**own, "controller.quorum.voters": "1@h:1,2@h:1,3@g:1"})
    assert (caught.value.key, caught.value.value) == ("controller.quorum.voters", "2@h:1")
    listed = {**own, "controller.quorum.voters": "1@h:1,2@g:1"}
    with pytest.raises(ConfigError) as caught:
        node_config({**listed, "advertised.listeners": "CONTROLLER://g:1"})
    assert caught.value.key == "advertised.listeners"
    [told] = node_config({**listed, "advertised.listeners": "CONTROLLER://d:1"}).warnings
    assert "at h:1, and advertised.listeners at d:1" in told
    assert not node_config(listed).warnings
