"""``pykraft quorum transfer``: an operator decides which voter leads.

Kafka has no such command. It needs a pykraft leader; the successor may be any voter. `pykraft.core.on.transfer` has the
protocol.

Source: Raft dissertation §3.10.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, Final

import click

from pykraft.cli.json_option import json_option
from pykraft.cli.parsing.value import DECIMAL, NumberType
from pykraft.cli.quorum.options import admin_of, joined, with_options
from pykraft.config import TRANSFER_TIMEOUT_MS, TRANSFER_TIMEOUT_MS_MAX
from pykraft.errors import UsageError

CATCH_UP_S_MAX: Final = TRANSFER_TIMEOUT_MS_MAX / 1_000


@click.command()
@with_options
@click.option(
    "--to",
    "target_id",
    required=True,
    type=NumberType(int, 0, 2**31 - 1),
    help="Node id of the voter that should lead.",
)
@click.option(
    "--catch-up",
    "catch_up_s",
    type=DECIMAL,
    default=TRANSFER_TIMEOUT_MS / 1_000,
    show_default=True,
    help="Seconds that the leader accepts no records while the voter catches up.",
)
@json_option
@click.pass_obj
def transfer(
    before: dict[str, Any],
    /,
    *,
    target_id: int,
    catch_up_s: float,
    as_json: bool,
    **after: Any,  # noqa: ANN401 - as click has them
) -> None:
    """Transfer leadership to a voter. The leader hands over only if the voter is running and has the whole log."""
    if not 0 <= catch_up_s <= CATCH_UP_S_MAX:
        raise UsageError(f"--catch-up {catch_up_s:g}: give 0 to {CATCH_UP_S_MAX:g} seconds")
    options = joined(before, after)

    async def ask() -> int:
        async with admin_of(options) as admin:
            return await admin.transfer_leadership(target_id, timeout_ms=round(catch_up_s * 1_000))

    begun_s = time.monotonic()
    epoch = asyncio.run(ask())
    took_ms = round((time.monotonic() - begun_s) * 1_000)
    if as_json:
        click.echo(json.dumps({"leaderId": target_id, "leaderEpoch": epoch, "tookMs": took_ms}))
    else:
        click.echo(f"Node {target_id} leads epoch {epoch} after {took_ms} ms")
