"""The newest batches in memory: no gaps, no eviction before they are durable, compared with a plain list.

Source: etcd ``raft/log_unstable.go``.
"""

from hypothesis import given
from hypothesis import strategies as st

from pykraft.host.fetch_read import HeaderAndBytes, RecentBatches
from pykraft.types import Offset
from tests.host.fakes import batch

ALL = 2**30


def fresh(*base_offsets: int, size_bytes_max: int = ALL) -> RecentBatches:
    recent = RecentBatches(end_offset=Offset(base_offsets[0]), size_bytes_max=size_bytes_max)
    recent.append([batch(base_offset) for base_offset in base_offsets])
    return recent


def offsets(batches: list[HeaderAndBytes]) -> list[int]:
    return [header.base_offset for header, _ in batches]


def test_it_begins_empty_at_the_log_end() -> None:
    recent = RecentBatches(end_offset=Offset(7))
    assert (recent.start_offset, recent.end_offset, recent.size_bytes) == (7, 7, 0)
    assert recent.take(Offset(7), Offset(7), ALL) == []


def test_batches_are_taken_from_an_offset_up_to_an_end() -> None:
    recent = fresh(3, 4, 5, 6)
    assert offsets(recent.take(Offset(4), Offset(6), ALL)) == [4, 5]
    assert offsets(recent.take(Offset(3), Offset(7), ALL)) == [3, 4, 5, 6]
    assert recent.take(Offset(7), Offset(7), ALL) == []


def test_at_least_one_batch_is_taken_and_further_ones_while_they_fit() -> None:
    recent = fresh(3, 4, 5)
    size_bytes = len(batch(3)[1])
    assert offsets(recent.take(Offset(3), Offset(6), 1)) == [3]
    assert offsets(recent.take(Offset(3), Offset(6), 2 * size_bytes)) == [3, 4]
    assert offsets(recent.take(Offset(3), Offset(6), 3 * size_bytes - 1)) == [3, 4]


def test_an_offset_within_a_batch_finds_that_batch() -> None:
    recent = RecentBatches(end_offset=Offset(0))
    recent.append([batch(0, b"a", b"b", b"c"), batch(3)])
    assert offsets(recent.take(Offset(2), Offset(4), ALL)) == [0, 3]
    assert recent.take(Offset(0), Offset(2), ALL) == []


def test_only_durable_batches_are_let_go_and_only_while_there_are_too_many_bytes() -> None:
    size_bytes = len(batch(0)[1])
    recent = fresh(0, 1, 2, 3, size_bytes_max=2 * size_bytes)
    recent.evict(Offset(0))
    assert recent.start_offset == 0
    recent.evict(Offset(1))
    assert recent.start_offset == 1
    recent.evict(Offset(4))
    assert (recent.start_offset, recent.size_bytes) == (2, 2 * size_bytes)


def test_a_truncation_forgets_what_reaches_beyond_it() -> None:
    recent = fresh(3, 4, 5)
    recent.truncate_to(Offset(4))
    assert (recent.start_offset, recent.end_offset) == (3, 4)
    recent.append([batch(4, epoch=2)])
    assert [header.epoch for header, _ in recent.take(Offset(3), Offset(5), ALL)] == [1, 2]
    recent.truncate_to(Offset(1))
    assert (recent.start_offset, recent.end_offset, recent.size_bytes) == (1, 1, 0)


def test_a_truncation_within_a_batch_forgets_the_batch() -> None:
    recent = RecentBatches(end_offset=Offset(0))
    recent.append([batch(0), batch(1, b"a", b"b")])
    recent.truncate_to(Offset(2))
    assert offsets(recent.take(Offset(0), Offset(2), ALL)) == [0]


def test_letting_go_of_many_keeps_the_rest_in_place() -> None:
    size_bytes = len(batch(1_000)[1])
    recent = RecentBatches(end_offset=Offset(1_000), size_bytes_max=100 * size_bytes)
    recent.append([batch(offset) for offset in range(1_000, 2_000)])
    for flushed in range(1_000, 2_001, 50):
        recent.evict(Offset(flushed))
    assert recent.start_offset == 1_900
    assert offsets(recent.take(Offset(1_950), Offset(2_000), ALL)) == list(range(1_950, 2_000))


@given(st.lists(st.tuples(st.sampled_from(["append", "append", "append", "truncate", "evict"]), st.integers(0, 600))))
def test_it_answers_as_a_plain_list_of_everything_would(acts: list[tuple[str, int]]) -> None:
    recent = RecentBatches(end_offset=Offset(0), size_bytes_max=20 * len(batch(0, b"x")[1]))
    log: list[HeaderAndBytes] = []
    for act, number in acts:
        if act == "append":
            new = [batch(len(log) + step, b"x") for step in range(number % 40)]
            recent.append(new)
            log += new
        elif act == "truncate":
            del log[max(len(log) - number % 50, 0) :]
            recent.truncate_to(Offset(len(log)))
        else:
            recent.evict(Offset(min(number, len(log))))
        assert recent.end_offset == len(log)
        assert 0 <= recent.start_offset <= len(log)
        assert recent.size_bytes == sum(len(data) for _, data in log[recent.start_offset :])
        assert recent.take(recent.start_offset, recent.end_offset, ALL) == log[recent.start_offset :]


def test_a_log_that_begins_anew_has_nothing_recent() -> None:
    recent = RecentBatches(end_offset=Offset(0))
    recent.append([batch(offset) for offset in range(5)])
    recent.begin_anew_at(Offset(3))
    assert (recent.start_offset, recent.end_offset, recent.size_bytes) == (3, 3, 0)
    recent.append([batch(3)])
    assert offsets(recent.take(Offset(3), Offset(4), ALL)) == [3]
