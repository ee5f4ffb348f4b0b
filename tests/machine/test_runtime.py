"""What a program uses by default: a server, TCP, the session timeout of the format."""

from __future__ import annotations

import asyncio
import socket

import pytest

from pykraft.client.remote.connection import Dialer
from pykraft.errors import UnreachableError
from pykraft.machine.replica import SESSION_TIMEOUT_MS
from pykraft.machine.runtime import PROGRAM
from pykraft.types import Endpoint


def test_a_program_has_a_server_of_its_own_and_the_session_timeout_of_the_format() -> None:
    assert PROGRAM.session_timeout_ms == SESSION_TIMEOUT_MS
    assert PROGRAM.random_bytes(16) != PROGRAM.random_bytes(16)


def test_a_dialer_says_that_nobody_listens() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        endpoint = Endpoint("127.0.0.1", bound.getsockname()[1])

        async def main() -> None:
            dialer = Dialer("test")
            for _ in range(2):  # the second one shares the lookups of the first
                with pytest.raises(UnreachableError, match=str(endpoint)):
                    await dialer.connect(endpoint, 2_000)

        asyncio.run(main())
