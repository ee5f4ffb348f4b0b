"""A check against a journal finds every fault planted in a log, and counts like one of every single record."""

import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.nodes.verdict import PROBLEMS_MAX, JournalVerdict, check_journal
from pykraft.errors import ProtocolError
from pykraft.local.journal import Acknowledged, Claim, RecordSpan, record_spans
from pykraft.protocol.records import encode_batch, encode_control_batch
from pykraft.types import Epoch, LeaderChange, NodeId, Offset

CHECKED_RUN = b"run-0001"
CLAIM = Claim(CHECKED_RUN, Epoch(1))


def value(sequence: int, *, run: bytes = CHECKED_RUN, epoch: int = 1) -> bytes:
    return struct.pack(">8siq", run, epoch, sequence) + b"rest"


def batch(base_offset: int, sequences: Sequence[int], *, run: bytes = CHECKED_RUN, epoch: int = 1) -> bytes:
    values = [value(sequence, run=run, epoch=epoch) for sequence in sequences]
    return encode_batch(values, base_offset=Offset(base_offset), epoch=Epoch(epoch), timestamp_ms=1).data


def leader_change(offset: int, epoch: int) -> bytes:
    record = LeaderChange(leader_id=NodeId(1), voters=(NodeId(1),), granting_voters=(NodeId(1),))
    return encode_control_batch([record], base_offset=Offset(offset), epoch=Epoch(epoch), timestamp_ms=1).data


def said(first_sequence: int, count: int, base_offset: int, claim: Claim = CLAIM) -> Acknowledged:
    return Acknowledged(
        node=NodeId(1),
        run=claim.run,
        epoch=claim.epoch,
        first_sequence=first_sequence,
        count=count,
        base_offset=Offset(base_offset),
        wall_ms=0,
        latency_ms=0,
    )


def span(first_sequence: int, count: int, base_offset: int, claim: Claim = CLAIM) -> RecordSpan:
    return RecordSpan(claim=claim, first_sequence=first_sequence, base_offset=Offset(base_offset), count=count)


SAID = [said(0, 4, 1), said(4, 4, 5), said(8, 2, 9)]
BATCHES = [leader_change(0, 1), batch(1, range(4)), batch(5, range(4, 8)), batch(9, range(8, 10))]


def verdict_on(*parts: bytes) -> JournalVerdict:
    return check_journal(SAID, record_spans(b"".join(parts)))


def test_a_log_that_holds_what_was_acknowledged_is_clean() -> None:
    verdict = verdict_on(*BATCHES)
    assert verdict.is_clean
    assert verdict == JournalVerdict(acknowledged=10, found=10)


def test_records_that_nobody_acknowledged_are_allowed() -> None:
    other = batch(13, range(3), run=b"run-0002", epoch=2)
    verdict = verdict_on(*BATCHES, batch(11, [10, 11]), other)
    assert verdict.is_clean
    assert verdict.unacknowledged == 5


def test_a_planted_duplicate_is_found() -> None:
    verdict = verdict_on(*BATCHES, batch(11, [5, 6]))
    assert not verdict.is_clean
    assert (verdict.duplicates, verdict.steps_back, verdict.found) == (2, 1, 10)


def test_a_planted_gap_is_found() -> None:
    verdict = verdict_on(BATCHES[0], BATCHES[1], batch(5, range(14, 18)), BATCHES[3])
    assert not verdict.is_clean
    assert (verdict.missing, verdict.found, verdict.steps_back) == (4, 6, 1)
    assert verdict.problems[1:] == (
        f"{CLAIM}: of sequences 4 to 7, acknowledged from offset 5 on, 4 are missing and 0 stand elsewhere",
    )


def test_records_that_moved_up_into_a_gap_are_found() -> None:
    verdict = verdict_on(BATCHES[0], BATCHES[1], batch(5, range(5, 8)), batch(8, range(8, 10)))
    assert (verdict.missing, verdict.misplaced, verdict.found) == (1, 5, 4)


def test_a_planted_swap_is_found() -> None:
    verdict = verdict_on(BATCHES[0], BATCHES[1], batch(5, [4, 6, 5, 7]), BATCHES[3])
    assert not verdict.is_clean
    assert (verdict.misplaced, verdict.steps_back, verdict.missing, verdict.duplicates) == (2, 1, 0, 0)


def test_a_planted_flipped_byte_is_found_wherever_it_is() -> None:
    log = b"".join(BATCHES)
    not_checked = range(12, 16)  # The epoch of the LeaderChange; no CRC covers it, and no record names it.
    for position in set(range(len(log))).difference(not_checked):
        damaged = bytearray(log)
        damaged[position] ^= 1
        try:
            assert not verdict_on(bytes(damaged)).is_clean, position
        except ProtocolError:
            continue


def test_batches_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(ProtocolError, match="has offset 9, expected 5"):
        verdict_on(BATCHES[0], BATCHES[1], BATCHES[3])
    with pytest.raises(ProtocolError, match="has epoch 1 after 2"):
        verdict_on(batch(0, [0], epoch=2), batch(1, [0]))
    alien = encode_batch([value(0, epoch=1)], base_offset=Offset(0), epoch=Epoch(2), timestamp_ms=1).data
    with pytest.raises(ProtocolError, match="record of epoch 1 in a batch of epoch 2"):
        verdict_on(alien)


def test_a_record_of_another_claim_at_the_same_offset_is_not_the_record() -> None:
    verdict = verdict_on(*BATCHES[:3], batch(9, range(8, 10), epoch=2))
    assert (verdict.missing, verdict.unacknowledged) == (2, 2)


def test_what_is_acknowledged_twice_is_found() -> None:
    verdict = check_journal([*SAID, said(2, 4, 3)], record_spans(b"".join(BATCHES)))
    assert not verdict.is_clean
    assert (verdict.acknowledged, verdict.acknowledged_twice, verdict.found) == (10, 4, 10)


def test_nothing_of_a_claim_in_the_log_is_all_missing() -> None:
    verdict = check_journal(SAID, [])
    assert (verdict.acknowledged, verdict.missing) == (10, 10)


def test_a_verdict_tells_of_many_faults_but_counts_all() -> None:
    many = [said(sequence * 2, 1, sequence * 2) for sequence in range(100)]
    verdict = check_journal(many, [])
    assert len(verdict.problems) == PROBLEMS_MAX
    assert verdict.missing == 100


def test_spans_join_batches_and_end_at_control_batches_and_foreign_values() -> None:
    foreign = encode_batch([bytes(64), b"short"], base_offset=Offset(5), epoch=Epoch(1), timestamp_ms=1).data
    parts = [batch(0, [0, 1]), batch(2, [2]), leader_change(3, 1), batch(4, [3]), foreign, batch(7, [4]), batch(8, [5])]
    assert list(record_spans(b"".join(parts))) == [span(0, 3, 0), span(3, 1, 4), span(4, 2, 7)]


def test_an_empty_log_has_no_spans() -> None:
    assert list(record_spans(b"")) == []
    assert (
        list(record_spans(encode_batch([bytes(20)], base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1).data)) == []
    )


CLAIMS = st.sampled_from([CLAIM, replace(CLAIM, epoch=Epoch(2))])
LOGS = st.lists(st.tuples(CLAIMS, st.integers(0, 12), st.integers(1, 6)), max_size=8)
JOURNALS = st.lists(st.tuples(CLAIMS, st.integers(0, 12), st.integers(1, 6), st.integers(0, 40)), max_size=6)


@given(LOGS, JOURNALS)
def test_it_counts_like_a_check_that_looks_at_each_record(
    log: list[tuple[Claim, int, int]], journal: list[tuple[Claim, int, int, int]]
) -> None:
    offset, in_log = 0, []
    for claim, first, count in log:
        in_log.append(span(first, count, offset, claim))
        offset += count
    spoken = [said(first, count, base_offset, claim) for claim, first, count, base_offset in journal]

    places: dict[tuple[Claim, int], set[int]] = {}
    copies: Counter[tuple[Claim, int]] = Counter()
    for part in in_log:
        for step in range(part.count):
            key = (part.claim, part.first_sequence + step)
            places.setdefault(key, set()).add(part.base_offset + step)
            copies[key] += 1
    first_said: dict[tuple[Claim, int], int] = {}
    twice = 0
    for one in sorted(spoken, key=lambda one: one.first_sequence):
        for step in range(one.count):
            key = (one.claim, one.first_sequence + step)
            twice += key in first_said
            first_said.setdefault(key, one.base_offset + step)

    verdict = check_journal(spoken, in_log)
    assert verdict.acknowledged == len(first_said)
    assert verdict.acknowledged_twice == twice
    assert verdict.missing == sum(key not in places for key in first_said)
    assert verdict.found == sum(place in places.get(key, ()) for key, place in first_said.items())
    assert verdict.misplaced == verdict.acknowledged - verdict.found - verdict.missing
    assert verdict.duplicates == sum(copies.values()) - len(copies)
    assert verdict.unacknowledged == sum(key not in first_said for key in places)
    faults = (verdict.missing, verdict.misplaced, verdict.duplicates, verdict.steps_back, verdict.acknowledged_twice)
    assert verdict.is_clean == (not any(faults))
