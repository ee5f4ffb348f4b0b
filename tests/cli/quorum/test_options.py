"""Options of ``pykraft quorum`` stand before or after the verb, but not in both places."""

from __future__ import annotations

import pytest

from pykraft.cli.quorum.options import admin_of, joined
from pykraft.client.remote.admin import Admin
from pykraft.errors import UsageError
from tests.client.scripted import run

NONE = dict.fromkeys(("bootstrap_controller", "bootstrap_server", "command_config", "timeout"))


def test_an_option_counts_wherever_it_stands() -> None:
    before = joined({**NONE, "bootstrap_controller": "h:1"}, {**NONE, "timeout": 2.0})
    after = joined({**NONE, "timeout": 2.0}, {**NONE, "bootstrap_controller": "h:1"})
    assert before == after


def test_the_client_has_the_options() -> None:
    async def main() -> None:
        options = joined({**NONE, "bootstrap_server": "h:1"}, {**NONE, "timeout": 2.0})
        async with admin_of(options) as admin:
            assert isinstance(admin, Admin)

    run(main)


def test_twice_is_once_too_often() -> None:
    with pytest.raises(UsageError, match="--timeout is given twice"):
        joined({**NONE, "timeout": 1.0}, {**NONE, "timeout": 2.0})
