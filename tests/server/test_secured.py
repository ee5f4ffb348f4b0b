"""Listeners and dials with TLS over real sockets: who becomes a link, what a stalled or wrong handshake costs."""

import asyncio
import logging
import math
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID as Usage

from pykraft.config import NodeConfig
from pykraft.errors import ConfigError
from pykraft.protocol.api import frame
from pykraft.security.acls import AclOperation, AuthorizerSettings, ResourceType
from pykraft.security.authority import Authority
from pykraft.security.contexts import Side
from pykraft.security.files import FileState
from pykraft.security.principal import ANONYMOUS, Principal
from pykraft.server import secured
from pykraft.server.secured import ADDRESS_AT_ONCE, Addresses, DialPauses, NodeTls, warn_of_host, warn_of_plaintext
from pykraft.types import Endpoint, Listeners
from tests.security.credentials import (
    HOSTS,
    authority,
    context,
    encrypted,
    properties,
    reissued,
    security,
    self_signed,
    write,
)
from tests.server.station import LISTENER, TIMEOUT_S, Station, hang_up, on_station, turns
from tests.test_config import NODE


def config_of(values: Mapping[str, str], host: str = HOSTS[0]) -> NodeConfig:
    at = Listeners(((LISTENER, Endpoint(host, 9_000)),))
    return replace(
        NODE,
        controller_listener_names=(LISTENER,),
        listeners=at,
        advertised_listeners=at,
        security=((LISTENER, security(values)),),
    )


def node_tls(folder: Path, **given: str) -> NodeTls:
    return NodeTls(config_of(properties(folder, **given)))


@asynccontextmanager
async def secured_station(folder: Path, **given: str) -> AsyncIterator[Station]:
    async with on_station(tls=node_tls(folder, **given)) as station:
        yield station


async def test_client_in_the_clear_is_refused_before_the_node_hears_of_it(tmp_path: Path) -> None:
    async with secured_station(tmp_path) as station:
        for content in (b"\0\0\0\4ping", b"GET / HTTP/1.1\r\n\r\n"):
            reader, writer = await station.client()
            writer.write(content)
            with suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), TIMEOUT_S)
            await hang_up(writer)
        await station.user.wait_for(lambda: len(station.user.reports) == 2)
        assert (
            station.user.reports == [f"a TLS handshake on {LISTENER} failed, with 127.0.0.1: it does not speak TLS"] * 2
        )
        assert station.user.heard == []
        assert station.links.failed_handshakes == 2


@pytest.mark.parametrize("shows", ["none", "foreign"])
async def test_client_without_a_good_certificate_never_becomes_a_link(tmp_path: Path, shows: str) -> None:
    values = properties(tmp_path)
    if shows == "none":
        values = {"ssl.truststore.location": values["ssl.truststore.location"]}
    else:
        values["ssl.keystore.location"] = write(tmp_path / "f.pem", Authority.create().issue("node", HOSTS))
    client = context(values, Side.CLIENT).current

    async def read_one_byte(port: int) -> None:
        reader, writer = await asyncio.open_connection(HOSTS[1], port, ssl=client, server_hostname="localhost")
        try:
            await asyncio.wait_for(reader.readexactly(1), TIMEOUT_S)
        finally:
            writer.transport.abort()

    async with secured_station(tmp_path) as station:
        # A client of TLS 1.3 has finished its handshake before it is refused.
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await read_one_byte(station.endpoint.port)
        await station.user.wait_for(lambda: len(station.user.reports) == 1)
        assert station.user.heard == []


async def test_dial_of_a_listener_in_the_clear_fails_and_sends_nothing(tmp_path: Path) -> None:
    async with on_station() as plain, on_station(tls=node_tls(tmp_path)) as station:
        station.links.dial(plain.endpoint)
        await station.user.hears(("closed", 1))
        assert plain.user.frames == []


async def test_dial_of_a_host_that_the_certificate_does_not_name_fails_with_the_reason(tmp_path: Path) -> None:
    other = properties(tmp_path / "other")
    other["ssl.keystore.location"] = write(tmp_path / "o.pem", authority().issue("node", ["elsewhere"]))
    tls = NodeTls(config_of(other))
    async with on_station(tls=tls) as station:
        station.links.dial(station.endpoint)
        await station.user.wait_for(lambda: len(station.user.reasons) == 1)
        assert "its certificate is refused: " in station.user.reasons[0]
        assert "mismatch" in station.user.reasons[0]


@pytest.mark.parametrize("seed", range(3))
async def test_mutated_greetings_of_tls_end_their_connection_and_nothing_else(tmp_path: Path, seed: int) -> None:
    """Records that are cut off, changed or made up; with each, a peer's next link comes about as ever."""
    rng, outgoing = Random(seed), ssl.MemoryBIO()
    begun = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        begun.do_handshake()
    hello = outgoing.read()
    async with secured_station(tmp_path) as station:
        for number in range(40):
            content = bytearray(hello)
            for _ in range(rng.randrange(1, 6)):
                content[rng.randrange(len(content))] = rng.randrange(256)
            if number % 4 == 0:
                content = bytearray(rng.randbytes(rng.randrange(1, 70_000)))
            reader, writer = await station.client()
            writer.write(content[: rng.randrange(1, len(content) + 1)])
            writer.write_eof()
            with suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), TIMEOUT_S)
            await hang_up(writer)
        assert station.user.heard == []
        station.links.dial(station.endpoint)
        await station.user.wait_for(lambda: len(station.user.heard) == 2)


async def test_stalled_handshakes_give_way_and_do_not_keep_others_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secured, "HANDSHAKES_MAX", 3)
    async with secured_station(tmp_path) as station:
        stalled = [await station.client() for _ in range(5)]
        await station.user.wait_for(lambda: len(station.user.reports) == 2)
        assert "3 others are under way, and this one is the oldest" in station.user.reports[0]
        for reader, _ in stalled[:2]:
            assert await asyncio.wait_for(reader.read(), TIMEOUT_S) == b""
        station.links.dial(station.endpoint)
        await station.user.wait_for(lambda: len(station.user.heard) == 2)
        assert station.links.failed_handshakes == 3
        for _, writer in stalled:
            await hang_up(writer)


async def test_flood_of_strangers_is_closed_at_once_and_known_addresses_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half-open handshakes of other addresses use up what strangers have; a peer's still end in a link."""
    monkeypatch.setattr(secured, "STRANGERS_PER_S", 0.0)
    monkeypatch.setattr(secured, "STRANGERS_AT_ONCE", 20.0)
    monkeypatch.setattr(secured, "ADDRESS_AT_ONCE", 15.0)
    monkeypatch.setattr(secured, "ADDRESS_PER_S", 0.0)
    async with secured_station(tmp_path) as station:
        station.links.dial(station.endpoint)  # its own address is known from now on
        await station.user.wait_for(lambda: len(station.user.heard) == 2)

        async def stranger(number: int) -> asyncio.StreamWriter:
            here = (f"127.0.{number % 2 + 7}.1", 0)
            _, writer = await asyncio.open_connection(*HOSTS[1:], station.endpoint.port, local_addr=here)
            return writer

        writers = [await stranger(number) for number in range(60)]
        await station.user.wait_for(lambda: station.links.failed_handshakes == 41)  # the dial was a stranger's, too
        assert all("too many handshakes in a second" in report for report in station.user.reports)
        station.links.dial(station.endpoint)
        await station.user.wait_for(lambda: len(station.user.heard) == 4)
        for writer in writers:
            await hang_up(writer)


def test_strangers_have_a_rate_for_each_network_and_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [100.0]
    monkeypatch.setattr("pykraft.server.secured.time.monotonic", lambda: now_s[0])
    addresses = Addresses()
    at_once = int(ADDRESS_AT_ONCE)
    for address in ("10.0.0.1", "2001:db8::1"):
        assert [addresses.may_begin(address) for _ in range(at_once + 1)] == [True] * at_once + [False]
    assert not addresses.may_begin("2001:db8::2"), "the same network"
    assert not addresses.may_begin("10.0.0.2"), "all together"
    now_s[0] += 0.06
    assert [addresses.may_begin(address) for address in ("10.0.0.1", "10.0.0.1", "10.0.0.2")] == [True, False, True]
    addresses.know("2001:db8::1")
    assert addresses.is_known("2001:db8::ffff")
    assert not addresses.is_known("2001:db8:0:1::1")


def test_remembered_addresses_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secured, "KNOWN_MAX", 3)
    monkeypatch.setattr(secured, "ADDRESSES_MAX", 3)
    addresses = Addresses()
    for number in range(5):
        addresses.know(f"10.0.0.{number}")
        addresses.may_begin(f"10.0.1.{number}")
    assert [addresses.is_known(f"10.0.0.{number}") for number in range(5)] == [False, False, True, True, True]
    assert len(addresses._strangers) == 3


def test_endpoint_that_refuses_is_dialed_less_often_until_it_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [100.0]
    monkeypatch.setattr("pykraft.server.secured.time.monotonic", lambda: now_s[0])
    pauses, endpoint = DialPauses(), Endpoint("n2", 9093)
    found = [pauses.pause_s(endpoint)]
    for _ in range(20):
        pauses.refused(endpoint)
        found.append(round(pauses.pause_s(endpoint), 3))
    assert found[:7] == [0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0]
    assert set(found[6:]) == {1.0}
    now_s[0] += 0.75
    assert pauses.pause_s(endpoint) == pytest.approx(0.25)
    now_s[0] += 5
    assert pauses.pause_s(endpoint) == 0
    pauses.refused(endpoint)
    pauses.heard(endpoint)
    assert pauses.pause_s(endpoint) == 0


@pytest.mark.parametrize("refusal", ["the other end's certificate", "this node's certificate"])
async def test_refused_handshake_makes_the_next_dial_wait(tmp_path: Path, refusal: str) -> None:
    tls = node_tls(tmp_path)
    foreign = Authority.create()
    # One end trusts both authorities, the other one only its own.
    if refusal == "this node's certificate":  # which TLS 1.3 refuses when the handshake is done on this side
        content = foreign.issue("node", HOSTS), foreign.certificate_pem
        write(tmp_path / "ca.pem", authority().certificate_pem + foreign.certificate_pem)
        tls.refresh()
    else:
        content = foreign.issue("node", HOSTS), authority().certificate_pem + foreign.certificate_pem
    other = properties(tmp_path / "other")
    write(tmp_path / "other" / "node.pem", content[0])
    write(tmp_path / "other" / "ca.pem", content[1])
    served = NodeTls(config_of(other))
    async with on_station(tls=served) as peer, on_station(tls=tls) as station:
        station.links.dial(peer.endpoint)
        await station.user.wait_for(lambda: ("closed", 1) in station.user.heard)
        assert tls.pauses.pause_s(peer.endpoint) > 0
        station.links.dial(peer.endpoint)
        await station.user.wait_for(lambda: ("closed", 2) in station.user.heard)
        assert tls.pauses._refusals[peer.endpoint][0] == 1


async def test_refused_endpoint_is_dialed_after_its_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tls = node_tls(tmp_path)
    waits: list[Endpoint] = []

    def pause_s(endpoint: Endpoint) -> float:
        waits.append(endpoint)
        return 3_600.0

    monkeypatch.setattr(tls.pauses, "pause_s", pause_s)
    async with on_station(tls=tls) as station:
        dialed = station.links.dial(station.endpoint)
        await turns(asyncio.get_running_loop(), 20)
        assert waits == [station.endpoint]
        assert (station.user.heard, station.links.failed_handshakes) == ([], 0)
        station.links.close(dialed)


async def test_dial_that_was_heard_of_makes_no_later_one_wait(tmp_path: Path) -> None:
    async with on_station(tls=(tls := node_tls(tmp_path))) as station:
        links, user = station.links, station.user
        user.answer = lambda connection, message: links.send(connection, frame([b"pong"])) if message == b"p" else None
        tls.pauses.refused(station.endpoint)
        dialed = links.dial(station.endpoint)
        await user.wait_for(lambda: len(user.heard) == 2)
        links.send(dialed, frame([b"p"]))
        await user.wait_for(lambda: b"pong" in user.frames)
        links.close(dialed)
        assert tls.pauses.pause_s(station.endpoint) == 0


async def test_handshake_has_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secured, "HANDSHAKE_S_MAX", 0.05)
    async with secured_station(tmp_path) as station:
        reader, writer = await station.client()
        assert await asyncio.wait_for(reader.read(), TIMEOUT_S) == b""
        await station.user.wait_for(lambda: len(station.user.reports) == 1)
        assert "SSL handshake is taking longer than 0.05 seconds" in station.user.reports[0]
        await hang_up(writer)


async def test_end_of_the_links_ends_handshakes(tmp_path: Path) -> None:
    async with secured_station(tmp_path) as station:
        reader, writer = await station.client()
        station.links.close_all()
        assert await asyncio.wait_for(reader.read(), TIMEOUT_S) == b""
        await hang_up(writer)


async def test_listener_pauses_while_the_system_has_no_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Exhausted:
        def __init__(self, real: socket.socket) -> None:
            self.real = real
            self.left = 1

        def accept(self) -> tuple[socket.socket, object]:
            if self.left:
                self.left -= 1
                raise OSError(24, "Too many open files")
            return self.real.accept()

        def fileno(self) -> int:
            return self.real.fileno()

        def close(self) -> None:
            self.real.close()

    monkeypatch.setattr(secured, "_PAUSE_S", 0.01)
    async with secured_station(tmp_path) as station:
        server = station.links._handshakes[0]
        server._listening = Exhausted(server._listening)  # type: ignore[assignment]
        station.links.dial(station.endpoint)
        await station.user.wait_for(lambda: len(station.user.heard) == 2)


async def test_new_connections_use_renewed_certificates_and_open_ones_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tls = node_tls(tmp_path)
    async with on_station(tls=tls) as station:
        user, links = station.user, station.links
        links.dial(station.endpoint)
        await user.wait_for(lambda: len(user.heard) == 2)
        write(tmp_path / "node.pem", authority().issue("renewed", HOSTS, days=9.5))
        with caplog.at_level(logging.INFO, "pykraft"):
            tls.refresh()
        assert [record.levelname for record in caplog.records] == ["INFO", "INFO"]  # both directions
        links.dial(station.endpoint)
        await user.wait_for(lambda: len(user.heard) == 4)
        principals = sorted(link.principal.name for link in links._links.values())
        assert principals == ["CN=node", "CN=node", "CN=renewed", "CN=renewed"]
        assert (links.accepted_count, links.dialed_count) == (2, 2)
        told = tls.metrics(links.failed_handshakes)
        assert 9 < told.pop("certificate-days-left") < 10
        rules = {"acls": 0, "acls-not-taken-up": 0}
        assert told == {"failed-handshakes-total": 0, "certificates-not-taken-up": 0, **rules}


def test_broken_certificate_is_an_error_in_log_and_metrics(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tls = node_tls(tmp_path)
    write(tmp_path / "node.pem", b"")
    tls.refresh()
    assert {record.levelname for record in caplog.records} == {"ERROR"}
    assert tls.metrics(0)["certificates-not-taken-up"] == 2
    # The listener and the dials have the same files, and the same problem.
    [report] = tls.not_taken_up
    assert report.state is FileState.REFUSED
    assert tmp_path / "node.pem" in report.files
    assert "ssl.keystore.location" in str(report.problem)
    assert tls.refresh() == [report]
    write(tmp_path / "node.pem", authority().issue("renewed", HOSTS))
    assert [each.state for each in tls.refresh()] == [FileState.TAKEN_UP]
    assert [each.state for each in tls.refresh()] == [FileState.UNCHANGED]
    assert tls.not_taken_up == []


def test_files_of_the_program_are_looked_at_with_the_nodes(tmp_path: Path) -> None:
    from pykraft.kv.http_server import AllowedUsers

    file = tmp_path / "credentials"
    file.write_text("a")
    tls = NodeTls(NODE, [AllowedUsers(file)])
    assert tls.has_files
    file.write_text("")
    tls.refresh()
    [report] = tls.not_taken_up
    assert (report.what, report.files) == ("credentials", (file,))
    assert tls.metrics(0)["certificates-not-taken-up"] == 1


async def test_files_are_looked_at_every_few_seconds_on_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls, loop = node_tls(tmp_path), asyncio.get_running_loop()
    write(tmp_path / "node.pem", authority().issue("renewed", HOSTS, days=1))
    tls.refresh_if_due(loop)
    assert tls._under_way is None
    monkeypatch.setattr(secured, "REFRESH_S", 0)
    tls.refresh_if_due(loop)
    assert tls._under_way is not None
    await asyncio.wait_for(tls._under_way, TIMEOUT_S)
    assert tls.metrics(0)["certificate-days-left"] < 1
    monkeypatch.setattr(secured, "REFRESH_S", 1_000)
    write(tmp_path / "node.pem", authority().issue("renewed again", HOSTS, days=9.5))
    await asyncio.wait_for(tls.refresh_soon(loop), TIMEOUT_S)
    assert tls.metrics(0)["certificate-days-left"] > 9


def test_node_without_tls_has_none_of_it() -> None:
    tls = NodeTls(NODE)
    tls.refresh_if_due(None)  # type: ignore[arg-type]
    assert (tls.for_dials, tls.for_listener(LISTENER)) == (None, None)
    assert math.isnan(tls.metrics(0)["certificate-days-left"])


def test_node_with_a_store_that_cannot_be_used_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location"):
        node_tls(tmp_path, ssl__keystore__location="/nowhere")


SERVES_ONLY, DIALS_ONLY = ([usage] for usage in (Usage.SERVER_AUTH, Usage.CLIENT_AUTH))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (lambda: authority().issue("node", HOSTS, days=-1), "CN=node has expired"),
        (lambda: authority().issue("node", HOSTS)[:-300], "it is cut off"),
        (lambda: encrypted(authority().issue("node", HOSTS), "another"), "ssl.key.password is wrong"),
        (lambda: b"", "it is no store of"),
        (self_signed, "its own ssl.truststore.location refuses it, and so will the other nodes: self-signed"),
        (lambda: Authority.create().issue("node", HOSTS), "refuses it, and so will the other nodes: self-signed"),
        (lambda: reissued(SERVES_ONLY), "unsuitable certificate purpose"),
        (lambda: reissued(DIALS_ONLY), "unsuitable certificate purpose"),
    ],
    ids=["expired", "truncated", "password", "empty", "self-signed", "foreign", "serves-only", "dials-only"],
)
def test_useless_certificate_ends_the_start_with_file_and_reason_and_is_not_taken_up(
    content: Callable[[], bytes], words: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tls = node_tls(tmp_path, **{"ssl.key.password": "word"})
    location = write(tmp_path / "node.pem", content())
    with pytest.raises(ConfigError, match=re.escape(words)) as caught:
        node_tls_again(tmp_path)
    assert f"property ssl.keystore.location = {location!r}: " in str(caught.value)
    tls.refresh()
    assert tls.metrics(0)["certificates-not-taken-up"] == 2
    assert words in caplog.text
    assert location in caplog.text


def node_tls_again(folder: Path) -> NodeTls:
    """With the files as they are."""
    names = {"keystore": "node.pem", "truststore": "ca.pem"}
    values = {f"ssl.{name}.location": str(folder / file) for name, file in names.items()}
    return NodeTls(config_of({**values, "ssl.client.auth": "required", "ssl.key.password": "word"}))


def test_authority_is_not_given_up_while_the_own_certificate_is_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tls = node_tls(tmp_path)
    write(tmp_path / "ca.pem", Authority.create().certificate_pem)
    tls.refresh()
    assert tls.metrics(0)["certificates-not-taken-up"] == 2
    assert "and so will the other nodes" in caplog.text


def test_node_is_warned_that_its_certificate_is_for_another_host(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    values = properties(tmp_path)
    warn_of_host(config_of(values))
    warn_of_host(NODE)
    assert caplog.text == ""
    warn_of_host(config_of(values, "elsewhere"))
    assert values["ssl.keystore.location"] in caplog.text
    assert "other nodes dial elsewhere:9000, and refuse it: Hostname mismatch" in caplog.text


def test_observer_that_does_not_listen_needs_no_certificate(tmp_path: Path) -> None:
    values = properties(tmp_path)
    config = config_of({"ssl.truststore.location": values["ssl.truststore.location"]})
    tls = NodeTls(replace(config, listeners=Listeners(()), advertised_listeners=Listeners(())))
    assert tls.for_listener(LISTENER) is None
    assert tls.for_dials is not None


def test_each_listener_in_the_clear_that_others_reach_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    hosts = {"A": "", "B": "localhost", "C": "127.0.0.9", "D": "example.org", "E": ""}
    listeners = Listeners(tuple((name, Endpoint(host, 9_000)) for name, host in hosts.items()))
    warn_of_plaintext(replace(NODE, listeners=listeners, security=(("E", security({})),)))
    assert [record.getMessage().split()[1] for record in caplog.records] == ["A", "D"]
    assert "example.org:9000 is PLAINTEXT: whoever reaches it may do everything there" in caplog.text


async def test_connection_in_the_clear_is_anonymous() -> None:
    async with on_station() as station:
        station.links.dial(station.endpoint)
        await station.user.wait_for(lambda: len(station.user.heard) == 2)
        assert {link.principal for link in station.links._links.values()} == {ANONYMOUS}


async def test_rules_name_whoever_connects_and_whoever_is_dialed(tmp_path: Path) -> None:
    rules = {"ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/U"}
    async with secured_station(tmp_path, **rules) as station:
        station.links.dial(station.endpoint)
        await station.user.wait_for(lambda: len(station.user.heard) == 2)
        assert [(end.principal.name, end.address) for end in station.user.ends] == [("NODE", HOSTS[1])] * 2
        assert station.user.ends[0].principal.hosts == HOSTS


async def test_whoever_no_rule_names_is_refused(tmp_path: Path) -> None:
    async with secured_station(tmp_path, **{"ssl.principal.mapping.rules": "RULE:^O=(.*)$/$1/"}) as station:
        station.links.dial(station.endpoint)
        await station.user.wait_for(lambda: len(station.user.heard) == 2)
        assert [event for event, _ in station.user.heard] == ["connected", "closed"]
        [text] = station.user.reports
        assert text.endswith(f"on {LISTENER}: no rule of ssl.principal.mapping.rules applies to User:CN=node")


def test_changed_rules_are_taken_up_with_certificates_and_a_broken_file_is_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "acls"
    path.write_text("--allow-principal User:a --operation Alter --cluster")
    tls = NodeTls(replace(NODE, authorizer=AuthorizerSettings(acl_file=path)))
    assert tls.authorizer is not None

    def may_alter() -> bool:
        assert tls.authorizer is not None
        return tls.authorizer.allows(Principal("a"), "", AclOperation.ALTER, ResourceType.CLUSTER)

    assert may_alter()
    path.write_text("")
    with caplog.at_level(logging.INFO, "pykraft"):
        tls.refresh()
    assert not may_alter()
    path.write_text("nonsense")
    tls.refresh()
    assert [record.levelname for record in caplog.records] == ["INFO", "ERROR"]
    told = tls.metrics(0)
    assert (told["acls"], told["acls-not-taken-up"], told["certificates-not-taken-up"]) == (0, 1, 0)


async def test_a_file_of_rules_is_looked_at_without_any_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secured, "REFRESH_S", 0.0)
    path = tmp_path / "acls"
    path.write_text("")
    tls = NodeTls(replace(NODE, authorizer=AuthorizerSettings(acl_file=path)))
    path.write_text("--allow-principal User:a --operation Alter --cluster")
    tls.refresh_if_due(asyncio.get_running_loop())
    assert tls._under_way is not None
    await tls._under_way
    assert tls.metrics(0)["acls"] == 1


def test_a_file_of_rules_that_is_not_there_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"pykraft\.acl\.file"):
        NodeTls(replace(NODE, authorizer=AuthorizerSettings(acl_file=tmp_path / "acls")))
