"""The groups' state in the log: applied alike everywhere, written again as images, never missing after a snapshot.

Source: ours (ADR 230).
"""

from collections.abc import Sequence

import pytest

from pykraft.core.effects import NotifyLeaderChange
from pykraft.core.log_view import LogView
from pykraft.errors import BufferFullError, ErrorCode, NotLeaderError
from pykraft.host.fetch_read import HeaderAndBytes
from pykraft.host.groups import group_log
from pykraft.host.groups.group_table import CommittedOffset, changed_offsets
from pykraft.protocol.batch import IMAGE_BEGIN_BIT, IMAGE_BIT, IMAGE_END_BIT
from pykraft.protocol.records import encode_group_batch
from pykraft.types import Epoch, NodeId, Offset
from tests.host.clients.world import FOLLOWS, Leader, batch_of
from tests.host.fakes import TOPIC_NAME, at

WHOLE = IMAGE_BIT | IMAGE_BEGIN_BIT | IMAGE_END_BIT


def change(offset: int, group: str = "g") -> bytes:
    committed = CommittedOffset(offset=offset, leader_epoch=4, metadata="", commit_ms=1)
    return changed_offsets(group, {(TOPIC_NAME, 0): committed})


def batch(*offsets: int, bits: int = 0, group: str = "g") -> HeaderAndBytes:
    return encode_group_batch([change(offset, group) for offset in offsets], timestamp_ms=1, image_bits=bits)


def state(leader: Leader) -> dict[str, list[int]]:
    return {
        name: [each.offset for each in group.offsets.values()] for name, group in leader.groups.table.groups.items()
    }


def write(leader: Leader, offset: int, codes: list[int]) -> None:
    leader.groups.write(change(offset), codes.append)


def images(leader: Leader) -> Sequence[int]:
    """Where the batches of images begin."""
    found = leader.recent.take(leader.recent.start_offset, leader.recent.end_offset, 2**31 - 1)
    return [header.base_offset for header, _ in found if header.attributes & IMAGE_BIT]


def test_a_follower_applies_what_is_committed() -> None:
    follower = Leader(FOLLOWS)
    follower.append(batch_of([b"a"]), batch(1), batch_of([b"b"]), batch(2, 3), is_committed=False)
    assert state(follower) == {}
    follower.commit()
    assert state(follower) == {"g": [3]}
    follower.append(batch(4, bits=IMAGE_BIT | IMAGE_BEGIN_BIT, group="h"))
    assert state(follower) == {"g": [3]}
    follower.append(batch(5, bits=IMAGE_BIT | IMAGE_END_BIT, group="i"))
    assert state(follower) == {"h": [4], "i": [5]}


def test_an_image_without_an_end_or_a_beginning_counts_for_nothing() -> None:
    follower = Leader(FOLLOWS)
    follower.append(batch(1), batch(4, bits=IMAGE_BIT | IMAGE_BEGIN_BIT, group="h"), batch(2))
    follower.append(batch(5, bits=IMAGE_BIT | IMAGE_END_BIT, group="i"))
    assert state(follower) == {"g": [2]}
    assert not follower.groups._may_count(Offset(1))


def test_a_truncation_takes_back_where_the_state_begins() -> None:
    follower = Leader(FOLLOWS)
    follower.append(batch_of([b"a"]), is_committed=True)
    follower.append(batch_of([b"b"]), batch(1), is_committed=False)
    follower.recent.truncate_to(Offset(1))
    follower.view = LogView(start_offset=Offset(0), end_offset=Offset(1), epochs=())
    follower.groups.truncated(Offset(1))
    follower.append(batch(2))
    assert state(follower) == {"g": [2]}
    follower.groups.truncated(Offset(2))
    follower.append(batch(3))
    assert state(follower) == {"g": [3]}


def test_a_change_is_answered_when_it_is_applied_and_the_next_ones_follow() -> None:
    leader, codes = Leader(), list[int]()
    for offset in (1, 2, 3):
        write(leader, offset, codes)
    leader.decide()
    leader.producers.committed(leader.recent.end_offset)
    # Committed, but the state may be read from a file a little later.
    assert (codes, leader.inbox.take()) == ([], None)
    leader.commit()
    assert (codes, state(leader)) == ([0], {"g": [1]})
    leader.take()
    assert (codes, state(leader)) == ([0, 0, 0], {"g": [3]})


def test_what_the_log_did_not_take_is_refused() -> None:
    leader, codes = Leader(), list[int]()
    for error, code in (
        (BufferFullError("full"), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (NotLeaderError(NodeId(2), Epoch(5)), ErrorCode.NOT_COORDINATOR),
    ):
        write(leader, 1, codes)
        leader.reject(error)
        assert codes.pop() == code
    write(leader, 1, codes)
    write(leader, 2, codes)
    leader.decide()
    leader.lose()
    assert codes == [ErrorCode.NOT_COORDINATOR] * 2


def test_too_much_at_a_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_log, "WAITING_SIZE_BYTES_MAX", len(change(1)))
    leader, codes = Leader(), list[int]()
    for offset in (1, 2, 3):
        write(leader, offset, codes)
    assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    leader.take()
    leader.take()
    assert codes[1:] == [0, 0]


def test_a_new_leader_is_ready_when_it_has_applied_what_was_before_its_epoch() -> None:
    node = Leader(FOLLOWS)
    node.append(batch(1), batch_of([b"a"]), is_committed=False)
    node.delivery.leader_changed(NotifyLeaderChange(epoch=Epoch(5), leader_id=NodeId(1), epoch_start_offset=Offset(1)))
    node.status = node.status._replace(role="leader", leader_id=NodeId(1), epoch=Epoch(5))
    assert not node.groups.is_loaded
    node.commit()
    assert node.groups.is_loaded


def test_a_snapshot_counts_once_an_image_follows_its_end() -> None:
    leader, codes, counted = Leader(), list[int](), list[int]()
    leader.append(batch_of([b"a"]))
    leader.groups.hold(Offset(1), lambda: counted.append(1))
    assert counted == [1], "there are no groups"
    write(leader, 7, codes)
    leader.take()
    leader.groups.hold(Offset(1), lambda: counted.append(2))
    assert counted == [1, 2], "all of groups is after its end"
    leader.append(batch_of([b"b"]))
    leader.groups.hold(Offset(3), lambda: counted.append(3))
    write(leader, 8, codes)
    leader.decide()
    assert (counted, images(leader)) == ([1, 2], [3])
    leader.commit()
    assert (counted, codes) == ([1, 2, 3], [0])
    leader.take()
    assert (codes, state(leader)) == ([0, 0], {"g": [8]})
    # From the snapshot's end on, the log alone makes the same state.
    fresh = Leader(FOLLOWS)
    fresh.append(*leader.recent.take(Offset(3), Offset(100), 10**6))
    assert (state(fresh), leader.inbox.take()) == (state(leader), None)


def test_a_follower_waits_for_the_image_of_its_leader() -> None:
    follower, counted = Leader(FOLLOWS), list[int]()
    follower.append(batch(1), batch_of([b"a"]), batch(2))
    follower.groups.hold(Offset(2), lambda: counted.append(2))
    follower.append(batch(2, bits=WHOLE), is_committed=False)
    assert (counted, follower.inbox.take()) == ([], None)
    follower.commit()
    assert counted == [2]
    # Not before it has applied all that the snapshot has.
    late = Leader(FOLLOWS)
    late.append(batch(1), batch_of([b"b"]), is_committed=False)
    late.groups.hold(Offset(1), lambda: counted.append(1))
    assert counted == [2]


def test_the_leader_writes_images_for_the_snapshots_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_log, "IMAGE_EVERY_BYTES", 2_000)
    leader, codes = Leader(), list[int]()
    leader.append(batch_of([b"x" * 3_000]))
    assert leader.inbox.take() is None
    write(leader, 1, codes)
    leader.take()
    for _ in range(2):
        leader.append(batch_of([b"x" * 3_000]))
        leader.take()
    assert images(leader) == [3, 6]
    assert leader.inbox.take() is None


def test_a_large_image_has_parts_and_is_begun_anew_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_log, "WRITE_SIZE_BYTES_MAX", 50_000)
    leader, codes, counted = Leader(), list[int](), list[int]()
    for number in range(3):
        leader.groups.write(change(number, f"{number}" * 30_000), codes.append)
        leader.take()
    leader.groups.hold(leader.recent.end_offset, lambda: counted.append(1))
    leader.take()
    leader.reject(BufferFullError("full"))
    leader.groups.poll(at(0))
    assert (counted, leader.inbox.take(), leader.groups.next_deadline_ms) == ([], None, group_log.RETRY_MS)
    before = state(leader)
    leader.groups.poll(at(group_log.RETRY_MS))
    begin = leader.recent.end_offset
    while not counted:
        leader.take()
    assert (images(leader)[1:], state(leader)) == ([begin, begin + 2, begin + 3], before)


def test_a_snapshot_that_replaces_the_log_leaves_nothing_but_what_follows() -> None:
    follower = Leader(FOLLOWS)
    follower.append(batch(1), batch(2, group="h"))
    follower.recent.begin_anew_at(Offset(10))
    follower.view = LogView(start_offset=Offset(0), end_offset=Offset(10), epochs=())
    follower.delivery.log_begins_at(Offset(10))
    assert state(follower) == {}
    follower.append(batch(3), batch(4, bits=WHOLE))
    assert (state(follower), follower.groups._may_count(Offset(11))) == ({"g": [4]}, True)
