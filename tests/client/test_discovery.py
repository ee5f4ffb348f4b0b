"""Nodes are found by a list, a file, the addresses of a host and the SRV records of a scripted DNS server."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import dns.asyncresolver  # takes a while, which is no part of a timeout
import dns.message
import dns.rcode
import dns.rrset
import pytest

from pykraft.client import discover, discovery
from pykraft.errors import QuorumUnavailableError, UsageError
from pykraft.types import Endpoint

ANY: Any = None


class NameServer(asyncio.DatagramProtocol):
    """Answers with the SRV records of names; it does not know other names."""

    def __init__(self, records: Mapping[str, list[str]]) -> None:
        self.records = records
        self.asked: list[str] = []
        self.was_asked = asyncio.Event()
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        assert self._transport is not None
        query = dns.message.from_wire(data)
        name = query.question[0].name.to_text(omit_final_dot=True)
        self.asked.append(name)
        self.was_asked.set()
        response = dns.message.make_response(query)
        if (records := self.records.get(name)) is None:
            response.set_rcode(dns.rcode.NXDOMAIN)
        else:
            response.answer.append(dns.rrset.from_text(f"{name}.", 1, "IN", "SRV", *records))
        self._transport.sendto(response.to_wire(), addr)


@asynccontextmanager
async def name_server(records: Mapping[str, list[str]]) -> AsyncIterator[tuple[NameServer, str]]:
    """The server, and what its names begin with in a source."""
    loop = asyncio.get_running_loop()
    server = NameServer(records)
    transport, _ = await loop.create_datagram_endpoint(lambda: server, local_addr=("127.0.0.1", 0))
    try:
        yield server, f"srv://127.0.0.1:{transport.get_extra_info('sockname')[1]}/"
    finally:
        transport.close()


async def test_a_list_is_taken_as_it_is() -> None:
    assert await discover("b:2,a:1,b:2") == (Endpoint("b", 2), Endpoint("a", 1))


async def test_srv_records_come_by_priority_and_weight() -> None:
    records = ["20 0 9093 c.example.", "10 1 9093 b.example.", "10 5 9094 a.example.", "10 5 9094 A.example."]
    async with name_server({"_kraft._tcp.example": records}) as (_, at):
        found = await discover(f"{at}_kraft._tcp.example")
    assert [str(each).lower() for each in found[:1]] == ["a.example:9094"]
    assert [str(each) for each in found[-2:]] == ["b.example:9093", "c.example:9093"]


async def test_it_waits_until_a_name_has_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "RETRY_S", 60.0)  # longer than the timeout: there is one look
    known: dict[str, list[str]] = {"none.example": ["0 0 0 ."]}
    async with name_server(known) as (server, at):
        for name, told in (("absent.example", "does not exist"), ("none.example", "its records name no node")):
            with pytest.raises(QuorumUnavailableError, match=f"{name}: no address of a node in time: .*{told}"):
                await discover(f"{at}{name}")
        monkeypatch.setattr(discovery, "RETRY_S", 0.01)
        server.was_asked.clear()
        waiting = asyncio.ensure_future(discover(f"{at}late.example"))
        await server.was_asked.wait()
        known["late.example"] = ["0 0 9093 a.example."]
        assert await waiting == (Endpoint("a.example", 9093),)


async def test_a_silent_server_takes_no_longer_than_allowed() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        with pytest.raises(QuorumUnavailableError, match="no address of a node in time: no answer"):
            await discover(f"srv://127.0.0.1:{silent.getsockname()[1]}/a.example", timeout_ms=50)


async def test_a_host_has_all_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    asked: list[Any] = []

    async def addresses(host: str, port: int, **others: Any) -> list[Any]:
        asked.append((host, port, others))
        if len(asked) == 1:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(0, 0, 0, "", ("10.0.0.1", port)), (0, 0, 0, "", ("fd00::1", port, 0, 0))]

    monkeypatch.setattr(discovery, "RETRY_S", 0.01)
    monkeypatch.setattr(loop, "getaddrinfo", addresses)
    assert await discover("dns:app.default.svc:9093") == (Endpoint("10.0.0.1", 9093), Endpoint("fd00::1", 9093))
    assert asked == [("app.default.svc", 9093, {"type": socket.SOCK_STREAM})] * 2


async def test_a_file_has_addresses_on_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "RETRY_S", 60.0)
    path = tmp_path / "nodes"
    for text, problem in ((None, "No such file"), ("# none yet\n\n", "the file is empty")):
        if text is not None:
            path.write_text(text)
        with pytest.raises(QuorumUnavailableError, match=f"no address of a node in time: .*{problem}"):
            await discover(f"file:{path}")
    path.write_text("a:1  # the first\n\nb:2, c:3\n")
    for source in (f"file:{path}", f"file://{path}"):
        assert await discover(source) == (Endpoint("a", 1), Endpoint("b", 2), Endpoint("c", 3))


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("", "give at least one host:port"),
        (ANY, "it is a text"),
        ("consul:app", "a node is host:port"),
        ("dns:app", "a node is host:port"),
        ("dns:a:1,b:2", "give one host:port"),
        ("srv:", "give srv:NAME"),
        ("srv:a..b", "give srv:NAME"),
        ("srv://dns.example/a", "with an IP address"),
        ("srv://a:x/a", "a node is host:port"),
    ],
)
async def test_what_is_not_a_source_is_refused_at_once(source: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        await discover(source)


async def test_a_wrong_address_in_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "nodes"
    path.write_text("a\n")
    with pytest.raises(UsageError, match=r"file .*nodes 'a': a node is host:port"):
        await discover(f"file:{path}")
    with pytest.raises(UsageError, match="timeout_ms = 0"):
        await discover("a:1", timeout_ms=0)


async def test_srv_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name == "dns" or name.startswith("dns.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "dns", None)
    with pytest.raises(UsageError, match=r"srv: needs dnspython, which is not installed: pip install 'pykraft\[dns\]'"):
        await discover("srv:a")
