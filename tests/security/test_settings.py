"""Properties of security: the listener's own before the plain ones, and nothing that is passed over."""

import pytest

from pykraft.errors import ConfigError
from pykraft.security.settings import SASL_NAMES, TLS_NAMES, Security, SecurityProtocol, protocol_of, refuse_unsupported
from tests.config.test_properties import TLS, refused
from tests.tidy.repository import ROOT


def test_listeners_own_property_counts_before_the_plain_one() -> None:
    values = {
        "ssl.client.auth": "none",
        "listener.name.raft.ssl.client.auth": "required",
        "ssl.endpoint.identification.algorithm": "https",
        "listener.name.raft.ssl.endpoint.identification.algorithm": "",
        "ssl.key.password": " blanks do not count ",
    }
    raft, other = (Security.of_listener(name, SecurityProtocol.SSL, values) for name in ("RAFT", "OTHER"))
    name = "ssl.endpoint.identification.algorithm"
    assert (raft.text("ssl.client.auth"), other.text("ssl.client.auth")) == ("required", "none")
    assert (raft.text(name, "https"), other.text(name)) == ("", "https")
    assert raft.text("ssl.key.password") == "blanks do not count"
    assert raft.error("ssl.client.auth", "").key == "listener.name.raft.ssl.client.auth"


def test_plaintext_listener_has_no_settings() -> None:
    assert Security.of_listener("A", SecurityProtocol.PLAINTEXT, {"ssl.client.auth": "none"}) == Security()


METRICS = {"listener.security.protocol.map": "CONTROLLER:SASL_SSL, prometheus:ssl"}


def test_metrics_that_are_no_nodes_have_the_properties_of_a_nodes() -> None:
    given = {"ssl.client.auth": "none", "listener.name.prometheus.ssl.client.auth": "required"}
    others = {"listener.name.controller.sasl.enabled.mechanisms": "PLAIN", "security.protocol": "SASL_SSL"}
    found = Security.of_metrics({**METRICS, **given, **others})
    assert (found.protocol, found.text("ssl.client.auth")) == (SecurityProtocol.SSL, "required")
    assert Security.of_metrics(others) == Security()


@pytest.mark.parametrize(
    ("given", "key", "reason"),
    [
        (
            {"listener.name.prometheus.ssl.client.auth": "required"},
            "listener.name.prometheus.ssl.client.auth",
            "effect",
        ),
        ({"listener.security.protocol.map": "PROMETHEUS:SASL_SSL"}, "listener.security.protocol.map", "no SASL"),
        ({"listener.security.protocol.map": "PROMETHEUS:TLS"}, "listener.security.protocol.map", "NAME:PROTOCOL"),
        (
            {**METRICS, "listener.name.prometheus.ssl.provider": "x"},
            "listener.name.prometheus.ssl.provider",
            "honoured",
        ),
        (
            {**METRICS, "listener.name.prometheus.ssl.client.auth": "x"},
            "listener.name.prometheus.ssl.client.auth",
            "one",
        ),
    ],
)
def test_metrics_never_fall_back_to_the_clear(given: dict[str, str], key: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Security.of_metrics(given)
    assert (caught.value.key, reason in caught.value.allowed) == (key, True)


def test_client_has_kafkas_properties() -> None:
    found = Security.of_client({"security.protocol": "ssl", "ssl.truststore.location": "/ca.pem", "client.id": "a"})
    assert (found.protocol, found.text("ssl.truststore.location")) == (SecurityProtocol.SSL, "/ca.pem")
    assert Security.of_client({}) == Security.of_client({"ssl.key.password": " "}) == Security()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("security.protocol", "TLS"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.jaas.config", "secret"),
        ("ssl.truststore.location", "/ca.pem"),
    ],
)
def test_client_never_falls_back_to_the_clear(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Security.of_client({key: value})
    assert caught.value.key == key
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ssl.client.auth", "maybe"),
        ("ssl.keystore.type", "BKS"),
        ("ssl.enabled.protocols", "TLSv1.1,TLSv1.2"),
        ("ssl.endpoint.identification.algorithm", "none"),
        ("sasl.enabled.mechanisms", "PLAIN,GSSAPI"),
        ("sasl.mechanism.controller.protocol", "GSSAPI"),
        ("connections.max.reauth.ms", "-1"),
        ("plain.connections.max.reauth.ms", "x"),
        ("sasl.oauthbearer.clock.skew.seconds", "1.5"),
        ("sasl.login.callback.handler.class", "com.example.Handler"),
        ("oauthbearer.sasl.server.callback.handler.class", "com.example.Handler"),
    ],
)
def test_wrong_value_is_refused(key: str, value: str) -> None:
    for prefix in ("", "listener.name.raft."):
        given = {"sasl.enabled.mechanisms": "PLAIN", prefix + key: value}
        with pytest.raises(ConfigError) as caught:
            Security.of_listener("RAFT", SecurityProtocol.SASL_SSL, given)
        assert (caught.value.key, caught.value.value) == (prefix + key, value)


@pytest.mark.parametrize(
    "key",
    [
        "ssl.engine.factory.class",
        "listener.name.raft.ssl.provider",
        "listener.name.nobody.ssl.client.auth",
        "listener.name.nobody.plain.sasl.jaas.config",
        "listener.name.raft.gssapi.sasl.jaas.config",
        "sasl.kerberos.service.name",
        "sasl.login.class",
        "authorizer.example.rules",
    ],
)
def test_what_cannot_be_honoured_is_refused_with_its_name(key: str) -> None:
    refuse_unsupported({key: " "}, listeners=("RAFT",))
    with pytest.raises(ConfigError) as caught:
        refuse_unsupported({key: "x"}, listeners=("RAFT",))
    assert caught.value.key == key


def test_printed_settings_have_no_secret() -> None:
    values = {"ssl.key.password": "s3cret", "ssl.keystore.key": "s3cret", "ssl.keystore.location": "/n.pem"}
    text = repr(Security.of_listener("A", SecurityProtocol.SSL, values))
    assert "s3cret" not in text
    assert "ssl.keystore.location=/n.pem" in text


def test_unknown_protocol_is_refused_with_all_that_there_are() -> None:
    with pytest.raises(ConfigError, match="one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"):
        protocol_of("listeners", "A:B", "B")


def test_documentation_names_each_property() -> None:
    page = (ROOT / "docs" / "security-reference.md").read_text()
    assert [name for name in (*TLS_NAMES, *SASL_NAMES) if f"`{name}`" not in page] == []


def test_mechanisms_own_property_counts_before_that_of_all() -> None:
    values = {
        "listener.name.a.sasl.enabled.mechanisms": "PLAIN, OAUTHBEARER",
        "plain.sasl.jaas.config": "1",
        "sasl.jaas.config": "2",
        "listener.name.a.oauthbearer.sasl.jaas.config": "3",
    }
    found = Security.of_listener("A", SecurityProtocol.SASL_PLAINTEXT, values)
    name = "sasl.jaas.config"
    assert [found.of_mechanism(each, name) for each in ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")] == ["1", "2", "3"]
    assert found.key_of("PLAIN", name) == "plain.sasl.jaas.config"
    assert found.mechanisms == ["PLAIN", "OAUTHBEARER"]


def test_protocol_honours_its_own_properties_only() -> None:
    values = {"ssl.client.auth": "none", "sasl.enabled.mechanisms": "PLAIN"}
    found = {
        protocol: [name for name, _ in Security.of_listener("A", protocol, values).settings]
        for protocol in SecurityProtocol
    }
    assert found == {
        SecurityProtocol.PLAINTEXT: [],
        SecurityProtocol.SSL: ["ssl.client.auth"],
        SecurityProtocol.SASL_PLAINTEXT: ["sasl.enabled.mechanisms"],
        SecurityProtocol.SASL_SSL: ["ssl.client.auth", "sasl.enabled.mechanisms"],
    }


def test_sasl_without_a_mechanism_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        Security.of_listener("A", SecurityProtocol.SASL_SSL, {})
    assert caught.value.key == "sasl.enabled.mechanisms"
    with pytest.raises(ConfigError) as caught:
        Security.of_client({"security.protocol": "SASL_PLAINTEXT"})
    assert caught.value.key == "sasl.mechanism"


def test_sasl_of_a_listener_with_tls_alone_is_refused() -> None:
    given = {"listeners": "SSL://localhost:9093", "controller__listener__names": "SSL", **TLS}
    problem = refused(**given, sasl__enabled__mechanisms="PLAIN")
    assert (problem.key, problem.allowed[:33]) == ("sasl.enabled.mechanisms", "no listener uses it: give one SAS")
