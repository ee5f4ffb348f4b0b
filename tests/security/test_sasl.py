"""Properties of SASL: JAAS text, tokens, mechanisms and credentials; what is missing ends the start."""

import base64
import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from pykraft.errors import AuthenticationError, ConfigError
from pykraft.security import sasl
from pykraft.security.exchanges import Asking, PlainAsk, ScramAsk
from pykraft.security.sasl import Mechanisms, SaslCredentials, Validator, options_of, read_token, token_file
from pykraft.security.settings import MECHANISMS, Security, SecurityProtocol
from pykraft.security.users import NewUser, ScramUsers, write_users
from tests.security.proofs import MODULES, PASSWORD, USER, jaas, key_set, sasl_security, signing_key, token


def options(text: str, mechanism: str = "PLAIN") -> dict[str, str]:
    values = {"sasl.enabled.mechanisms": mechanism, f"listener.name.a.{mechanism.lower()}.sasl.jaas.config": text}
    return dict(options_of(Security.of_listener("A", SecurityProtocol.SASL_SSL, values), mechanism))


PLAIN = MODULES["PLAIN"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{PLAIN} required;", {}),
        (f'  {PLAIN}  REQUIRED\n a="b"\tuser_c = d-e ;  ', {"a": "b", "user_c": "d-e"}),
        (f'{PLAIN} required a="x; \\"y\\" \\\\ =z" b="";', {"a": 'x; "y" \\ =z', "b": ""}),
        (jaas("PLAIN"), {"username": "alice", "password": PASSWORD, "user_alice": PASSWORD}),
        ("", {}),
    ],
)
def test_options_are_read_as_kafka_reads_them(text: str, found: dict[str, str]) -> None:
    assert options(text) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f'{PLAIN} required a="s3cret"', "a semicolon"),
        (f'{PLAIN} required a="s3cret;', "a semicolon"),
        (f'{PLAIN} required a="s3cret"; {PLAIN} required;', "one login module"),
        (f"{PLAIN} s3cret;", "required, requisite, sufficient, optional"),
        ("s3cret", "it begins with a login module"),
        (MODULES["SCRAM-SHA-256"] + " required;", PLAIN),
    ],
)
def test_wrong_text_is_refused_without_a_quotation(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        options(text)
    assert caught.value.key == "listener.name.a.plain.sasl.jaas.config"
    assert "s3cret" not in str(caught.value)


def test_property_without_mechanism_is_for_all() -> None:
    values = {"sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": f"{PLAIN} required a=b;"}
    assert options_of(Security.of_listener("A", SecurityProtocol.SASL_SSL, values), "PLAIN") == {"a": "b"}


CLAIMS = "sasl__oauthbearer__"


def validator(folder: Path, **given: str) -> Validator:
    return Validator(sasl_security(folder, "OAUTHBEARER", **given))


def test_good_token_names_its_subject_until_it_expires(tmp_path: Path) -> None:
    proven = validator(tmp_path).validate(token(exp=int(time.time()) + 100))
    assert proven.name == USER
    assert 90 < proven.lifetime_s <= 100
    assert validator(tmp_path).validate(token(kid=None)).name == USER


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"exp": 1}, "expired"),
        ({"lacks": "exp"}, "exp"),
        ({"lacks": "iat"}, "iat"),
        ({"lacks": "sub"}, "its claim sub is no name"),
        ({"sub": " "}, "its claim sub is no name"),
        ({"nbf": 10**11}, "not yet valid"),
        ({"aud": "others"}, "udience"),
        ({"kid": "unknown"}, "none of the keys has signed it"),
        ({"exp": "soon"}, "integer"),
    ],
)
def test_token_that_does_not_count_is_refused_with_the_reason(
    claims: dict[str, Any], words: str, tmp_path: Path
) -> None:
    bad = token(**claims)
    with pytest.raises(AuthenticationError, match=words) as caught:
        validator(tmp_path).validate(bad)
    assert caught.value.told is None
    assert bad not in str(caught.value)


def test_signature_of_another_key_or_none_does_not_count(tmp_path: Path) -> None:
    checks = validator(tmp_path)
    head, body, _ = token().split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').decode().rstrip("=")
    public = jwt.algorithms.ECAlgorithm.to_jwk(signing_key().public_key())
    bad = [
        token(key=ec.generate_private_key(ec.SECP256R1())),
        f"{none}.{body}.",
        f"{head}.{body}.",
        f"{head}.{body}",
        token(key=public.encode() * 2, algorithm="HS256"),
        "",
        "\xff",
    ]
    for each in bad:
        with pytest.raises(AuthenticationError):
            checks.validate(each)


@pytest.mark.parametrize(
    ("name", "value", "good", "bad"),
    [
        (f"{CLAIMS}expected__audience", "a, b", {"aud": ["b", "c"]}, {"aud": "c"}),
        (f"{CLAIMS}expected__audience", "a", {"aud": "a"}, {}),
        (f"{CLAIMS}expected__issuer", "i", {"iss": "i"}, {"iss": "j"}),
        (f"{CLAIMS}sub__claim__name", "user", {"user": USER, "sub": "x"}, {"user": 7}),
        (
            f"{CLAIMS}clock__skew__seconds",
            "90000",
            {"exp": int(time.time()) - 1_000},
            {"exp": int(time.time()) - 90_001},
        ),
        ("pykraft__oauthbearer__required__scope", "a,b", {"scope": "b c a"}, {"scope": "a c"}),
        ("pykraft__oauthbearer__required__scope", "a", {"scope": ["a"]}, {"scope": 7}),
    ],
)
def test_expectations_of_the_properties(
    name: str, value: str, good: dict[str, Any], bad: dict[str, Any], tmp_path: Path
) -> None:
    checks = validator(tmp_path, **{name: value})
    assert checks.validate(token(**good)).name == USER
    with pytest.raises(AuthenticationError):
        checks.validate(token(**bad))


def test_scope_may_be_in_another_claim(tmp_path: Path) -> None:
    given = {f"{CLAIMS}scope__claim__name": "scp", "pykraft__oauthbearer__required__scope": "a"}
    assert validator(tmp_path, **given).validate(token(scp="a")).name == USER


def test_all_keys_with_the_name_are_tried(tmp_path: Path) -> None:
    security = sasl_security(tmp_path, "OAUTHBEARER")
    other = ec.generate_private_key(ec.SECP256R1())
    (tmp_path / "keys.json").write_text(key_set(other, signing_key(), kid="same"))
    assert Validator(security).validate(token(kid="same")).name == USER


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"keys": []}',
        '{"keys": [7]}',
        json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}]}),
        key_set(signing_key(), use="enc"),
    ],
)
def test_file_without_public_keys_ends_the_start(content: str, tmp_path: Path) -> None:
    security = sasl_security(tmp_path, "OAUTHBEARER")
    (tmp_path / "keys.json").write_text(content)
    with pytest.raises(ConfigError) as caught:
        Validator(security)
    assert caught.value.key == "sasl.oauthbearer.jwks.endpoint.url"


@pytest.mark.parametrize("url", ["https://example.org/keys", "file:keys.json", "file://host/keys.json", "/keys.json"])
def test_url_must_be_a_files(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the URL of a file"):
        validator(tmp_path, sasl__oauthbearer__jwks__endpoint__url=url)


def test_own_token_is_read_without_blanks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = token_file(sasl_security(tmp_path, "OAUTHBEARER"))
    path.write_text(" abc\n")
    assert read_token(path) == "abc"
    path.write_text("\n")
    with pytest.raises(AuthenticationError, match=f"no token in {path}"):
        read_token(path)
    monkeypatch.setattr(sasl, "SIZE_BYTES_MAX", 4)
    path.write_text("abcdef")
    with pytest.raises(AuthenticationError, match="more than 4 bytes"):
        read_token(path)
    path.unlink()
    with pytest.raises(AuthenticationError, match="No such file"):
        read_token(path)


def name_of(mechanisms: Mechanisms, mechanism: str, asking: Asking) -> str | None:
    answering = mechanisms.begin(mechanism)
    message: bytes | None = asking.begin()
    while message is not None:
        message = asking.answer(answering.answer(message))
    return None if answering.proven is None else answering.proven.name


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_node_proves_itself_to_another_one(mechanism: str, tmp_path: Path) -> None:
    security = sasl_security(tmp_path, mechanism)
    credentials = SaslCredentials(security)
    assert credentials.mechanism == mechanism
    assert name_of(Mechanisms(security), mechanism, credentials.begin()) == USER


def test_users_and_keys_are_taken_up_when_they_change(tmp_path: Path) -> None:
    mechanism = "SCRAM-SHA-512"
    mechanisms = Mechanisms(sasl_security(tmp_path, mechanism))
    before = mechanisms.begin(mechanism)
    users: ScramUsers = {}
    NewUser(mechanism, "carol", "another").add_to(users)
    write_users(tmp_path / "users.json", users)
    assert mechanisms.refresh() == f"users and keys were read again: {tmp_path}/users.json"
    assert mechanisms.refresh() is None
    assert name_of(mechanisms, mechanism, ScramAsk(mechanism, "carol", "another")) == "carol"
    with pytest.raises(AuthenticationError):
        name_of(mechanisms, mechanism, ScramAsk(mechanism, USER, PASSWORD))
    asking = ScramAsk(mechanism, USER, PASSWORD)
    final = asking.answer(before.answer(asking.begin()))
    assert final is not None
    before.answer(final)
    assert before.proven is not None, "an authentication under way ends as it began"


def test_broken_file_keeps_what_was_there(tmp_path: Path) -> None:
    security = sasl_security(tmp_path, "OAUTHBEARER")
    mechanisms = Mechanisms(security)
    (tmp_path / "keys.json").write_text("{}")
    report = mechanisms.refresh()
    assert report is not None
    words = "changed users and keys are not taken up, the former ones stay in use: property sasl.oauthbearer."
    assert report.startswith(words)
    assert mechanisms.is_stale
    assert name_of(mechanisms, "OAUTHBEARER", SaslCredentials(security).begin()) == USER
    (tmp_path / "keys.json").write_text(key_set(signing_key(), kid="other"))
    mechanisms.refresh()
    assert not mechanisms.is_stale
    (tmp_path / "token").write_text(token(kid="other"))
    assert name_of(mechanisms, "OAUTHBEARER", SaslCredentials(security).begin()) == USER


@pytest.mark.parametrize(
    ("mechanism", "given", "key"),
    [
        ("PLAIN", {"plain__sasl__jaas__config": ""}, "sasl.jaas.config"),
        ("SCRAM-SHA-256", {"pykraft__scram__users": ""}, "pykraft.scram.users"),
        ("SCRAM-SHA-256", {"pykraft__scram__users": "/nowhere"}, "pykraft.scram.users"),
        ("OAUTHBEARER", {"sasl__oauthbearer__jwks__endpoint__url": ""}, "sasl.oauthbearer.jwks.endpoint.url"),
        ("OAUTHBEARER", {"oauthbearer__sasl__jaas__config": jaas("PLAIN")}, "oauthbearer.sasl.jaas.config"),
    ],
)
def test_listener_without_what_its_mechanism_needs_is_refused(
    mechanism: str, given: dict[str, str], key: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        Mechanisms(sasl_security(tmp_path, mechanism, **given))
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("mechanism", "given", "key"),
    [
        ("PLAIN", {"plain__sasl__jaas__config": ""}, "sasl.jaas.config"),
        ("SCRAM-SHA-256", {"scram-sha-256__sasl__jaas__config": ""}, "sasl.jaas.config"),
        ("SCRAM-SHA-512", {"scram-sha-512__sasl__jaas__config": jaas("SCRAM-SHA-512", user="\a")}, "sasl.jaas.config"),
        ("OAUTHBEARER", {"sasl__oauthbearer__token__endpoint__url": ""}, "sasl.oauthbearer.token.endpoint.url"),
        ("PLAIN", {"sasl__mechanism__controller__protocol": ""}, "sasl.mechanism.controller.protocol"),
    ],
)
def test_node_without_what_it_proves_itself_with_is_refused(
    mechanism: str, given: dict[str, str], key: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        SaslCredentials(sasl_security(tmp_path, mechanism, **given))
    assert caught.value.key == key


def test_session_is_as_long_as_the_mechanisms_property_says(tmp_path: Path) -> None:
    given = {"connections__max__reauth__ms": "2500", "scram-sha-256__connections__max__reauth__ms": "500"}
    mechanisms = Mechanisms(sasl_security(tmp_path, "PLAIN", **given))
    assert (mechanisms.lifetime_s("PLAIN"), mechanisms.lifetime_s("SCRAM-SHA-256")) == (2.5, 0.5)
    assert Mechanisms(sasl_security(tmp_path, "PLAIN")).lifetime_s("PLAIN") == float("inf")


def test_embedded_node_accepts_what_it_uses() -> None:
    values = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": jaas("PLAIN"),
        "client.id": "x",
    }
    security = Security.of_client(values)
    assert security.protocol is SecurityProtocol.SASL_PLAINTEXT
    asking = SaslCredentials(security).begin()
    assert asking == PlainAsk(USER, PASSWORD)
    assert name_of(Mechanisms(security), "PLAIN", asking) == USER
