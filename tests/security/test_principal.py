"""Principals: Kafka's text for the subject of a certificate, and ANONYMOUS for whoever shows none."""

from pykraft.security.principal import ANONYMOUS, principal_of


def test_subject_is_written_from_its_end_as_java_writes_it() -> None:
    subject = ((("countryName", "DE"),), (("organizationName", "a, b"),), (("commonName", "n"), ("userId", "#1")))
    assert str(principal_of({"subject": subject})) == r"User:CN=n+UID=\#1,O=a\, b,C=DE"


def test_no_certificate_is_anonymous() -> None:
    assert principal_of(None) is ANONYMOUS
    assert principal_of({}) is ANONYMOUS
    assert str(ANONYMOUS) == "User:ANONYMOUS"
