"""SASL over real sockets: who becomes a link, what comes early, what a wrong client costs, and a second time."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pykraft.protocol.api import frame
from pykraft.security.acl_file import parse_acls
from pykraft.security.acls import Authorizer, AuthorizerSettings
from pykraft.security.principal import ANONYMOUS, Principal
from pykraft.security.settings import MECHANISMS, Security, SecurityProtocol
from pykraft.server import secured
from pykraft.server.authentication import SASL_FRAME_SIZE_BYTES_MAX
from pykraft.server.secured import NodeTls, warn_of_plaintext
from pykraft.types import Endpoint, Listeners
from tests.security.credentials import properties
from tests.security.proofs import MODULES, PASSWORD, USER, jaas, proofs
from tests.server.station import LISTENER, TIMEOUT_S, Station, framed, hang_up, on_station
from tests.server.test_sasl_server import GOOD, VERSIONS, VOTE, authenticate, handshake
from tests.test_config import NODE

ALICE = Principal(USER)


def node_tls(folder: Path, mechanism: str = "PLAIN", *, tls: bool = False, delay_ms: int = 20, **given: str) -> NodeTls:
    protocol = SecurityProtocol.SASL_SSL if tls else SecurityProtocol.SASL_PLAINTEXT
    values = {**proofs(folder, mechanism), **{key.replace("__", "."): value for key, value in given.items()}}
    if tls:
        values = {**properties(folder), **values}
    security = Security.of_listener(LISTENER, protocol, values)
    at = Listeners(((LISTENER, Endpoint("localhost", 9_000)),))
    config = replace(NODE, listeners=at, controller_listener_names=(LISTENER,), security=((LISTENER, security),))
    return NodeTls(replace(config, failed_authentication_delay_ms=delay_ms))


def echo(station: Station) -> None:
    accepted = station.links._accepted
    station.user.answer = lambda connection, message: (
        station.links.send(connection, frame([message])) if connection in accepted else None
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("tls", [False, True], ids=["SASL_PLAINTEXT", "SASL_SSL"])
async def test_nodes_talk_after_they_have_authenticated(tmp_path: Path, mechanism: str, tls: bool) -> None:
    async with on_station(tls=node_tls(tmp_path, mechanism, tls=tls)) as station:
        links, user = station.links, station.user
        echo(station)
        dialed = links.dial(station.endpoint)
        await user.wait_for(lambda: len(user.heard) == 2)
        large = b"x" * 300_000
        for message in (b"ping", large):
            links.send(dialed, frame([message]))
        await user.wait_for(lambda: len(user.frames) == 4)
        assert {message: user.frames.count(message) for message in user.frames} == {b"ping": 2, large: 2}
        principals = {link.listener: link.principal for link in links._links.values()}
        # Who dials knows the other end by its certificate only.
        assert principals == {LISTENER: ALICE, None: Principal("CN=node") if tls else ANONYMOUS}


async def test_bytes_that_come_early_are_not_lost(tmp_path: Path) -> None:
    async with on_station(tls=node_tls(tmp_path)) as station:
        echo(station)
        reader, writer = await station.client()
        large = b"\0\0" + b"y" * 200_000
        writer.write(framed(handshake()) + framed(authenticate(GOOD)) + framed(b"\0\0one") + framed(large))
        await station.user.wait_for(lambda: station.user.frames == [b"\0\0one", large])
        await hang_up(writer)
        del reader


async def test_versions_are_told_before_authentication_and_nothing_else_is_heard(tmp_path: Path) -> None:
    async with on_station(tls=node_tls(tmp_path)) as station:
        reader, writer = await station.client()
        writer.write(framed(VERSIONS))
        assert await asyncio.wait_for(reader.readexactly(12), TIMEOUT_S) == framed(b"versions")
        assert station.user.heard == []
        writer.write(framed(VOTE))
        assert await asyncio.wait_for(reader.read(), TIMEOUT_S) == b""
        await station.user.wait_for(lambda: station.links.failed_handshakes == 1)
        assert station.user.reports == [
            f"a SASL handshake on {LISTENER} failed, with 127.0.0.1: it asks for API 52, before it has authenticated"
        ]
        assert station.user.frames == []
        await hang_up(writer)


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (framed(b"x" * (SASL_FRAME_SIZE_BYTES_MAX + 1)), f"1 to {SASL_FRAME_SIZE_BYTES_MAX}"),
        (b"\x16\x03\x01\x02", "the peer seems to speak TLS"),
        (framed(handshake()) + framed(authenticate(b"\0alice\0wrong")), "Invalid username or password"),
        (b"", "it closed the connection before SASL was done"),
    ],
)
async def test_wrong_client_never_becomes_a_link(tmp_path: Path, sent: bytes, words: str) -> None:
    async with on_station(tls=node_tls(tmp_path)) as station:
        reader, writer = await station.client()
        writer.write(sent)
        writer.write_eof()
        answered = await asyncio.wait_for(reader.read(), TIMEOUT_S)
        assert (b"Invalid username" in answered) == ("Invalid username" in words)
        await station.user.wait_for(lambda: len(station.user.reports) == 1)
        assert words in station.user.reports[0]
        assert station.user.heard == []
        await hang_up(writer)


async def test_silent_client_has_a_deadline_and_gives_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secured, "HANDSHAKE_S_MAX", 0.05)
    async with on_station(tls=node_tls(tmp_path)) as station:
        reader, writer = await station.client()
        assert await asyncio.wait_for(reader.read(), TIMEOUT_S) == b""
        await station.user.wait_for(lambda: len(station.user.reports) == 1)
        assert "SASL takes longer than 0.05 seconds" in station.user.reports[0]
        await hang_up(writer)
    monkeypatch.setattr(secured, "HANDSHAKE_S_MAX", 10.0)
    monkeypatch.setattr(secured, "HANDSHAKES_MAX", 1)
    async with on_station(tls=node_tls(tmp_path)) as station:
        reader, writer = await station.client()
        station.links.dial(station.endpoint)
        assert await asyncio.wait_for(reader.read(), TIMEOUT_S) == b""
        await station.user.wait_for(lambda: len(station.user.heard) == 2)
        await hang_up(writer)


async def test_who_waits_for_its_refusal_gives_way_and_is_heard_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secured, "HANDSHAKES_MAX", 1)
    async with on_station(tls=node_tls(tmp_path, delay_ms=5_000)) as station:
        reader, writer = await station.client()
        writer.write(framed(handshake()) + framed(authenticate(b"\0alice\0wrong")))
        size_bytes = int.from_bytes(await asyncio.wait_for(reader.readexactly(4), TIMEOUT_S), "big")
        await reader.readexactly(size_bytes)
        writer.write(framed(handshake()) + framed(authenticate(GOOD)))
        station.links.dial(station.endpoint)
        await station.user.wait_for(lambda: len(station.user.heard) == 2)
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), TIMEOUT_S) == b"", "it hears nothing of its guess"
        assert len(station.user.reports) == 1
        assert "1 others are under way, and this one is the oldest" in station.user.reports[0]
        await hang_up(writer)


async def test_refused_dial_says_why(tmp_path: Path) -> None:
    wrong = jaas("PLAIN", password="wrong")  # noqa: S106 - a test's
    async with (
        on_station(tls=node_tls(tmp_path)) as station,
        on_station(tls=node_tls(tmp_path, plain__sasl__jaas__config=wrong)) as other,
        on_station() as plain,
    ):
        other.links.dial(station.endpoint)
        await other.user.wait_for(lambda: len(other.user.reasons) == 1)
        assert other.user.reasons == [
            "it refuses these credentials of PLAIN: Authentication failed: Invalid username or password"
        ]
        other.links.dial(plain.endpoint)
        await plain.user.wait_for(lambda: len(plain.user.frames) == 1)
        assert PASSWORD.encode() not in plain.user.frames[0]
        plain.links.close_all()
        await other.user.wait_for(lambda: len(other.user.reasons) == 2)
        assert "it closed the connection before SASL was done: perhaps it speaks no SASL" in other.user.reasons[1]


async def test_missing_token_is_told_by_who_dials(tmp_path: Path) -> None:
    tls = node_tls(tmp_path, "OAUTHBEARER")
    (tmp_path / "token").unlink()
    async with on_station(tls=tls) as station:
        station.links.dial(station.endpoint)
        await station.user.wait_for(lambda: len(station.user.reasons) == 1)
        assert station.user.reasons == [f"the token in {tmp_path}/token cannot be read: No such file or directory"]


def sessions(station: Station) -> list[Any]:
    return [link.sasl for link in station.links._links.values()]


async def test_session_is_renewed_between_two_requests(tmp_path: Path) -> None:
    async with on_station(tls=node_tls(tmp_path, connections__max__reauth__ms="3600000")) as station:
        links, user = station.links, station.user
        echo(station)
        dialed = links.dial(station.endpoint)
        await user.wait_for(lambda: len(user.heard) == 2)
        [server] = [each for each in sessions(station) if hasattr(each, "principal")]
        [client] = [each for each in sessions(station) if each is not server]
        client._due_s, server._began_s, before_s = 0.0, -10.0, server._expires_s
        links.send(dialed, frame([b"\0\0ping"]))
        await user.wait_for(lambda: user.frames == [b"\0\0ping"] * 2)
        assert server._expires_s > before_s
        assert client._due_s > before_s - 3_600
        client._due_s, server._expires_s = float("inf"), 0.0
        links.send(dialed, frame([b"\0\0late"]))
        await user.wait_for(lambda: len(user.heard) == 4)
        assert user.frames == [b"\0\0ping"] * 2
        assert any("its session has ended" in report for report in user.reports)


async def test_link_whose_second_authentication_fails_is_closed(tmp_path: Path) -> None:
    tls = node_tls(tmp_path, "OAUTHBEARER")
    async with on_station(tls=tls) as station:
        links, user = station.links, station.user
        dialed = links.dial(station.endpoint)
        await user.wait_for(lambda: len(user.heard) == 2)
        for each in sessions(station):
            each._due_s = each._began_s = -10.0
        (tmp_path / "token").write_text("stolen")
        links.send(dialed, frame([b"\0\0ping"]))
        await user.wait_for(lambda: len(user.heard) == 4)
        assert any("invalid_token" in reason for reason in user.reasons)
        assert user.frames == []


def test_listener_whose_passwords_others_can_read_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    values = {"sasl.enabled.mechanisms": "PLAIN", "plain.sasl.jaas.config": f"{MODULES['PLAIN']} required user_a=b;"}
    security = tuple(
        (name, Security.of_listener(name, SecurityProtocol[f"SASL_{kind}"], values))
        for name, kind in (("A", "PLAINTEXT"), ("B", "SSL"))
    )
    listeners = Listeners((("A", Endpoint("", 9_000)), ("B", Endpoint("", 9_001))))
    warn_of_plaintext(replace(NODE, listeners=listeners, security=security))
    [record] = caplog.records
    assert "listener A at :9000 is SASL_PLAINTEXT" in record.getMessage()


def test_with_an_authorizer_the_warning_says_what_strangers_may_do(caplog: pytest.LogCaptureFixture) -> None:
    config = replace(NODE, listeners=Listeners((("A", Endpoint("", 9_000)),)))
    rules = (
        "--allow-principal User:* --operation Read --topic orders\n--allow-principal User:a --operation All --cluster"
    )
    warn_of_plaintext(config, Authorizer(AuthorizerSettings(), parse_acls(rules, "")))
    told = "whoever reaches it is User:ANONYMOUS, who by the rules may do Read on Topic:orders"
    assert caplog.messages == [f"listener A at :9000 is PLAINTEXT: {told}"]
