"""Principals: Kafka's text for the subject of a certificate, its hosts, its mapped name; ANONYMOUS without one.

Source: Kafka's ``SslPrincipalMapper`` and its tests (KIP-371); RFC 2253; RFC 6125.
"""

from pathlib import Path

import pytest

from pykraft.errors import ConfigError
from pykraft.security.principal import ANONYMOUS, UNKNOWN_END, Principal, PrincipalMapping, principal_of
from pykraft.security.settings import Security, SecurityProtocol


def test_subject_is_written_from_its_end_as_java_writes_it() -> None:
    subject = ((("countryName", "DE"),), (("organizationName", "a, b"),), (("commonName", "n"), ("userId", "#1")))
    assert str(principal_of({"subject": subject})) == r"User:CN=n+UID=\#1,O=a\, b,C=DE"


def test_no_certificate_is_anonymous() -> None:
    assert principal_of(None) is ANONYMOUS
    assert principal_of({}) is ANONYMOUS
    assert str(ANONYMOUS) == "User:ANONYMOUS"
    assert (UNKNOWN_END.principal, UNKNOWN_END.address) == (ANONYMOUS, "")


SUBJECT = ((("commonName", "node1"),),)


def test_the_hosts_of_a_certificate_are_its_alternative_names_or_the_common_name() -> None:
    names = (("DNS", "a.example.org"), ("IP Address", "10.0.0.1"), ("email", "me@example.org"))
    assert principal_of({"subject": SUBJECT, "subjectAltName": names}).hosts == ("a.example.org", "10.0.0.1")
    assert principal_of({"subject": SUBJECT}).hosts == ("node1",)
    assert Principal("CN=node1", ("a",)) == Principal("CN=node1", ("b",))


@pytest.mark.parametrize(
    ("known", "host", "is_valid"),
    [
        ("a.example.org", "A.Example.org.", True),
        ("a.example.org", "b.example.org", False),
        ("*.example.org", "b.example.org", True),
        ("*.example.org", "b.c.example.org", False),
        ("*.example.org", "example.org", False),
        ("*", "localhost", False),
        ("*.", "localhost", False),
        ("10.0.0.1", "10.0.0.1", True),
        ("*.0.0.1", "10.0.0.1", False),
        ("0:0:0:0:0:0:0:1", "[::1]", True),
        ("*.:1", "::1", False),
    ],
)
def test_a_certificate_is_valid_for_a_host_as_for_whoever_dials_it(known: str, host: str, *, is_valid: bool) -> None:
    assert Principal("x", (known,)).is_valid_for(host) == is_valid


DN = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "name", "mapped"),
    [
        ("", DN, DN),
        ("DEFAULT", DN, DN),
        (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", DN, "Duke"),
        (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", DN, "duke"),
        (r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/U", DN, "DUKE@SERVICEUSERS"),
        (r"RULE:^OU=(.*)$/$1/, RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/ , DEFAULT", DN, "Duke"),
        (r"RULE:^OU=(.*)$/$1/,DEFAULT", DN, DN),
        (r"RULE:^OU=(.*)$/$1/", DN, None),
        (r"RULE:^CN=(.*?),.*$/$1@$4/", DN, "Duke@$4"),
        (r"RULE:^CN=(.*?),.*$/$12/", DN, "Duke2"),
        (r"RULE:^CN=(.*?),.*$/$0/", DN, DN),
        (r"RULE:^CN=(\w+)(x)?,.*$/$1-$2/", DN, "Duke-"),
        (r"RULE:^cn=(.*?)\/(.*)$/$1\/$2/,DEFAULT", "cn=kafka/host", "kafka/host"),
    ],
)
def test_names_are_mapped_as_in_kafka(rules: str, name: str, mapped: str | None) -> None:
    found = PrincipalMapping(rules).named(Principal(name, ("a",)))
    assert (None if found is None else found.name) == mapped
    assert found is None or found.hosts == ("a",)


def test_nobody_is_mapped_to_nobody() -> None:
    assert PrincipalMapping("RULE:^(.*)$/admin/").named(ANONYMOUS) is ANONYMOUS


@pytest.mark.parametrize("rules", ["default", "RULE:a", "RULE:a/b", "RULE:a/b/X", "DEFAULT RULE:a/b/", "RULE:(/b/"])
def test_what_is_no_rule_is_refused_with_the_property(rules: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is not DEFAULT or RULE|is no regular expression"):
        PrincipalMapping(rules)
    key = "ssl.principal.mapping.rules"
    with pytest.raises(ConfigError, match=key):
        Security.of_listener("A", SecurityProtocol.SSL, {key: rules, "ssl.keystore.location": str(tmp_path)})
