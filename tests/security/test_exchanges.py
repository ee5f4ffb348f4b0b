"""Messages of PLAIN, SCRAM and OAUTHBEARER: who is proven, what a refusal says, and that no bytes do harm."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scramp import ScramMechanism

from pykraft.errors import AuthenticationError
from pykraft.security import exchanges
from pykraft.security.exchanges import (
    Answering,
    Asking,
    BearerAnswer,
    BearerAsk,
    PlainAnswer,
    PlainAsk,
    Proven,
    Scram,
    ScramAnswer,
    ScramAsk,
)
from tests.security.proofs import PASSWORD, USER

SHA = "SCRAM-SHA-256"


def kept(password: str = PASSWORD, iterations: int = 4_096) -> Scram:
    made: Scram = ScramMechanism(SHA).make_auth_info(password, iterations)
    return made


KEPT = kept()


def validate(token: str) -> Proven:
    if token != "good":  # noqa: S105 - a test's
        raise AuthenticationError("the reason, which only the log has")
    return Proven(USER, 5.0)


ANSWERS: list[Callable[[], Answering]] = [
    lambda: PlainAnswer({USER: PASSWORD}),
    lambda: ScramAnswer(SHA, {USER: KEPT}),
    lambda: BearerAnswer(validate),
]


def talk(asking: Asking, answering: Answering) -> int:
    """Let both ends talk until the asking one is done; returns the number of messages."""
    message: bytes | None = asking.begin()
    count = 0
    while message is not None:
        assert answering.proven is None
        count += 1
        message = asking.answer(answering.answer(message))
    return count


@pytest.mark.parametrize(
    ("asking", "at", "count", "lifetime_s"),
    [
        (PlainAsk(USER, PASSWORD), 0, 1, float("inf")),
        (ScramAsk(SHA, USER, PASSWORD), 1, 2, float("inf")),
        (BearerAsk(lambda: "good"), 2, 1, 5.0),
    ],
    ids=["PLAIN", "SCRAM", "OAUTHBEARER"],
)
def test_user_with_the_right_secret_is_proven(asking: Asking, at: int, count: int, lifetime_s: float) -> None:
    answering = ANSWERS[at]()
    assert talk(asking, answering) == count
    assert answering.proven == Proven(USER, lifetime_s)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0bob\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0\0wrong", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (
            f"bob\0alice\0{PASSWORD}".encode(),
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"alice", None),
        (b"\0\0\0", None),
        (b"\xff\0\0", None),
    ],
)
def test_plain_refuses_in_kafkas_words(message: bytes, told: str | None) -> None:
    answering = PlainAnswer({USER: PASSWORD})
    with pytest.raises(AuthenticationError) as caught:
        answering.answer(message)
    assert (caught.value.told, answering.proven) == (told, None)
    assert PASSWORD not in str(caught.value)


def test_plain_user_may_ask_for_its_own_identity() -> None:
    answering = PlainAnswer({USER: PASSWORD})
    answering.answer(f"{USER}\0{USER}\0{PASSWORD}".encode())
    assert answering.proven == Proven(USER)


@pytest.mark.parametrize(("user", "password"), [("bob", PASSWORD), (USER, "wrong")])
def test_scram_refuses_without_saying_what_is_wrong(user: str, password: str) -> None:
    answering = ScramAnswer(SHA, {USER: KEPT})
    with pytest.raises(AuthenticationError) as caught:
        talk(ScramAsk(SHA, user, password), answering)
    assert (caught.value.told, answering.proven) == (None, None)


def test_client_of_scram_knows_a_server_that_does_not_know_the_password() -> None:
    asking, honest = ScramAsk(SHA, USER, PASSWORD), ScramAnswer(SHA, {USER: KEPT})
    final = asking.answer(honest.answer(asking.begin()))
    assert final is not None
    with pytest.raises(AuthenticationError, match="does not know the password"):
        asking.answer(b"v=AAAA")
    early = ScramAsk(SHA, USER, PASSWORD)
    early.begin()
    with pytest.raises(AuthenticationError):
        early.answer(b"")


def test_client_of_scram_does_not_hash_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "ITERATIONS_MAX", 4_999)
    with pytest.raises(AuthenticationError, match="more than 4999 iterations"):
        talk(ScramAsk(SHA, USER, PASSWORD), ScramAnswer(SHA, {USER: kept(iterations=5_000)}))


def test_refused_token_ends_after_the_clients_byte_as_in_kafka() -> None:
    answering = BearerAnswer(validate)
    asking = BearerAsk(lambda: "stolen")
    challenge = answering.answer(asking.begin())
    assert challenge == b'{"status":"invalid_token"}'
    last = asking.answer(challenge)
    assert last == b"\1"
    with pytest.raises(AuthenticationError) as caught:
        answering.answer(last)
    assert (caught.value.told, str(caught.value)) == (challenge.decode(), "the reason, which only the log has")


@pytest.mark.parametrize(
    ("message", "is_proven"),
    [
        (b"n,,\1auth=Bearer good\1\1", True),
        (b"n,a=alice,\1auth=bearer good\1traceId=7\1\1", True),
        (b"n,a=bob,\1auth=Bearer good\1\1", False),
        (b"n,,\1auth=Basic good\1\1", False),
        (b"n,,\1auth=Bearer good\1", False),
        (b"y,,\1auth=Bearer good\1\1", False),
        (b"n,,\1traceId=7\1\1", False),
        (b"", False),
    ],
)
def test_messages_of_oauthbearer(message: bytes, is_proven: bool) -> None:
    answering = BearerAnswer(validate)
    try:
        assert answering.answer(message) == b""
    except AuthenticationError:
        assert not is_proven
    assert (answering.proven == Proven(USER, 5.0)) == is_proven


@pytest.mark.parametrize("make", ANSWERS)
@given(st.lists(st.binary(max_size=64) | st.from_regex(rb"\A(n,,)?([a-z]=[a-zA-Z0-9+/=]{0,40},?){1,4}\Z"), max_size=3))
def test_no_bytes_prove_anything(make: Callable[[], Answering], messages: list[bytes]) -> None:
    answering = make()
    try:
        for message in messages:
            answering.answer(message)
    except AuthenticationError:
        pass
    assert answering.proven is None


@given(st.binary(max_size=64) | st.from_regex(rb"\A([a-z]=[a-zA-Z0-9+/=]{0,40},?){1,4}\Z"))
def test_no_bytes_convince_a_client_of_scram(challenge: bytes) -> None:
    asking = ScramAsk(SHA, USER, PASSWORD)
    asking.begin()
    with pytest.raises(AuthenticationError):
        asking.answer(challenge)


def test_printed_exchange_has_no_secret() -> None:
    assert PASSWORD not in repr(PlainAsk(USER, PASSWORD))
