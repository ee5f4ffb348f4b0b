"""A leader counts durable records only: its own when flushed, others' when fetched, and of its own epoch.

Source: KIP-595 §Leader; Kafka ``LeaderState``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pykraft.core import messages
from pykraft.core.effects import Effect, NotifyHighWatermark, Reply
from pykraft.core.election import NEVER_MS
from pykraft.core.enter_state import check_quorum_deadline_ms
from pykraft.core.leader.appending import advance_high_watermark
from pykraft.core.on.timer import poll
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.core.state.leader import OFTEN_COUNT
from pykraft.types import Epoch, Io, NodeId, Offset
from tests.core.replicas import (
    EPOCH,
    NOW,
    answer,
    ask,
    done,
    key,
    later,
    leader,
    only,
    replica,
    sent,
    voter_set,
)
from tests.core.said import begun, fetch, vote


def leading(size: int, *, end_offset: int = 13) -> tuple[Replica, Leader]:
    """One of ``size`` voters; its epoch begins at 10, and its flushed log ends at ``end_offset``."""
    members = voter_set(*range(1, size + 1))
    state = leader(voters=members)
    made = replica(state, voters=members)
    if end_offset > 10:
        made.log.append(base_offset=Offset(10), end_offset=Offset(end_offset), epoch=EPOCH)
        made.log.submit(Io(1))
        made.log.persist(Io(1))
    return made, state


def high_watermarks(found: Sequence[Effect]) -> list[int]:
    return [effect.high_watermark for effect in found if isinstance(effect, NotifyHighWatermark)]


@pytest.mark.conformance(93)
@pytest.mark.parametrize(
    ("size", "fetches", "expected"),
    [
        (1, [], 13),
        (2, [], None),
        (2, [(2, 11)], 11),
        (2, [(2, 13)], 13),
        (3, [], None),
        (3, [(2, 12)], 12),
        (3, [(2, 11), (3, 13)], 13),
        (3, [(2, 12), (3, 11)], 12),
    ],
)
def test_the_high_watermark_of_one_two_and_three_voters(
    size: int, fetches: list[tuple[int, int]], expected: int | None
) -> None:
    made, state = leading(size)
    advance_high_watermark(made, state)
    for node_id, offset in fetches:
        ask(made, fetch(replica=node_id, at=(offset, 5)))
    assert state.high_watermark == expected


@pytest.mark.conformance(93)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_records_of_older_epochs_alone_are_not_committed(size: int) -> None:
    made, state = leading(size, end_offset=10)
    for node_id in range(2, size + 1):
        ask(made, fetch(replica=node_id, at=(10, 3)))
    advance_high_watermark(made, state)
    assert state.high_watermark is None


@pytest.mark.conformance(93)
def test_the_same_word_twice_changes_nothing() -> None:
    made, state = leading(3)
    assert high_watermarks(ask(made, fetch(at=(12, 5)))) == [12]
    assert high_watermarks(ask(made, fetch(at=(12, 5)))) == []
    assert high_watermarks(ask(made, fetch(at=(11, 5)))) == []
    assert state.high_watermark == 12
    assert state.progress.voters[NodeId(2)].end_offset == 11


@pytest.mark.conformance(93)
def test_the_own_log_does_not_shrink() -> None:
    made, state = leading(3)
    ask(made, fetch(at=(12, 5)))
    assert state.high_watermark == 12
    with pytest.raises(AssertionError, match="never cut"):
        made.log.truncate_to(Offset(11))


@pytest.mark.conformance(93)
def test_an_acknowledgement_of_begin_quorum_epoch_from_anybody_changes_nothing() -> None:
    made, state = leading(3)
    before = replace(state)
    for peer_id in (2, 9):
        answer(made, begun(), peer_id=peer_id)
    assert made.state == before
    assert not state.fetched_voters


@pytest.mark.conformance(93)
def test_who_should_lead_next() -> None:
    _, state = leading(3)
    state.progress.of(key(3)).fetched(Offset(11), Offset(13), NOW)
    assert state.progress.by_fetch_offset(without=NodeId(1)) == (key(3), key(2))
    state.progress.of(key(2)).fetched(Offset(11), Offset(13), NOW)
    assert state.progress.by_fetch_offset(without=NodeId(1)) == (key(2), key(3))


@pytest.mark.conformance(93)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_leader_that_nobody_fetches_from_resigns_unless_it_is_alone(size: int) -> None:
    made, state = leading(size)
    state.check_quorum_deadline_ms = check_quorum_deadline_ms(made, NOW)
    assert (state.check_quorum_deadline_ms == NEVER_MS) == (size == 1)
    poll(made, later(2_999))
    assert made.role == "leader"
    poll(made, later(3_000))
    assert made.role == ("leader" if size == 1 else "resigned")


@pytest.mark.conformance(93)
def test_begin_quorum_epoch_goes_out_each_half_fetch_timeout_to_who_does_not_fetch() -> None:
    made, state = leading(3)
    state.begin_quorum_deadline_ms = NOW.mono_ms
    poll(made, NOW)
    assert sent(done(made)) == [(2, "BeginQuorumEpochRequest"), (3, "BeginQuorumEpochRequest")]
    assert state.begin_quorum_deadline_ms == NOW.mono_ms + 1_000
    made.connections.reset()
    state.progress.of(key(2)).fetched(Offset(10), Offset(13), later(500))
    poll(made, later(999))
    assert sent(done(made)) == []
    poll(made, later(1_000))
    assert sent(done(made)) == [(3, "BeginQuorumEpochRequest")]


@pytest.mark.conformance(93)
@pytest.mark.parametrize("pre_vote", [False, True])
def test_it_denies_every_vote_of_its_epoch(pre_vote: bool) -> None:
    made, state = leading(3)
    for node_id in (2, 3, 8):
        message = only(
            ask(made, vote(epoch=int(Epoch(5)), candidate=node_id, end=(99, 4), pre_vote=pre_vote)), Reply
        ).message
        assert isinstance(message, messages.VoteResponse)
        assert (message.error, message.vote_granted, message.leader_id) == (0, False, 1)
    assert made.state is state


@pytest.mark.parametrize(
    ("advances_ms", "expected"),
    [
        ([], False),
        ([*range(OFTEN_COUNT - 1)], False),
        ([100] * OFTEN_COUNT, True),
        ([100 - 5 * OFTEN_COUNT] + [100] * (OFTEN_COUNT - 1), True),
        ([99 - 5 * OFTEN_COUNT] + [100] * (OFTEN_COUNT - 1), False),
        ([0] + [100] * OFTEN_COUNT, True),
    ],
)
def test_how_often_the_high_watermark_advances_is_an_average(advances_ms: list[int], expected: bool) -> None:
    _, state = leading(3)
    state.advanced_ms.extend(advances_ms)
    assert state.advances_every(5, 100) is expected
