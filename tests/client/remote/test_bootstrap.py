"""Bootstrap lists: the text becomes endpoints, or an error of one line."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.client.remote.bootstrap import ENDPOINTS_MAX, parse_bootstrap
from pykraft.errors import UsageError
from pykraft.types import Endpoint


def test_nodes_come_in_order_and_once() -> None:
    found = parse_bootstrap("--list", " b:2 ,a.example:1,[::1]:9092,,b:2,127.0.0.1:65535")
    assert found == (
        Endpoint("b", 2),
        Endpoint("a.example", 1),
        Endpoint("::1", 9092),
        Endpoint("127.0.0.1", 65535),
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        " , ",
        "a",
        "a:",
        ":1",
        "a:0",
        "a:65536",
        "a:1x",
        "a:-1",
        "http://a:1",
        "a b:1",
        "::1:1",
        "[x]:1",
        "h" * 256 + ":1",
    ],
)
def test_anything_else_is_one_line_that_names_the_option(text: str) -> None:
    with pytest.raises(UsageError, match="--list"):
        parse_bootstrap("--list", text)


def test_what_is_no_text_is_refused() -> None:
    odd: list[Any] = [None, 5, b"a:1", ["a:1"]]
    for value in odd:
        with pytest.raises(UsageError, match=r"--list = .*: it is a text, host:port"):
            parse_bootstrap("--list", value)


def test_a_list_is_not_endless() -> None:
    with pytest.raises(UsageError, match="101 nodes"):
        parse_bootstrap("--list", ",".join(f"a:{port}" for port in range(1, ENDPOINTS_MAX + 2)))
