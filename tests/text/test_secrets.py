"""Which properties are secrets: those of Kafka's type PASSWORD, whatever prefix they have."""

import pytest

from pykraft.errors import ConfigError
from pykraft.text.secrets import MASK, is_secret


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("ssl.key.password", True),
        ("listener.name.raft.plain.sasl.jaas.config", True),
        ("ssl.keystore.key", True),
        ("ssl.keystore.certificate.chain", True),
        ("ssl.truststore.certificates", True),
        ("SSL.KEYSTORE.PASSWORD", True),
        ("ssl.keystore.location", False),
        ("ssl.keystore.type", False),
        ("listeners", False),
    ],
)
def test_secret_is_told_by_its_name(name: str, hidden: bool) -> None:
    assert is_secret(name) == hidden


def test_error_about_a_secret_does_not_keep_it() -> None:
    error = ConfigError("ssl.key.password", "s3cret", "it is wrong")
    assert error.value == MASK
    assert "s3cret" not in f"{error} {error!r} {error.__dict__} {error.args}"
    assert ConfigError("ssl.key.password", "", "it is missing").value == ""
