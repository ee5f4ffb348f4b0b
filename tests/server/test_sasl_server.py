"""The answering end of SASL: what may be sent when, in Kafka's order and with Kafka's errors."""

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pykraft.errors import ErrorCode
from pykraft.host.controller_answers import ANSWERS
from pykraft.protocol.api import decode_response, encode_request
from pykraft.protocol.messages import APIS, SASL_KEYS, ApiKey
from pykraft.protocol.schema import Body
from pykraft.security.exchanges import BearerAnswer, PlainAnswer, Proven
from pykraft.security.principal import ANONYMOUS, Principal
from pykraft.security.sasl import Mechanisms
from pykraft.server.sasl_server import FRAMES_MAX, SaslRefusal, SaslServer
from pykraft.types import Buffer
from tests.security.proofs import MODULES, PASSWORD, USER, sasl_security, token

ALICE = Principal(USER)
GOOD = f"\0{USER}\0{PASSWORD}".encode()
BOB = f"\0bob\0{PASSWORD}".encode()


def server(folder: Path, mechanism: str = "PLAIN", **given: str) -> SaslServer:
    return SaslServer(Mechanisms(sasl_security(folder, mechanism, **given)))


def request(key: ApiKey, version: int, **body: Any) -> bytes:
    return b"".join(map(bytes, encode_request(key, version, 7, "test", body)))


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    return request(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)


def authenticate(message: bytes = GOOD, version: int = 2) -> bytes:
    return request(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=message)


def read(key: ApiKey, version: int, answer: list[Buffer] | None) -> Body:
    assert answer is not None
    data = b"".join(map(bytes, answer))
    assert struct.unpack_from(">ii", data) == (len(data) - 4, 7)
    return decode_response(key, version, data[4:])[1]


def authenticated(sasl: SaslServer, now_s: float = 0.0, message: bytes = GOOD, version: int = 2) -> Body:
    """What the last answer says."""
    told = read(ApiKey.SASL_HANDSHAKE, 1, sasl.receive(handshake(), now_s))
    assert told == {"error_code": 0, "mechanisms": ["PLAIN"]}
    return read(ApiKey.SASL_AUTHENTICATE, version, sasl.receive(authenticate(message, version), now_s))


def refused(sasl: SaslServer, data: bytes, now_s: float = 0.0) -> SaslRefusal:
    with pytest.raises(SaslRefusal) as caught:
        sasl.receive(data, now_s)
    return caught.value


VERSIONS = request(ApiKey.API_VERSIONS, 3, client_software_name="x", client_software_version="1")
VOTE = struct.pack(">hhihh", ApiKey.VOTE, 2, 7, -1, 0)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_client_is_anonymous_until_it_has_proven_its_name(version: int, tmp_path: Path) -> None:
    sasl = server(tmp_path)
    assert sasl.receive(VERSIONS, 0.0) is None
    assert not sasl.is_done
    told = authenticated(sasl, version=version)
    assert (told["error_code"], told["auth_bytes"], told.get("session_lifetime_ms", 0)) == (0, b"", 0)
    assert (sasl.principal, sasl.is_done) == (ALICE, True)
    assert sasl.receive(VOTE, 10**9) is None
    assert sasl.receive(VERSIONS, 10**9) is None


def test_messages_after_version_0_of_the_handshake_are_bare(tmp_path: Path) -> None:
    sasl = server(tmp_path)
    assert read(ApiKey.SASL_HANDSHAKE, 0, sasl.receive(handshake(version=0), 0.0))["error_code"] == 0
    assert b"".join(map(bytes, sasl.receive(GOOD, 0.0) or ())) == bytes(4)
    assert sasl.principal == ALICE
    other = server(tmp_path)
    other.receive(handshake(version=0), 0.0)
    assert refused(other, b"\0alice\0wrong").answer == []


@pytest.mark.parametrize(
    "data", [VOTE, b"\0", b"", b"\xff" * 10, struct.pack(">hhih", 17, 1, 7, 30_000), struct.pack(">hhih", 17, 2, 7, -1)]
)
def test_anything_else_ends_the_connection_unanswered(data: bytes, tmp_path: Path) -> None:
    sasl = server(tmp_path)
    assert refused(sasl, data).answer == []
    assert sasl.principal == ANONYMOUS


@pytest.mark.parametrize("before", [[], [VERSIONS], [handshake()]], ids=["at first", "after versions", "within"])
def test_no_api_of_any_version_is_served_to_who_has_proven_nothing(before: list[bytes], tmp_path: Path) -> None:
    mechanisms, tried = Mechanisms(sasl_security(tmp_path, "PLAIN")), 0
    for key in {*APIS, *ANSWERS} - {*SASL_KEYS, ApiKey.API_VERSIONS}:
        for version in range(20):
            sasl = SaslServer(mechanisms)
            for data in before:
                sasl.receive(data, 0.0)
            assert refused(sasl, struct.pack(">hhihb", key, version, 7, -1, 0) + bytes(100)).answer == []
            assert sasl.principal == ANONYMOUS
            tried += 1
    assert tried > 800


def test_mechanism_that_is_not_enabled_is_refused_with_those_that_are(tmp_path: Path) -> None:
    error = refused(server(tmp_path), handshake("GSSAPI"))
    told = read(ApiKey.SASL_HANDSHAKE, 1, error.answer)
    assert told == {"error_code": ErrorCode.UNSUPPORTED_SASL_MECHANISM, "mechanisms": ["PLAIN"]}
    assert str(error) == "unsupported SASL mechanism 'GSSAPI'"


@pytest.mark.parametrize(
    ("mechanism", "message", "told"),
    [
        ("PLAIN", b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (
            "PLAIN",
            b"?",
            "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN",
        ),
        (
            "SCRAM-SHA-256",
            b"n,,n=nobody,r=abc",
            "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256",
        ),
    ],
)
def test_wrong_credentials_are_answered_in_kafkas_words(
    mechanism: str, message: bytes, told: str, tmp_path: Path
) -> None:
    sasl = server(tmp_path, mechanism)
    sasl.receive(handshake(mechanism), 0.0)
    answer = read(ApiKey.SASL_AUTHENTICATE, 2, refused(sasl, authenticate(message)).answer)
    assert answer["error_code"] == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer["error_message"] == told
    assert sasl.principal == ANONYMOUS


@pytest.mark.parametrize("before", [[], [handshake()]], ids=["at once", "twice"])
def test_request_of_sasl_that_is_out_of_place_is_told_so(before: list[bytes], tmp_path: Path) -> None:
    sasl = server(tmp_path)
    for data in before:
        sasl.receive(data, 0.0)
    key, data = (ApiKey.SASL_HANDSHAKE, handshake()) if before else (ApiKey.SASL_AUTHENTICATE, authenticate())
    answer = read(key, 1 if before else 2, refused(sasl, data).answer)
    assert answer["error_code"] == ErrorCode.ILLEGAL_SASL_STATE


def test_only_a_wrong_proof_is_refused_late(tmp_path: Path) -> None:
    def made(*before: bytes) -> SaslServer:
        sasl = SaslServer(Mechanisms(sasl_security(tmp_path, "PLAIN"), refusal_delay_s=0.1))
        for data in before:
            sasl.receive(data, 0.0)
        return sasl

    guess = b"\0alice\0wrong"
    found = [
        refused(made(handshake()), authenticate(guess)),
        refused(made(handshake(version=0)), guess),
        refused(made(handshake()), handshake()),
        refused(made(), handshake("GSSAPI")),
        refused(made(), VOTE),
    ]
    assert [each.delay_s for each in found] == [0.1, 0.1, 0, 0, 0]


def test_versions_are_not_told_within_the_exchange(tmp_path: Path) -> None:
    sasl = server(tmp_path)
    sasl.receive(handshake(), 0.0)
    refused(sasl, VERSIONS)


def test_requests_before_authentication_are_bounded(tmp_path: Path) -> None:
    sasl = server(tmp_path)
    for _ in range(FRAMES_MAX):
        assert sasl.receive(VERSIONS, 0.0) is None
    refused(sasl, VERSIONS)


def test_session_ends_unless_the_client_authenticates_again(tmp_path: Path) -> None:
    sasl = server(tmp_path, connections__max__reauth__ms="10000")
    assert authenticated(sasl, 5.0)["session_lifetime_ms"] == 10_000
    assert sasl.receive(VOTE, 15.0) is None
    assert authenticated(sasl, 14.0)["session_lifetime_ms"] == 10_000
    assert sasl.receive(VOTE, 24.0) is None
    assert "has not authenticated again" in str(refused(sasl, VOTE, 24.1))
    assert authenticated(sasl, 25.0)["error_code"] == 0, "a handshake is never too late"


def test_session_ends_with_the_token(tmp_path: Path) -> None:
    for reauth_ms, least, most in (("0", 3_500_000, 3_600_000), ("1000", 1_000, 1_000)):
        sasl = server(tmp_path, "OAUTHBEARER", connections__max__reauth__ms=reauth_ms)
        sasl.receive(handshake("OAUTHBEARER"), 0.0)
        message = f"n,,\1auth=Bearer {token()}\1\1".encode()
        told = read(ApiKey.SASL_AUTHENTICATE, 2, sasl.receive(authenticate(message), 0.0))
        assert least <= told["session_lifetime_ms"] <= most


def test_token_within_the_clock_skew_is_good_for_a_moment_and_not_for_ever(tmp_path: Path) -> None:
    sasl = server(tmp_path)
    sasl._mechanisms._made = {"PLAIN": lambda: BearerAnswer(lambda _: Proven(USER, 0.0))}
    assert authenticated(sasl, message=b"n,,\1auth=Bearer x\1\1")["session_lifetime_ms"] == 1


def test_again_is_not_oftener_than_once_a_second(tmp_path: Path) -> None:
    sasl = server(tmp_path)
    authenticated(sasl, 5.0)
    told = read(ApiKey.SASL_HANDSHAKE, 1, sasl.receive(handshake(), 5.9))
    assert told["error_code"] == ErrorCode.ILLEGAL_SASL_STATE
    late = read(ApiKey.SASL_AUTHENTICATE, 2, sasl.receive(authenticate(), 5.9))
    assert (late["error_code"], late["error_message"]) == (
        ErrorCode.ILLEGAL_SASL_STATE,
        "SaslAuthenticate request received after successful authentication",
    )
    assert sasl.is_done
    authenticated(sasl, 6.0)
    for _ in range(FRAMES_MAX):
        sasl.receive(handshake(), 6.5)
    assert "more than" in str(refused(sasl, handshake(), 6.5))


def test_nothing_else_is_passed_on_while_the_client_authenticates_again(tmp_path: Path) -> None:
    sasl = server(tmp_path)
    authenticated(sasl)
    sasl.receive(handshake(), 2.0)
    assert (sasl.principal, sasl.is_done) == (ALICE, False)
    refused(sasl, VOTE, 2.0)


def test_nobody_becomes_another_one(tmp_path: Path) -> None:
    two = f'{MODULES["PLAIN"]} required user_{USER}="same" user_bob="same";'
    sasl = server(tmp_path, plain__sasl__jaas__config=two)
    authenticated(sasl, message=b"\0alice\0same")
    sasl.receive(handshake(), 2.0)
    answer = read(ApiKey.SASL_AUTHENTICATE, 2, refused(sasl, authenticate(b"\0bob\0same"), 2.0).answer)
    assert answer["error_message"] == "Cannot change principals during re-authentication from User:alice: User:bob"
    assert sasl.principal == ALICE


def test_mechanism_stays_the_same(tmp_path: Path) -> None:
    users = "SCRAM-SHA-256"
    sasl_security(tmp_path, users)
    given = {"sasl__enabled__mechanisms": f"PLAIN,{users}", "pykraft__scram__users": str(tmp_path / "users.json")}
    sasl = server(tmp_path, **given)
    sasl.receive(handshake(), 0.0)
    sasl.receive(authenticate(), 0.0)
    told = read(ApiKey.SASL_HANDSHAKE, 1, sasl.receive(handshake(users), 2.0))
    assert told["error_code"] == 0
    answer = read(ApiKey.SASL_AUTHENTICATE, 2, refused(sasl, authenticate(b"n,,n=alice,r=a"), 2.0).answer)
    assert answer["error_message"] == (
        f"SASL mechanism '{users}' requested by client is not supported for re-authentication of mechanism 'PLAIN'"
    )


def test_refusal_of_a_second_authentication_is_told_as_such(tmp_path: Path) -> None:
    sasl = server(tmp_path)
    authenticated(sasl)
    sasl.receive(handshake(), 2.0)
    answer = read(ApiKey.SASL_AUTHENTICATE, 2, refused(sasl, authenticate(b"?"), 2.0).answer)
    assert answer["error_message"] == (
        "Authentication failed during re-authentication due to invalid credentials with SASL mechanism PLAIN"
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from([VERSIONS, VOTE, handshake(), handshake(version=0), handshake("X"), authenticate(BOB)])
        | st.binary(max_size=40)
        | st.binary(max_size=20).map(lambda tail: struct.pack(">hhi", 17, 1, 7) + tail)
        | st.binary(max_size=20).map(lambda tail: struct.pack(">hhi", 36, 2, 7) + tail),
        max_size=20,
    )
)
def test_no_bytes_authenticate_anybody_or_raise_anything_else(tmp_path: Path, frames: list[bytes]) -> None:
    sasl = server(tmp_path)
    sasl._mechanisms._made = {"PLAIN": lambda: PlainAnswer({})}
    try:
        for data in frames:
            if sasl.receive(data, 0.0) is None:
                assert struct.unpack_from(">h", data) == (ApiKey.API_VERSIONS,)
    except SaslRefusal:
        pass
    assert sasl.principal == ANONYMOUS
