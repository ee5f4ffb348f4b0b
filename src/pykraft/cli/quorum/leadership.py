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
from pykraft.errors import ErrorCode, RefusedError, UsageError
from pykraft.text.words import in_ms

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
    """Transfer leadership to a voter. The leader hands over only if the voter is running and has the whole log.

    If that voter leads already, there is nothing to do, and the command says so.
    """
    if not 0 <= catch_up_s <= CATCH_UP_S_MAX:
        raise UsageError(f"--catch-up {catch_up_s:g}: give 0 to {CATCH_UP_S_MAX:g} seconds")
    options = joined(before, after)

    async def ask() -> tuple[int, bool]:
        """The epoch of the voter, and whether it led already."""
        async with admin_of(options) as admin:
            try:
                return await admin.transfer_leadership(target_id, timeout_ms=round(catch_up_s * 1_000)), False
            except RefusedError as error:
                # What was asked for is so: Kafka's kafka-leader-election exits with 0 then, too.
                if error.code != ErrorCode.ELECTION_NOT_NEEDED:
                    raise
                return (await admin.describe_quorum()).epoch, True

    begun_s = time.monotonic()
    epoch, led_already = asyncio.run(ask())
    took_ms = 0 if led_already else round((time.monotonic() - begun_s) * 1_000)
    if as_json:
        click.echo(json.dumps({"leaderId": target_id, "leaderEpoch": epoch, "tookMs": took_ms}))
    elif led_already:
        click.echo(f"Node {target_id} leads epoch {epoch} already: nothing to do")
    else:
        click.echo(f"Node {target_id} leads epoch {epoch} after {in_ms(took_ms)}")
