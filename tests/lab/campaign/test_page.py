"""The page of campaigns, on a phone, a tablet and a desk: what it says, and that it shows what a file says as text."""

from pathlib import Path

import pytest

from lab.campaign.page import Replays, RunPace, campaign_page, replay_note
from pykraft.page import PLACE
from pykraft.sim.run.campaign import CampaignSummary, Identity
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


def summary_of(identity: Identity, *failing: int) -> CampaignSummary:
    found = CampaignSummary(identity=identity)
    for seed in range(3):
        found.add(failed(seed, identity) if seed in failing else passed(seed, identity))
    return found


def test_what_is_needed_to_replay_a_seed_is_told() -> None:
    one = summary_of(IDENTITY, 1)
    assert replay_note(one, KNOWN) == ""
    assert "with source cccccccccccccccc" in replay_note(one, Replays(words=(), is_this_code=False))
    assert "name these options" in replay_note(one, Replays(words=None, is_this_code=True))
