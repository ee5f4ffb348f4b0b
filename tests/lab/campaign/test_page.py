"""The page of campaigns, on a phone, a tablet and a desk: what it says, and that it shows what a file says as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.campaign.page import FAILURES_SHOWN_MAX, RunPace, campaign_page
from lab.campaign.replays import Replays
from pykraft.page.template import PLACE
from pykraft.sim.run.campaign import Identity
from pykraft.sim.run.totals import CampaignSummary
from tests.browser import OpenPage
from tests.look import Scheme, faults_of, in_all_windows
from tests.sim.run.campaign_rows import IDENTITY, failed, passed

EVIL = "<script>alert(1)</script> @title@"
ROLES = ("leader", "follower", "observer", "prospective-voted", "unattached-voted", "recovering", "down")
KNOWN = Replays(words=("--faults", "all"), is_this_code=True)
UNKNOWN = Replays(words=None, is_this_code=False)


def summary(failures: int, identity: Identity = IDENTITY) -> CampaignSummary:
    found = CampaignSummary(identity=identity)
    for seed in range(failures):
        found.add(failed(seed, identity, reason=f"ViolationError: OneVote: {EVIL} {'long' * 300}"))
    for kind in range(40):
        states = {role: 3 ** (kind % 9) * (place % 3) for place, role in enumerate(ROLES)}
        name = f"power loss while writing {kind}"
        found.add(passed(failures + kind, identity, faults={name: 1 + kind}, states={name: states}))
    return found


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two versions: one passed, one with 100 failures."""
    evil = Identity(scenario=EVIL, version="2.0", source=f"{'e' * 16} {'f' * 16}")
    path = tmp_path_factory.mktemp("campaign") / "page.html"
    path.write_text(campaign_page([summary(0), summary(100, evil)], [KNOWN, UNKNOWN]))
    return path


@in_all_windows
def test_the_page_looks_right(open_page: OpenPage, written: Path, width: int, scheme: Scheme) -> None:
    assert faults_of(open_page(written, width=width, scheme=scheme)) == []


def test_what_a_file_says_is_text(open_page: OpenPage, written: Path) -> None:
    page = open_page(written)
    assert page.locator("script").count() == 0
    assert EVIL in page.inner_text("#seed-99")
    assert page.locator("article").count() == 100
    assert EVIL in page.locator("h2.version").nth(1).inner_text()


def test_a_campaign_that_passed_says_so(tmp_path: Path) -> None:
    page = campaign_page([summary(0)], [KNOWN], RunPace(seeds=40, seconds=8.0))
    assert not PLACE.findall(page)
    assert '<header class="passed">' in page
    assert "<h1>40 seeds passed</h1>" in page
    assert "<p>40 seeds ran in 8 s, 5.0 seeds/s.</p>" in page
    assert "What failed" not in page
    assert "h2 class" not in page


def test_one_failure_has_its_rule_and_its_command() -> None:
    page = campaign_page([summary(1)], [KNOWN])
    assert '<header class="failed">' in page
    assert "<h1>1 of 41 seeds failed</h1>" in page
    assert "seed 0: OneVote" in page
    assert "<code>bin/pykraft sim replay --seed 0 --faults all</code>" in page
    assert '<td>OneVote</td><td class="number">1</td>' in page


def test_failures_that_are_left_out_are_told() -> None:
    page = campaign_page([summary(FAILURES_SHOWN_MAX + 3)], [KNOWN])
    assert page.count("<article") == FAILURES_SHOWN_MAX
    assert "and 3 more failing seeds; the rows have them" in page


def test_heat_is_by_role_and_grows_with_the_count() -> None:
    page = campaign_page([summary(0)], [KNOWN])
    line = next(each for each in page.splitlines() if "power loss while writing 8<" in each)
    assert '<td class="number heat-5">13,122</td>' in line
    assert '<td class="number heat-0">·</td>' in line
    assert '<td class="number heat-1">1</td>' in page


def test_nothing_is_nothing() -> None:
    assert "<h1>No seed has a result</h1>" in campaign_page([], [])
    empty = CampaignSummary(identity=IDENTITY)
    assert "happened to</h3>" not in campaign_page([empty], [KNOWN], RunPace(seeds=0, seconds=0.0))
