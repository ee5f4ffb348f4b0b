"""``pykraft quorum upgrade``: raise the feature kraft.version, which moves the voters into the log.

Options and output are those of Kafka's ``kafka-features upgrade``. Invariant: it raises only the named feature.
`pykraft.core.on.voters.upgrade` knows what a level means.

Source: KIP-584, KIP-853 §Upgrade; Kafka's ``FeatureCommand``.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, Final

import click

from pykraft.cli.json_option import json_option
from pykraft.cli.quorum.options import admin_of, joined, with_options
from pykraft.errors import UsageError
from pykraft.rpc.api_versions import KRAFT_VERSION_FEATURE

_FEATURE: Final = re.compile(r"([a-z.]+)=([0-9]{1,4})")


@click.command()
@with_options
@click.option(
    "--feature", metavar="NAME=LEVEL", required=True, help="Feature and its new level; the only one is kraft.version=1."
)
@click.option("--dry-run", is_flag=True, help="Only ask the leader whether the upgrade is possible.")
@json_option
@click.pass_obj
def upgrade(
    before: dict[str, Any],
    /,
    *,
    feature: str,
    dry_run: bool,
    as_json: bool,
    **after: Any,  # noqa: ANN401 - as click has them
) -> None:
    """Move static voters into the log by raising kraft.version to 1; this is final. All voters must be running."""
    level = level_of(feature)
    options = joined(before, after)

    async def ask() -> None:
        async with admin_of(options) as admin:
            await admin.upgrade_kraft_version(level, validate_only=dry_run)

    asyncio.run(ask())
    if as_json:
        click.echo(json.dumps({"feature": KRAFT_VERSION_FEATURE, "level": level, "dryRun": dry_run}))
    else:
        done = "can be upgraded" if dry_run else "was upgraded"
        click.echo(f"{KRAFT_VERSION_FEATURE} {done} to {level}.")


def level_of(feature: str) -> int:
    """The level of kraft.version that ``NAME=LEVEL`` names. Errors: UsageError."""
    found = _FEATURE.fullmatch(feature)
    if found is None:
        raise UsageError(f"--feature {feature[:100]!r}: give NAME=LEVEL, such as kraft.version=1")
    if found[1] != KRAFT_VERSION_FEATURE:
        raise UsageError(f"--feature {found[1]}: a pykraft quorum has only the feature {KRAFT_VERSION_FEATURE}")
    return int(found[2])
