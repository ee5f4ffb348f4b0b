"""Where a command listens: host and port, or a port alone where the host is known."""

from __future__ import annotations

import re

import pytest

from pykraft.cli.parsing.listen_address import listen_address
from pykraft.errors import UsageError
from pykraft.types import Endpoint


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("a:80", "a", 80),
        ("a:0", "a", 0),
        ("[::1]:81", "::1", 81),
        ("[::1]:0", "::1", 0),
        ("192.0.2.1:65535", "192.0.2.1", 65_535),
    ],
)
def test_an_address_has_a_host_and_a_port(text: str, host: str, port: int) -> None:
    assert listen_address("--at", text) == listen_address("--at", text, host="localhost") == Endpoint(host, port)


@pytest.mark.parametrize("port", [0, 9404])
def test_a_port_alone_is_that_of_the_known_host(port: int) -> None:
    assert listen_address("--at", str(port), host="localhost") == Endpoint("localhost", port)


@pytest.mark.parametrize("text", ["", ":", ":80", "a:", "a:b", "a:65536", "a:-1", "a:1,b:2", "::1:80", "http://a:80"])
@pytest.mark.parametrize("host", [None, "localhost"])
def test_anything_else_is_refused_with_what_to_give(text: str, host: str | None) -> None:
    port = "a port, or " if host else ""
    told = f"--at {text!r}: give {port}one host:port (IPv6 in brackets), with a port from 0 to 65535"
    with pytest.raises(UsageError, match=f"^{re.escape(told)}$"):
        listen_address("--at", text, host=host)


@pytest.mark.parametrize("text", ["80", "0"])
def test_a_port_alone_is_refused_where_no_host_is_known(text: str) -> None:
    with pytest.raises(UsageError, match=f"--at '{text}': give one host:port"):
        listen_address("--at", text)


@pytest.mark.parametrize("text", ["x", "-1", "65536", "1.5", "localhost"])
def test_a_port_alone_is_a_number(text: str) -> None:
    with pytest.raises(UsageError, match=f"--at '{text}': give a port, or one host:port"):
        listen_address("--at", text, host="localhost")
