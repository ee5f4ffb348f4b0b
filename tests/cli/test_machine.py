"""``pykraft machine skip`` says what was skipped, and what the leader says against it."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from pykraft.cli.main import pykraft
from pykraft.machine import log_skips
from pykraft.security.settings import Security

WORDS = ("machine", "skip", "--bootstrap-controller", "127.0.0.1:1", "--offset", "4")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The offsets that the leader was asked to skip."""
    offsets: list[int] = []

    async def skip(admin: Any, offset: int, security: Security) -> int:
        del admin
        assert security == Security()
        offsets.append(offset)
        return 9

    monkeypatch.setattr(log_skips, "skip", skip)
    return offsets


def test_what_is_skipped_is_said(asked: list[int]) -> None:
    result = CliRunner().invoke(pykraft, WORDS)
    assert result.stdout == "Skipped the command at offset 4; the record that says so is at offset 9\n"
    assert json.loads(CliRunner().invoke(pykraft, [*WORDS, "--json"]).stdout) == {"skippedOffset": 4, "recordOffset": 9}
    assert asked == [4, 4]


def test_an_offset_is_a_number(asked: list[int]) -> None:
    result = CliRunner().invoke(pykraft, [*WORDS[:-1], "-1"])
    assert result.exit_code != 0
    assert not asked
