"""Files add up by version of the code; a seed counts once; contradictions are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.campaign.report import IDENTITIES_MAX, summarize
from pykraft.errors import UsageError
from pykraft.sim.run.campaign import Identity
from tests.sim.run.campaign_rows import IDENTITY, OTHER, failed, passed, write


def test_versions_are_added_up_separately(tmp_path: Path) -> None:
    one = write(tmp_path / "1", passed(1), failed(2), passed(1, OTHER))
    two = write(tmp_path / "2", failed(2), passed(3), passed(2, OTHER))
    first, second = summarize([one, two])
    assert (first.identity, first.totals.seeds, first.failed) == (IDENTITY, 3, 1)
    assert (second.identity, second.totals.seeds, second.failed) == (OTHER, 2, 0)


def test_a_seed_with_two_results_is_refused(tmp_path: Path) -> None:
    one, two = write(tmp_path / "1", passed(1)), write(tmp_path / "2", failed(1))
    with pytest.raises(UsageError, match="2: seed 1 has another row already: one of the two is not true"):
        summarize([one, two])


def test_the_number_of_versions_is_bounded(tmp_path: Path) -> None:
    rows = [passed(1, Identity(scenario="s", version="1", source=str(each))) for each in range(IDENTITIES_MAX + 1)]
    with pytest.raises(UsageError, match="rows of more than 1,000 versions"):
        summarize([write(tmp_path / "rows", *rows)])


def test_a_file_without_rows_has_no_versions(tmp_path: Path) -> None:
    assert summarize([write(tmp_path / "rows")]) == []
