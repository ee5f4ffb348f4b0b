"""Rows of earlier runs are counted if their seeds are asked for; the rest is left to run."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.campaign.summary import CampaignSummary
from pykraft.cli.sim.kept_rows import kept_rows, write_report
from pykraft.errors import UsageError
from tests.campaign.campaign_rows import IDENTITY, failed, passed, write


def test_earlier_rows_count_if_their_seeds_are_asked_for(tmp_path: Path) -> None:
    path, summary = write(tmp_path / "rows", passed(1), failed(2), passed(9)), CampaignSummary(identity=IDENTITY)
    with kept_rows(path, range(5), summary) as (left, keep):
        assert list(left) == [0, 3, 4]
        keep(passed(3))
    assert (summary.totals.seeds, summary.failed) == (2, 1)
    with kept_rows(path, range(5), CampaignSummary(identity=IDENTITY)) as (left, _):
        assert list(left) == [0, 4]


def test_without_a_file_nothing_is_kept() -> None:
    summary = CampaignSummary(identity=IDENTITY)
    with kept_rows(None, range(3), summary) as (left, keep):
        keep(passed(1))
    assert (left, summary.totals.seeds) == (range(3), 0)


def test_a_file_that_cannot_be_opened_is_told_with_its_option(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match=r"--out .*: Is a directory"),
        kept_rows(tmp_path, range(1), CampaignSummary(identity=IDENTITY)),
    ):
        pass


def test_the_report_has_the_command_of_the_run(tmp_path: Path) -> None:
    summary = CampaignSummary(identity=IDENTITY)
    summary.add(failed(7))
    write_report(tmp_path / "page.html", summary, ("--faults", "a b"), ran=1, took_s=0.5)
    text = (tmp_path / "page.html").read_text()
    assert "sim replay --seed 7 --faults &#x27;a b&#x27;" in text
    assert "1 seed ran in 0 s, 2.0 seeds/s." in text
