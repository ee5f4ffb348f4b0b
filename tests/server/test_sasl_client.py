"""The asking end of SASL: it authenticates first, again in time, and stops at the first refusal."""

from pathlib import Path

import pytest

from pykraft.errors import AuthenticationError, ProtocolError
from pykraft.protocol.api import encode_response
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.security.sasl import Mechanisms, SaslCredentials
from pykraft.security.settings import MECHANISMS
from pykraft.server.sasl_client import SHARE_MAX, SHARE_MIN, SaslClient
from pykraft.server.sasl_server import SaslServer
from pykraft.types import Buffer
from tests.security.proofs import PASSWORD, USER, jaas, sasl_security


def ends(folder: Path, mechanism: str = "PLAIN", **given: str) -> tuple[SaslClient, SaslServer]:
    security = sasl_security(folder, mechanism, **given)
    return SaslClient(SaslCredentials(security)), SaslServer(Mechanisms(security))


def unframed(parts: list[Buffer]) -> bytes:
    return b"".join(map(bytes, parts))[4:]


def talk(client: SaslClient, server: SaslServer, request: list[Buffer], now_s: float) -> list[Buffer]:
    """Bring messages to and fro until the client has what it waits to send, or nothing more."""
    while (answer := server.receive(unframed(request), now_s)) is not None:
        more = client.receive(unframed(answer), now_s)
        assert more is not None
        if client._exchange is None:
            return more
        request = more
    raise AssertionError("SASL passed on a request")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_both_ends_agree_and_begin_again_before_the_session_ends(mechanism: str, tmp_path: Path) -> None:
    client, server = ends(tmp_path, mechanism, connections__max__reauth__ms="100000")
    assert talk(client, server, client.begin(), 0.0) == []
    assert (client.is_done, server.principal.name) == (True, USER)
    request: list[Buffer] = [b"a request"]
    early_s, late_s = 100 * SHARE_MIN - 0.1, 100 * SHARE_MAX
    assert client.outgoing(request, early_s) is request
    assert client.receive(b"an answer", early_s) is None
    first = client.outgoing(request, late_s)
    assert first != request
    assert talk(client, server, first, late_s) is request
    assert client.receive(b"an answer", late_s) is None
    assert client.outgoing(request, late_s) is request


def test_session_without_end_is_not_renewed(tmp_path: Path) -> None:
    client, server = ends(tmp_path)
    talk(client, server, client.begin(), 0.0)
    request: list[Buffer] = [b"a request"]
    assert client.outgoing(request, 10.0**9) is request


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error_code": 33, "mechanisms": ["GSSAPI", "X"]}, "does not accept SASL mechanism PLAIN, but GSSAPI, X"),
        ({"error_code": 33}, "but none"),
        ({"error_code": 34}, "ILLEGAL_SASL_STATE"),
    ],
)
def test_refused_handshake_ends_it_before_any_secret_was_sent(body: Body, words: str, tmp_path: Path) -> None:
    client, _ = ends(tmp_path)
    assert PASSWORD.encode() not in unframed(client.begin())
    with pytest.raises(AuthenticationError, match=words):
        client.receive(b"".join(map(bytes, encode_response(ApiKey.SASL_HANDSHAKE, 1, 0, body))), 0.0)


def test_refused_credentials_are_an_error_with_what_the_other_end_says(tmp_path: Path) -> None:
    client, _ = ends(tmp_path)
    client.begin()
    client.receive(b"".join(map(bytes, encode_response(ApiKey.SASL_HANDSHAKE, 1, 0, {"error_code": 0}))), 0.0)
    body = {"error_code": 58, "error_message": "not you"}
    with pytest.raises(AuthenticationError, match="it refuses these credentials of PLAIN: not you") as caught:
        client.receive(b"".join(map(bytes, encode_response(ApiKey.SASL_AUTHENTICATE, 2, 0, body))), 0.0)
    assert PASSWORD not in str(caught.value)


def test_answer_that_is_none_is_an_error(tmp_path: Path) -> None:
    client, _ = ends(tmp_path)
    client.begin()
    with pytest.raises(ProtocolError):
        client.receive(b"SSH-", 0.0)


def test_other_end_that_does_not_know_the_password_is_refused(tmp_path: Path) -> None:
    mechanism = "SCRAM-SHA-256"
    other = jaas(mechanism, password="another")  # noqa: S106 - a test's
    _, server = ends(tmp_path, mechanism)
    client, _ = ends(tmp_path, mechanism, **{"scram-sha-256__sasl__jaas__config": other})
    with pytest.raises(ProtocolError):
        talk(client, server, client.begin(), 0.0)
