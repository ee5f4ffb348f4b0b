"""Lines as after ``kafka-acls --add``, and a file of them that changes.

Source: Kafka's ``AclCommand``.
"""

import os
from pathlib import Path

import pytest

from pykraft.errors import ConfigError
from pykraft.security import acl_file as module
from pykraft.security.acl_file import AclFile, parse_acls
from pykraft.security.acls import AclOperation, Authorizer, ResourceType
from tests.security.test_acls import ALICE, HOST, authorizer


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
