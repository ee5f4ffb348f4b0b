"""What a node needs and its properties lack is named at once, with what was perhaps meant."""

import re

import pytest

from pykraft.config.properties import node_config, parse_properties
from pykraft.errors import ConfigError


def test_all_that_is_required_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        node_config(parse_properties("process.roles=controller\nnode.ids=1\nlog.dirs\n", "f"))
    assert str(caught.value) == (
        "f: property listeners is required: NAME://host:port, separated by commas; controller.quorum.voters is "
        "required, too: id@host:port,…; or give controller.quorum.bootstrap.servers; node.id is required, too: a whole "
        "number from 0 to 2147483647; node.ids is given: did you mean node.id?; log.dirs is required, too: the "
        "directory that keeps the log; this line has no value: write log.dirs=VALUE"
    )


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ("", ["controller.quorum.voters", "node.id", "log.dirs"]),
        ("log.dir=d\nbroker.id=1\n", ["controller.quorum.voters"]),
        ("metadata.log.dir=d\nquorum.voters=1@h:1\n", ["node.id"]),
        ("controller.quorum.bootstrap.servers=h:1\nlog.dirs= , \nnode.id=\n", ["node.id", "log.dirs"]),
        ("log.dirs=d\nnode.id=1\ncontroller.quorum.voters=1@h:1\n", []),
    ],
)
def test_what_stands_for_a_required_property_counts(given: str, missing: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        node_config(parse_properties(given))
    assert caught.value.key == "listeners"
    assert re.findall(r"; (\S+) is required, too", caught.value.allowed) == missing


def test_a_wrong_value_is_told_alone() -> None:
    with pytest.raises(ConfigError) as caught:
        node_config(parse_properties("listeners=A\n"))
    assert "required" not in str(caught.value)


def test_both_mechanisms_of_sasl_between_nodes_are_named_at_once() -> None:
    needed = "node.id=1\ncontroller.quorum.voters=1@h:1\nlog.dirs=d\n"
    names = "sasl.enabled.mechanisms", "sasl.mechanism.controller.protocol"
    for given, key, words in (
        ("", names[0], f"; {names[1]} is required: one of PLAIN"),
        (f"{names[0]}=PLAIN\n", names[1], "by which nodes dial each other"),
    ):
        with pytest.raises(ConfigError) as caught:
            node_config(parse_properties(f"{needed}listeners=SASL_SSL://h:1\n{given}"))
        assert (caught.value.key, words in caught.value.allowed) == (key, True)
    clients = "listeners=PLAINTEXT://h:1,SASL_SSL://h:2\ncontroller.listener.names=PLAINTEXT\n"
    with pytest.raises(ConfigError) as caught:
        node_config(parse_properties(f"{needed}{clients}"))
    assert names[1] not in caught.value.allowed, "clients alone are nobody that a node dials"
