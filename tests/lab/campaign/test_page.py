"""The page of campaigns, on a phone, a tablet and a desk: what it says, and that it shows what a file says as text.

What is said of campaigns; with several versions nothing is added up.

A replay command is told only if its options give the scenario of the row.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.campaign.page import (
    FAILURES_SHOWN_MAX,
    Replays,
    RunPace,
    campaign_page,
    coverage_rows,
    find_replays,
    name_of,
    replay_note,
    roles_of,
    summary_row,
    title_of,
    version_row,
)
from pykraft.errors import UsageError
from pykraft.page import PLACE
from pykraft.sim.run.campaign import CampaignSummary, Identity
from pykraft.sim.scenario.file import load
from tests.browser import OpenPage
from tests.look import Scheme, faults_of, in_all_windows
from tests.sim.run.campaign_rows import IDENTITY, OTHER, failed, passed

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


def summary_of(identity: Identity, *failing: int) -> CampaignSummary:
    found = CampaignSummary(identity=identity)
    for seed in range(3):
        found.add(failed(seed, identity) if seed in failing else passed(seed, identity))
    return found


def test_the_title_is_the_verdict() -> None:
    assert title_of([summary_of(IDENTITY)]) == "3 seeds passed"
    assert title_of([summary_of(IDENTITY, 1)]) == "1 of 3 seeds failed"
    assert title_of([summary_of(IDENTITY), summary_of(OTHER)]) == "2 versions of the code passed"
    assert title_of([summary_of(IDENTITY), summary_of(OTHER, 0, 1)]) == "Seeds of 1 of 2 versions of the code failed"
    assert title_of([]) == "No seed has a result"


def test_a_version_has_a_name_and_a_row() -> None:
    one = summary_of(IDENTITY, 1)
    assert name_of(one) == f"version 1.0, source {'c' * 16}, scenario {'s' * 16}"
    assert version_row(one) == ("c" * 16, "3", "2", "1", "5", "20", "1.0", "s" * 16)


def test_the_object_of_a_version_has_all_that_the_page_shows() -> None:
    row = summary_row(summary_of(IDENTITY, 1), KNOWN)
    assert (row["seeds"], row["failed"], row["rules"]) == (3, 1, {"OneVote": 1})
    replay = "bin/pykraft sim replay --seed 1 --faults all"
    assert row["failures"] == [{"seed": 1, "rule": "OneVote", "story": "it broke", "replay": replay}]
    assert row["states"]["kill"] == {"leader": 2, "down": 2, "follower": 1}


def test_roles_have_an_order_and_each_fault_a_cell_for_each() -> None:
    one = summary_of(IDENTITY, 1)
    one.add(passed(9, states={"kill": {"visitor": 1}}))
    assert roles_of(one.totals) == ["leader", "follower", "down", "visitor"]
    assert list(coverage_rows(one.totals)) == [("heal", 3, 3, [0, 0, 0, 0]), ("kill", 7, 4, [2, 1, 2, 1])]


def test_what_is_needed_to_replay_a_seed_is_told() -> None:
    one = summary_of(IDENTITY, 1)
    assert replay_note(one, KNOWN) == ""
    assert "with source cccccccccccccccc" in replay_note(one, Replays(words=(), is_this_code=False))
    assert "name these options" in replay_note(one, Replays(words=None, is_this_code=True))


def summary_with(identity: Identity, *, is_failed: bool = True) -> CampaignSummary:
    found = CampaignSummary(identity=identity)
    found.add(failed(7, identity) if is_failed else passed(7, identity))
    return found


def test_the_options_of_shipped_scenarios_are_found() -> None:
    identities = [Identity.of(load(names)) for names in ([], ["all"])]
    found = find_replays([*map(summary_with, identities), summary_with(IDENTITY)])
    assert [each.command(7) for each in found] == [
        "bin/pykraft sim replay --seed 7",
        "bin/pykraft sim replay --seed 7 --faults all",
        None,
    ]
    assert [each.is_this_code for each in found] == [True, True, False]


def test_other_options_are_given() -> None:
    scenario = load(["disk", "network"])
    words = ("--faults", "disk,network")
    (found,) = find_replays([summary_with(Identity.of(scenario))], (scenario, words))
    assert found.command(7) == "bin/pykraft sim replay --seed 7 --faults disk,network"
    with pytest.raises(UsageError, match="--faults disk,network: none of the rows is of this scenario"):
        find_replays([summary_with(IDENTITY)], (scenario, words))


def test_nothing_is_looked_for_if_nothing_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.campaign.page.shipped_names", lambda: pytest.fail("looked for"))
    (found,) = find_replays([summary_with(Identity.of(load()), is_failed=False)])
    assert found.words is None
