"""Finds nodes of a quorum by what the operator names: a list, a file, or DNS, such as a headless service of Kubernetes.

A node needs only one address that answers: from there it learns the voters and the leader. So what is found here is
where to ask first, and it may be out of date or name nodes that are down. Invariant: at least one address is returned.

Source: RFC 2782 (SRV), RFC 4501 §3 for a DNS server in the text; Kafka's ``client.dns.lookup=use_all_dns_ips``.
"""

import asyncio
import socket
from pathlib import Path
from typing import Final

from pykraft.client.arguments import ENDPOINTS_MAX, parse_bootstrap, whole_number
from pykraft.errors import QuorumUnavailableError, UsageError
from pykraft.process.extras import imported_for
from pykraft.types import Endpoint

TIMEOUT_MS: Final = 30_000
RETRY_S: Final = 0.5
"""Between two looks: a name has no address yet while the first of its nodes start."""
FILE_SIZE_BYTES_MAX: Final = 1 << 16
DNS_PORT: Final = 53


async def discover(source: str, *, timeout_ms: int = TIMEOUT_MS) -> tuple[Endpoint, ...]:
    """The addresses of nodes, for `configure(bootstrap=…)`; it waits until there is at least one.

    ``source`` is ``host:port,…``; ``file:PATH``, with such addresses on lines; ``dns:host:port``, for all A and AAAA
    records of a host; or ``srv:_kraft._tcp.example.org``, for SRV records, which needs the extra ``dns``.
    ``srv://127.0.0.1:5353/NAME`` asks this DNS server.

    Errors: UsageError for another source; QuorumUnavailableError when there was no address in time.
    """
    if not isinstance(source, str):
        raise UsageError(f"source = {source!r}: it is a text, such as host:port,… or srv:_kraft._tcp.example.org")
    whole_number("timeout_ms", timeout_ms, least=1)
    kind, separator, name = source.partition(":")
    if not separator or kind not in _LOOKUPS:
        return parse_bootstrap("source", source)
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_ms / 1_000
    while True:
        try:
            async with asyncio.timeout_at(deadline_s):
                return tuple(dict.fromkeys(await _LOOKUPS[kind](name)))[:ENDPOINTS_MAX]
        except (OSError, _NothingError) as error:  # also a timeout
            if loop.time() + RETRY_S >= deadline_s:
                why = str(error) or "no answer"
                raise QuorumUnavailableError(f"{source}: no address of a node in time: {why}") from error
        await asyncio.sleep(RETRY_S)


class _NothingError(Exception):
    """There is no address yet."""


async def _in_file(name: str) -> tuple[Endpoint, ...]:
    def read() -> bytes:
        with Path(name.removeprefix("//")).open("rb") as file:
            return file.read(FILE_SIZE_BYTES_MAX)

    text = (await asyncio.to_thread(read)).decode(errors="replace")
    lines = [line.partition("#")[0] for line in text.splitlines()]
    if not any(line.strip() for line in lines):
        raise _NothingError("the file is empty")
    return parse_bootstrap(f"file {name}", ",".join(lines))


async def _by_host(name: str) -> list[Endpoint]:
    [endpoint, *others] = parse_bootstrap("dns", name)
    if others:
        raise UsageError(f"dns:{name}: give one host:port, all addresses of which are taken")
    loop = asyncio.get_running_loop()
    answers = await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    return [Endpoint(str(address[0]), endpoint.port) for *_, address in answers]


async def _by_service(name: str) -> list[Endpoint]:
    with imported_for("srv:"):
        import dns.asyncresolver
        import dns.exception
        import dns.rdtypes.IN.SRV
    server, wanted = (
        ("", name) if not name.startswith("//") else name[2:].split("/", 1) if "/" in name[2:] else ("", "")
    )
    if not wanted:
        raise UsageError(f"srv:{name}: give srv:NAME, or srv://SERVER:PORT/NAME with an IP address")
    resolver = dns.asyncresolver.Resolver(configure=not server)
    try:
        if server:
            [at] = parse_bootstrap("srv", server if server.rpartition(":")[1] else f"{server}:{DNS_PORT}")
            resolver.nameservers, resolver.port = [at.host], at.port
        answer = await resolver.resolve(wanted, "SRV", search=True)
    except (dns.exception.SyntaxError, dns.name.EmptyLabel, dns.name.LabelTooLong, ValueError) as error:
        raise UsageError(f"srv:{name}: give srv:NAME, or srv://SERVER:PORT/NAME with an IP address: {error}") from error
    except dns.exception.DNSException as error:
        raise _NothingError(str(error)) from error
    records = [record for record in answer if isinstance(record, dns.rdtypes.IN.SRV.SRV)]
    records.sort(key=lambda record: (record.priority, -record.weight))
    found = [Endpoint(record.target.to_text(omit_final_dot=True), record.port) for record in records]
    if not (known := [each for each in found if each.can_be_dialed]):
        raise _NothingError("its records name no node")  # a target of "." says that there is none
    return known


_LOOKUPS: Final = {"file": _in_file, "dns": _by_host, "srv": _by_service}
