"""What rules allow, and which properties switch an authorizer on.

Source: Kafka's ``StandardAuthorizer``; KIP-290.
"""

from pathlib import Path
from typing import Any

import pytest

from pykraft.errors import ConfigError
from pykraft.security.acl_file import parse_acls
from pykraft.security.acls import (
    RIGHTS_SHOWN_MAX,
    AclOperation,
    Authorizer,
    AuthorizerSettings,
    ResourceType,
    voter_principals,
)
from pykraft.security.principal import Principal

ALICE, BOB = Principal("alice"), Principal("CN=Bob, Jr.,O=x")
HOST = "10.0.0.1"


def authorizer(text: str, *, allows_without_acl: bool = False) -> Authorizer:
    settings = AuthorizerSettings(super_users=frozenset({"User:root"}), allows_without_acl=allows_without_acl)
    return Authorizer(settings, parse_acls(text, "test"))


@pytest.mark.parametrize(
    ("line", "operation", "resource", "name", "is_allowed"),
    [
        ("", AclOperation.READ, ResourceType.TOPIC, "a", False),
        ("--allow-principal User:alice --operation Read --topic a", AclOperation.READ, ResourceType.TOPIC, "a", True),
        (
            "--allow-principal User:alice --operation read --topic a",
            AclOperation.DESCRIBE,
            ResourceType.TOPIC,
            "a",
            True,
        ),
        ("--allow-principal User:alice --operation Read --topic a", AclOperation.WRITE, ResourceType.TOPIC, "a", False),
        ("--allow-principal User:alice --operation Read --topic a", AclOperation.READ, ResourceType.TOPIC, "b", False),
        ("--allow-principal User:alice --operation Read --topic a", AclOperation.READ, ResourceType.GROUP, "a", False),
        ("--allow-principal User:* --topic *", AclOperation.DELETE, ResourceType.TOPIC, "b", True),
        ("--allow-principal User:bob --topic a", AclOperation.READ, ResourceType.TOPIC, "a", False),
        (
            "--allow-principal User:alice --allow-host 10.0.0.1 --topic a",
            AclOperation.READ,
            ResourceType.TOPIC,
            "a",
            True,
        ),
        (
            "--allow-principal User:alice --allow-host 10.0.0.2 --topic a",
            AclOperation.READ,
            ResourceType.TOPIC,
            "a",
            False,
        ),
        (
            "--allow-principal User:alice --topic a --resource-pattern-type prefixed",
            AclOperation.READ,
            ResourceType.TOPIC,
            "abc",
            True,
        ),
        ("--allow-principal User:alice --topic a", AclOperation.READ, ResourceType.TOPIC, "abc", False),
        (
            "--allow-principal User:alice --operation CLUSTER_ACTION --cluster",
            AclOperation.CLUSTER_ACTION,
            ResourceType.CLUSTER,
            "kafka-cluster",
            True,
        ),
        (
            "--allow-principal User:alice --operation AlterConfigs --cluster",
            AclOperation.DESCRIBE_CONFIGS,
            ResourceType.CLUSTER,
            "kafka-cluster",
            True,
        ),
        (
            "--allow-principal User:alice --topic a\n--deny-principal User:alice --operation Write --topic a",
            AclOperation.WRITE,
            ResourceType.TOPIC,
            "a",
            False,
        ),
        (
            "--allow-principal User:alice --topic a\n--deny-principal User:alice --operation Write --topic a",
            AclOperation.DESCRIBE,
            ResourceType.TOPIC,
            "a",
            True,
        ),
        ("--deny-principal User:* --topic a", AclOperation.READ, ResourceType.TOPIC, "a", False),
        ("--allow-principal User:alice --producer --topic a", AclOperation.CREATE, ResourceType.TOPIC, "a", True),
        (
            "--allow-principal User:alice --producer --topic a --idempotent",
            AclOperation.IDEMPOTENT_WRITE,
            ResourceType.CLUSTER,
            "kafka-cluster",
            True,
        ),
        (
            "--allow-principal User:alice --consumer --topic a --group g",
            AclOperation.READ,
            ResourceType.TOPIC,
            "a",
            True,
        ),
        (
            "--allow-principal User:alice --consumer --topic a --group g",
            AclOperation.READ,
            ResourceType.GROUP,
            "g",
            True,
        ),
        (
            "--allow-principal User:alice --consumer --topic a --group g",
            AclOperation.DELETE,
            ResourceType.GROUP,
            "g",
            False,
        ),
    ],
)
def test_a_rule_allows_what_it_allows_in_kafka(
    line: str, operation: AclOperation, resource: ResourceType, name: str, *, is_allowed: bool
) -> None:
    assert authorizer(line).allows(ALICE, HOST, operation, resource, name) == is_allowed


def test_a_super_user_may_do_what_everybody_is_denied() -> None:
    rules = authorizer("--deny-principal User:* --cluster")
    assert rules.allows(Principal("root"), HOST, AclOperation.ALTER, ResourceType.CLUSTER)


def test_a_resource_without_a_rule_may_be_open_to_everybody() -> None:
    rules = authorizer("--allow-principal User:bob --topic a", allows_without_acl=True)
    assert rules.allows(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC, "b")
    assert not rules.allows(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC, "a")


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("", "do nothing"),
        ("--allow-principal User:bob --topic a", "do nothing"),
        ("--deny-principal User:* --topic a", "do nothing"),
        ("--allow-principal User:root --topic a", "do nothing"),
        ("--allow-principal User:* --operation Read --topic a --allow-host ::1", "do Read on Topic:a from ::1"),
        (
            "--allow-principal User:alice --operation Alter --cluster\n--deny-principal User:* --cluster",
            "do Alter on Cluster:kafka-cluster, as far as no rule denies it",
        ),
        (
            "--allow-principal User:alice --resource-pattern-type prefixed --operation Read --topic a --group b",
            "do Read on Topic:a*, Read on Group:b*",
        ),
        (
            "--allow-principal User:alice --operation Read "
            + " ".join(f"--group {number}" for number in range(RIGHTS_SHOWN_MAX + 2)),
            f"do {', '.join(f'Read on Group:{number}' for number in range(RIGHTS_SHOWN_MAX))} and 2 more",
        ),
    ],
)
def test_what_a_principal_may_do_is_said_in_words(rules: str, words: str) -> None:
    assert authorizer(rules).rights_of(ALICE) == words


def test_super_users_and_open_resources_are_said_too() -> None:
    assert authorizer("").rights_of(Principal("root")) == "do everything, as one of super.users"
    told = authorizer("--allow-principal User:* --topic a", allows_without_acl=True).rights_of(ALICE)
    assert told == "do All on Topic:a and everything to what no rule is about (allow.everyone.if.no.acl.found)"


def test_a_name_with_blanks_and_commas_is_quoted() -> None:
    rules = authorizer("--allow-principal 'User:CN=Bob, Jr.,O=x' --topic a  # the boss")
    assert rules.allows(BOB, HOST, AclOperation.READ, ResourceType.TOPIC, "a")


STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_the_properties_of_kafka_switch_it_on() -> None:
    given = {
        "authorizer.class.name": STANDARD,
        "super.users": "User:CN=a,O=b; User:c;",
        "allow.everyone.if.no.acl.found": "True",
        "pykraft.acl.file": "rules",
    }
    assert AuthorizerSettings.of(lambda key: given.get(key, "")) == AuthorizerSettings(
        super_users=frozenset({"User:CN=a,O=b", "User:c"}), acl_file=Path("rules"), allows_without_acl=True
    )
    assert AuthorizerSettings.of(lambda _: "") is None


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("authorizer.class.name", "com.example.Mine", "there is no other here"),
        ("super.users", "admin", "admin is no principal: one is User:NAME, and ; separates them"),
        ("allow.everyone.if.no.acl.found", "yes", "one of false, true"),
    ],
)
def test_an_authorizer_that_cannot_be_is_refused(key: str, value: str, reason: str) -> None:
    given = {"authorizer.class.name": STANDARD, key: value}
    with pytest.raises(ConfigError) as caught:
        AuthorizerSettings.of(lambda key: given.get(key, ""))
    assert (caught.value.key, reason in caught.value.allowed) == (key, True)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"super_users": {"admin"}}, "admin is no principal"),
        ({"super_users": "User:admin"}, "it is a set of principals"),
        ({"acl_file": "a\0b"}, "a file"),
    ],
)
def test_settings_of_a_program_are_checked_too(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        AuthorizerSettings(**given)


@pytest.mark.parametrize("key", ["super.users", "allow.everyone.if.no.acl.found", "pykraft.acl.file"])
def test_a_property_of_an_authorizer_needs_one(key: str) -> None:
    with pytest.raises(ConfigError, match="it has no effect without"):
        AuthorizerSettings.of(lambda asked: "User:a" if asked == key else "")


def test_nodes_are_named_by_id_and_principal() -> None:
    found = voter_principals("1@User:CN=a,O=b;1@User:c; 2@User:d")
    assert found == ((1, "User:CN=a,O=b"), (1, "User:c"), (2, "User:d"))
    assert voter_principals("") == ()
    for text in ("User:a", "x@User:a", "1@a", "1@User:"):
        with pytest.raises(ConfigError) as caught:
            voter_principals(text)
        assert caught.value.key == "pykraft.voter.principals"
