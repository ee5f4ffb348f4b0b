"""Rules as ``kafka-acls`` writes them, what they allow, and files of them that change.

Source: Kafka's ``StandardAuthorizer`` and ``AclCommand``; KIP-290.
"""

import os
from pathlib import Path

import pytest

from pykraft.errors import ConfigError
from pykraft.security import acls as module
from pykraft.security.acls import (
    AclFile,
    AclOperation,
    Authorizer,
    AuthorizerSettings,
    ResourceType,
    parse_acls,
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


def test_a_name_with_blanks_and_commas_is_quoted() -> None:
    rules = authorizer("--allow-principal 'User:CN=Bob, Jr.,O=x' --topic a  # the boss")
    assert rules.allows(BOB, HOST, AclOperation.READ, ResourceType.TOPIC, "a")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("--topic a", "give --allow-principal or --deny-principal"),
        ("--allow-principal User:a", "give --topic, --group or --cluster"),
        ("--allow-principal alice --topic a", "alice is no principal: one is User:NAME"),
        ("--allow-principal Group:a --topic a", "Group:a is no principal: one is User:NAME"),
        ("--allow-principal User:a --topic a --operation Fly", "Fly is no operation: All, Read"),
        ("--allow-principal User:a --topic a --deny-host 1.2.3.4", "a host belongs to a principal"),
        ("--allow-principal User:a --consumer --topic a", "--consumer a --topic and a --group"),
        ("--allow-principal User:a --producer --topic a --operation Read", "neither an --operation"),
        ("--allow-principal User:a --topic a --resource-pattern-type match", "invalid choice: 'match'"),
        ("--allow-princ User:a --topic a", "unrecognized arguments: --allow-princ User:a"),
        ("allow User:a", "unrecognized arguments"),
        ("--allow-principal 'User:a --topic a", "No closing quotation"),
    ],
)
def test_a_line_that_is_no_rule_is_named(line: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_acls(f"# rules\n\n{line}", "/etc/rules")
    assert (caught.value.key, caught.value.value) == ("pykraft.acl.file", "/etc/rules")
    assert caught.value.allowed.startswith("line 3: ")
    assert reason in caught.value.allowed


def test_rules_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ACLS_MAX", 3)
    line = "--allow-principal User:a --topic a --topic b\n"
    assert len(parse_acls(line, "f")) == 2
    with pytest.raises(ConfigError, match="line 2: at most 3 rules"):
        parse_acls(line * 2, "f")


READS = "--allow-principal User:alice --operation Read --topic a\n"


def may_read(rules: Authorizer) -> bool:
    return rules.allows(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC, "a")


def test_a_changed_file_is_taken_up_and_a_broken_one_is_not(tmp_path: Path) -> None:
    path, rules = tmp_path / "rules", authorizer("")
    path.write_text(READS)
    file = AclFile(path, rules)
    assert may_read(rules)
    assert file.refresh() is None
    path.write_text("--allow-principal")
    report = file.refresh()
    assert report is not None
    assert "not taken up" in report
    assert (file.is_stale, may_read(rules), file.refresh()) == (True, True, None)
    path.unlink()
    assert "cannot be read: No such file" in str(file.refresh())
    path.write_text("")
    assert file.refresh() == f"0 rules were read again: {path}"
    assert (file.is_stale, may_read(rules)) == (False, False)


def test_a_broken_file_that_is_as_it_was_again_is_in_use(tmp_path: Path) -> None:
    path, rules = tmp_path / "rules", authorizer("")
    path.write_text(READS)
    file = AclFile(path, rules)
    path.write_text("nothing")
    assert file.refresh() is not None
    path.write_text(READS)
    assert file.refresh() == f"1 rules were read again: {path}"
    assert (file.is_stale, file.refresh()) == (False, None)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rules"
    path.write_bytes(os.urandom(8) + b"\xff\xff")
    with pytest.raises(ConfigError, match="it is not UTF-8"):
        AclFile(path, authorizer(""))


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
