"""What is said of campaigns; with several versions nothing is added up."""

from __future__ import annotations

from lab.campaign.replays import Replays
from lab.campaign.words import (
    coverage_rows,
    name_of,
    replay_note,
    roles_of,
    summary_row,
    title_of,
    version_row,
)
from pykraft.sim.run.campaign import Identity
from pykraft.sim.run.totals import CampaignSummary
from tests.sim.run.campaign_rows import IDENTITY, OTHER, failed, passed

KNOWN = Replays(words=("--faults", "all"), is_this_code=True)


def summary(identity: Identity, *failing: int) -> CampaignSummary:
    found = CampaignSummary(identity=identity)
    for seed in range(3):
        found.add(failed(seed, identity) if seed in failing else passed(seed, identity))
    return found


def test_the_title_is_the_verdict() -> None:
    assert title_of([summary(IDENTITY)]) == "3 seeds passed"
    assert title_of([summary(IDENTITY, 1)]) == "1 of 3 seeds failed"
    assert title_of([summary(IDENTITY), summary(OTHER)]) == "2 versions of the code passed"
    assert title_of([summary(IDENTITY), summary(OTHER, 0, 1)]) == "Seeds of 1 of 2 versions of the code failed"
    assert title_of([]) == "No seed has a result"


def test_a_version_has_a_name_and_a_row() -> None:
    one = summary(IDENTITY, 1)
    assert name_of(one) == f"version 1.0, source {'c' * 16}, scenario {'s' * 16}"
    assert version_row(one) == ("c" * 16, "3", "2", "1", "5", "20", "1.0", "s" * 16)


def test_the_object_of_a_version_has_all_that_the_page_shows() -> None:
    row = summary_row(summary(IDENTITY, 1), KNOWN)
    assert (row["seeds"], row["failed"], row["rules"]) == (3, 1, {"OneVote": 1})
    replay = "bin/pykraft sim replay --seed 1 --faults all"
    assert row["failures"] == [{"seed": 1, "rule": "OneVote", "story": "it broke", "replay": replay}]
    assert row["states"]["kill"] == {"leader": 2, "down": 2, "follower": 1}


def test_roles_have_an_order_and_each_fault_a_cell_for_each() -> None:
    one = summary(IDENTITY, 1)
    one.add(passed(9, states={"kill": {"visitor": 1}}))
    assert roles_of(one.totals) == ["leader", "follower", "down", "visitor"]
    assert list(coverage_rows(one.totals)) == [("heal", 3, 3, [0, 0, 0, 0]), ("kill", 7, 4, [2, 1, 2, 1])]


def test_what_is_needed_to_replay_a_seed_is_told() -> None:
    one = summary(IDENTITY, 1)
    assert replay_note(one, KNOWN) == ""
    assert "with source cccccccccccccccc" in replay_note(one, Replays(words=(), is_this_code=False))
    assert "name these options" in replay_note(one, Replays(words=None, is_this_code=True))
