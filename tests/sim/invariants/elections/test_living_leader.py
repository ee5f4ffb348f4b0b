"""A voter that campaigns right after it got an answer from its leader is found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.core.state import Follower
from pykraft.core.state.follower import SnapshotDownload
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.living_leader import LivingLeaderIsFollowed
from pykraft.sim.scenario.settings import listeners_of
from pykraft.types import Epoch, NodeId, ReportKind
from tests.sim.invariants.fakes import node, report, snapshot_id, view, world

FOLLOWS, CAMPAIGNS = view("follower", leader_id=2), view("prospective")
ASKS = SnapshotDownload(snapshot_id=snapshot_id(9), position=5)
STORES = SnapshotDownload(snapshot_id=snapshot_id(9))


def follower(
    ms: int,
    end_offset: int,
    download: SnapshotDownload | None = None,
    *,
    departures: int = 0,
    refusals: int = 0,
    epoch: int = 1,
) -> Any:
    """A follower of node 2, at that time of its clock."""
    state = Follower(
        epoch=Epoch(epoch),
        leader_id=NodeId(2),
        leader_listeners=listeners_of(2),
        fetch_deadline_ms=0,
        update_deadline_ms=0,
        download=download,
    )
    made = node(1, ms=ms, raft=SimpleNamespace(state=state, log=SimpleNamespace(end_offset=end_offset)))
    made.process.wiretap.departures = [None] * departures
    made.process.wiretap.refusals[2] = refusals
    return made


def watched(*seen: Any) -> LivingLeaderIsFollowed:
    made = LivingLeaderIsFollowed(world())
    for each in seen:
        made.after_event(each, FOLLOWS)
    return made


TOOK_RECORDS = (follower(0, 4), follower(10, 5))
TOOK_A_SLICE = (follower(0, 4, ASKS), follower(10, 4, STORES))


@pytest.mark.parametrize("seen", [TOOK_RECORDS, TOOK_A_SLICE])
def test_it_is_found_within_the_timeout_and_no_later(seen: tuple[Any, ...]) -> None:
    with pytest.raises(ViolationError, match="node 1 campaigns 499 ms after it took something from 2, its leader of"):
        watched(*seen).changed(follower(509, 5), FOLLOWS, CAMPAIGNS)
    watched(*seen).changed(follower(510, 5), FOLLOWS, CAMPAIGNS)


@pytest.mark.parametrize(
    "seen",
    [
        (),
        (follower(0, 4), follower(10, 4)),
        (follower(0, 4, ASKS), follower(10, 9, STORES), follower(20, 9, epoch=2)),
        (follower(0, 4, STORES), follower(10, 4, ASKS)),
        (follower(0, 4, STORES), follower(10, 9, STORES)),
        (follower(0, 4, STORES), follower(10, 9)),
    ],
)
def test_who_took_nothing_of_this_leader_may_campaign(seen: tuple[Any, ...]) -> None:
    watched(*seen).changed(follower(20, 9), FOLLOWS, CAMPAIGNS)


def test_who_was_told_that_it_leaves_or_gave_it_up_may_campaign() -> None:
    watched(*TOOK_RECORDS).changed(follower(20, 5, departures=1), FOLLOWS, CAMPAIGNS)
    made = watched(*TOOK_RECORDS)
    made.reported(follower(15, 5), report())
    made.reported(follower(15, 5), report(ReportKind.LEADER_GIVEN_UP, 2))
    made.changed(follower(20, 5), FOLLOWS, CAMPAIGNS)


def test_who_was_refused_since_may_campaign() -> None:
    watched(*TOOK_RECORDS).changed(follower(20, 5, refusals=1), FOLLOWS, CAMPAIGNS)
    was_refused = (follower(0, 4), follower(5, 4, refusals=1), follower(10, 5, refusals=1))
    with pytest.raises(ViolationError, match="node 1 campaigns 10 ms after it took something from 2"):
        watched(*was_refused).changed(follower(20, 5, refusals=1), FOLLOWS, CAMPAIGNS)


def test_another_epoch_and_another_role_are_no_campaign_against_it() -> None:
    watched(*TOOK_RECORDS).changed(follower(20, 5), FOLLOWS, view("prospective", 2))
    watched(*TOOK_RECORDS).changed(follower(20, 5), FOLLOWS, view("unattached"))
    made = watched(*TOOK_RECORDS)
    made.after_event(follower(15, 5), view("observer", leader_id=2))
    made.changed(follower(20, 5), FOLLOWS, CAMPAIGNS)
