"""A replay command is told only if its options give the scenario of the row."""

from __future__ import annotations

import pytest

from lab.campaign.replays import find_replays
from pykraft.errors import UsageError
from pykraft.sim.run.campaign import Identity
from pykraft.sim.run.totals import CampaignSummary
from pykraft.sim.scenario.file import load
from tests.sim.run.campaign_rows import IDENTITY, failed, passed


def summary(identity: Identity, *, is_failed: bool = True) -> CampaignSummary:
    found = CampaignSummary(identity=identity)
    found.add(failed(7, identity) if is_failed else passed(7, identity))
    return found


def test_the_options_of_shipped_scenarios_are_found() -> None:
    identities = [Identity.of(load(names)) for names in ([], ["all"])]
    found = find_replays([*map(summary, identities), summary(IDENTITY)])
    assert [each.command(7) for each in found] == [
        "bin/pykraft sim replay --seed 7",
        "bin/pykraft sim replay --seed 7 --faults all",
        None,
    ]
    assert [each.is_this_code for each in found] == [True, True, False]


def test_other_options_are_given() -> None:
    scenario = load(["disk", "network"])
    words = ("--faults", "disk,network")
    (found,) = find_replays([summary(Identity.of(scenario))], (scenario, words))
    assert found.command(7) == "bin/pykraft sim replay --seed 7 --faults disk,network"
    with pytest.raises(UsageError, match="--faults disk,network: none of the rows is of this scenario"):
        find_replays([summary(IDENTITY)], (scenario, words))


def test_nothing_is_looked_for_if_nothing_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.campaign.replays.shipped_names", lambda: pytest.fail("looked for"))
    (found,) = find_replays([summary(Identity.of(load()), is_failed=False)])
    assert found.words is None
