"""Adds up files of campaigns by version of the code: each scenario, version and source has a summary of its own.

A seed counts once in each of them, wherever its row is. Invariant: seeds of two versions are never added up, and two
rows that contradict each other are an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lab.campaign.row_file import two_results
from lab.campaign.rows import digest_of, identity_of, lines_of, rows_of
from lab.campaign.seed_digests import SeedDigests
from pykraft.errors import UsageError
from pykraft.sim.run.campaign import Identity
from pykraft.sim.run.totals import CampaignSummary

IDENTITIES_MAX: Final = 1_000


def summarize(paths: Sequence[Path]) -> list[CampaignSummary]:
    """A summary for each version, in the order in which they occur. Errors: UsageError; OSError."""
    found: dict[Identity, tuple[CampaignSummary, SeedDigests]] = {}
    for path in paths:
        with path.open("rb") as file:
            for row in rows_of(path, lines_of(path, file)):
                identity = identity_of(row)
                if identity not in found:
                    if len(found) == IDENTITIES_MAX:
                        raise UsageError(f"{path}: rows of more than {IDENTITIES_MAX:,} versions; give fewer files")
                    found[identity] = CampaignSummary(identity=identity), SeedDigests()
                summary, known = found[identity]
                is_new = known.add(row["seed"], digest_of(row))
                if is_new is None:
                    raise two_results(path, row)
                if is_new:
                    summary.add(row)
    return [summary for summary, _ in found.values()]
