"""A client numbers its commands, and says what it no longer needs."""

from __future__ import annotations

import pytest

from pykraft.errors import BufferFullError
from pykraft.machine import client_session
from pykraft.machine.client_session import ClientSession
from pykraft.machine.records import CommandRecord, decode_log_record
from tests.client.nodes import run


def test_the_lowest_number_that_somebody_waits_for_is_acknowledged() -> None:
    async def main() -> None:
        session = ClientSession(7)
        assert [session.issue()[0] for _ in range(4)] == [0, 1, 2, 3]
        assert session.acknowledged == 0
        session.done(1)
        assert session.acknowledged == 0
        session.done(0)
        assert session.acknowledged == 2
        attempts = [(number, bytes([number]), session.waiters[number], 1.0) for number in (2, 3)]
        expected = [CommandRecord(9, 7, number, 2, bytes([number])) for number in (2, 3)]
        assert [*map(decode_log_record, session.records(attempts, 9))] == expected
        session.done(2)
        session.done(3)
        assert session.acknowledged == 4
        assert session.issue()[0] == 4

    run(main)


def test_the_number_of_commands_that_wait_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(client_session, "WINDOW", 3)
        session = ClientSession(7)
        for _ in range(3):
            session.issue()
        session.done(1)
        with pytest.raises(BufferFullError, match="3 commands of this client already wait"):
            session.issue()  # 0 still waits, so 0 to 2 are kept
        session.done(0)
        assert session.issue()[0] == 3

    run(main)
