"""A follower knows its leader's endpoint, waits until its timeout, and never lowers its high watermark.

Source: KIP-595 §Fetch, KIP-996; Kafka ``FollowerState``.
"""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from pykraft.core.effects import Report
from pykraft.core.on.send_requests import send_fetch_to_leader
from pykraft.core.on.timer import next_deadline_ms, poll
from pykraft.core.state import Follower
from pykraft.core.state.follower import SnapshotDownload
from pykraft.types import NO_LISTENERS, Endpoint, Instant, Listeners, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from tests.core.replicas import (
    EPOCH,
    LATER_MS,
    LISTENER,
    NOW,
    answer,
    ask,
    done,
    follower,
    kinds,
    listeners,
    only,
    replica,
    sent,
    twice,
)
from tests.core.said import fetched, vote

DUE = Instant(mono_ms=LATER_MS, wall_ms=0)


def test_a_leader_without_endpoints_cannot_be_followed() -> None:
    with pytest.raises(AssertionError):
        Follower(
            epoch=EPOCH, leader_id=NodeId(2), leader_listeners=NO_LISTENERS, fetch_deadline_ms=0, update_deadline_ms=0
        )


@pytest.mark.conformance(90, "H80")
def test_it_campaigns_when_its_time_is_over_and_a_fetch_gives_it_more() -> None:
    made = replica(follower())
    assert next_deadline_ms(made) == LATER_MS
    poll(made, Instant(mono_ms=LATER_MS - 1, wall_ms=0))
    assert made.role == "follower"
    fetching = replica(follower())
    answer(fetching, fetched())
    poll(fetching, DUE)
    assert (fetching.role, next_deadline_ms(fetching)) == ("follower", NOW.mono_ms + 2_000)
    poll(made, DUE)
    assert made.role == "prospective"


@pytest.mark.conformance(90)
@pytest.mark.parametrize(("known", "told"), [(4, None), (4, 4), (None, None)])
def test_a_high_watermark_that_is_not_told_or_told_again_changes_nothing(known: int | None, told: int | None) -> None:
    made = replica(replace(follower(), high_watermark=None if known is None else Offset(known)))
    found = answer(made, fetched(high_watermark=told))
    assert made.high_watermark == known
    assert "NotifyHighWatermark" not in kinds(found)


@pytest.mark.conformance(90)
@pytest.mark.parametrize("told", [3, 0])
def test_a_leader_that_takes_the_high_watermark_back_is_not_listened_to(told: int) -> None:
    made = replica(replace(follower(), high_watermark=Offset(4)))
    assert f"went back from 4 to {told}" in only(twice(made, fetched(high_watermark=told)), Report).text
    assert (made.high_watermark, made.has_given_up_leader) == (4, True)


@pytest.mark.conformance(90)
def test_its_leader_is_reached_on_the_default_listener_or_not_at_all() -> None:
    made = replica(follower(), bootstrap=(Endpoint("b", 1),))
    state = made.state
    assert isinstance(state, Follower)
    send_fetch_to_leader(made, state, NOW)
    assert sent(done(made)) == [(2, "FetchRequest")]
    elsewhere = replace(follower(), leader_listeners=Listeners((("OTHER", Endpoint("n2", 1)),)))
    made = replica(elsewhere, bootstrap=(Endpoint("b", 1),))
    send_fetch_to_leader(made, elsewhere, NOW)
    assert sent(done(made)) == [(-2, "FetchRequest")]
    assert made.reply_listeners(LISTENER) == Listeners()
    assert made.reply_listeners("other") == Listeners((("OTHER", Endpoint("n2", 1)),))
    assert replica(follower()).reply_listeners(LISTENER) == listeners(2)


@pytest.mark.conformance(90)
@pytest.mark.parametrize("has_fetched", [False, True])
@pytest.mark.parametrize("voted", [None, 2, 3])
def test_it_gives_no_vote_in_its_epoch(voted: int | None, has_fetched: bool) -> None:
    made = replica(follower(voted=voted, has_fetched=has_fetched))
    before = made.state
    assert kinds(ask(made, vote(epoch=5, end=(99, 4)))) == ["Reply"]
    assert made.state is before


def test_a_copy_keeps_every_other_field() -> None:
    full = Follower(
        epoch=EPOCH,
        leader_id=NodeId(2),
        leader_listeners=follower().leader_listeners,
        voted=ReplicaKey(NodeId(2)),
        high_watermark=Offset(3),
        fetch_deadline_ms=5,
        part_deadline_ms=11,
        early_deadline_ms=6,
        has_fetched=True,
        is_corrected=True,
        is_doubted=True,
        has_agreed=True,
        empty_answers=7,
        empty_answer_ms=8,
        told_end_offset=Offset(9),
        successors=(ReplicaKey(NodeId(3)),),
        update_deadline_ms=10,
        has_updated=True,
        download=SnapshotDownload(snapshot_id=OffsetAndEpoch(Offset(4), EPOCH)),
    )
    unset = [field.name for field in fields(Follower) if getattr(full, field.name) in (None, False)]
    assert unset == ["leader_has_left"], "with it, no answer counts"
    assert full.knows(Offset(4)) == replace(full, high_watermark=Offset(4))
    assert full.heard(NOW, 2_000) == replace(full, fetch_deadline_ms=NOW.mono_ms + 2_000, early_deadline_ms=None)
    gone = replace(full, leader_has_left=True)
    assert gone.knows(Offset(4)) == replace(gone, high_watermark=Offset(4))
