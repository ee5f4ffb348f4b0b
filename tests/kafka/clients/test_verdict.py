"""The log judges what a producer was told and what a consumer read."""

import dataclasses
import gzip

import pytest

from lab.nodes.logs import Stream
from pykraft.protocol.batch import HEADER_SIZE_BYTES, seal_batch
from pykraft.protocol.compression import Compression
from pykraft.types import Epoch, Offset
from tests.host.clients.world import batch_of, with_header
from tests.kafka.clients.kills import Outcome, wrong_codecs
from tests.kafka.clients.verdict import Place, Verdict, codecs_of, judge, records_of

LOG: list[Place] = [(1, "0.0"), (2, "0.1"), (4, "1.0")]
TOLD = {value: offset for offset, value in LOG}


def counts(verdict: Verdict) -> tuple[int, int, int, int]:
    return verdict.lost, verdict.doubled, verdict.out_of_order, verdict.misread


def test_what_was_told_and_read_as_it_is_in_the_log_has_no_fault() -> None:
    verdict = judge(TOLD, LOG, LOG)
    assert counts(verdict) == (0, 0, 0, 0)
    assert (verdict.acknowledged, verdict.in_log, verdict.examples) == (3, 3, ())


def test_a_record_that_is_not_at_its_offset_is_lost() -> None:
    assert counts(judge(TOLD | {"1.1": 5}, LOG, LOG)) == (1, 0, 0, 0)
    assert counts(judge(TOLD | {"1.0": 2}, LOG, LOG)) == (1, 0, 0, 0)


def test_doubled_and_out_of_order_records_are_counted() -> None:
    doubled = [*LOG, (5, "1.0")]
    assert counts(judge(TOLD, doubled, doubled)) == (0, 1, 0, 0)
    backward = [(1, "0.1"), (2, "0.0")]
    assert counts(judge({}, backward, backward)) == (0, 0, 1, 0)


def test_a_consumer_reads_the_log_and_all_of_it() -> None:
    assert counts(judge(TOLD, LOG, LOG[:2])) == (0, 0, 0, 1)
    assert counts(judge(TOLD, LOG, [LOG[0], (2, "0.0"), LOG[2]])) == (0, 0, 0, 1)


def test_only_idempotence_promises_that_nothing_is_doubled() -> None:
    verdict = judge(TOLD, [*LOG, (5, "0.1")], LOG)
    outcome = Outcome(
        client="x",
        version="1",
        is_idempotent=True,
        compressions=("none",),
        records=4,
        kills=3,
        seconds=1.0,
        verdict=verdict,
    )
    broken = ["1 record not acknowledged", "1 record more than once in the log", "1 record out of order"]
    assert outcome.problems == broken
    assert dataclasses.replace(outcome, is_idempotent=False).problems == broken[:1]


def test_the_log_has_the_codec_that_was_asked_for() -> None:
    plain = bytes(batch_of([b"0.0", b"0.1"])[1])
    body = gzip.compress(bytes(batch_of([b"1.0"])[1][HEADER_SIZE_BYTES:]))
    sealed = seal_batch(body, count=1, base_offset=Offset(2), epoch=Epoch(4), timestamp_ms=7)
    zipped = bytes(with_header(sealed.data, attributes=Compression.GZIP)[1])
    stream = Stream(start_offset=0, end_offset=3, last_epoch=4, data=plain + zipped)
    assert codecs_of(stream) == {"0": {"none"}, "1": {"gzip"}}


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        ({"0": {"none"}, "1": {"gzip", "none"}, "2": {"none"}}, []),
        ({"0": {"gzip"}, "1": {"gzip"}}, ["asked for none, the log has gzip"]),
        ({"0": {"none"}, "1": {"none"}}, ["asked for gzip, the log has none"]),
        ({"1": {"gzip", "zstd"}}, ["asked for gzip, the log has gzip, zstd"]),
    ],
)
def test_another_codec_than_the_one_asked_for_is_a_problem(found: dict[str, set[str]], wrong: list[str]) -> None:
    assert list(wrong_codecs(found, ["none", "gzip"])) == wrong


def test_the_records_of_a_log_are_read_without_its_control_batches() -> None:
    stream = Stream(start_offset=0, end_offset=2, last_epoch=1, data=bytes(batch_of([b"0.0", b"0.1"])[1]))
    assert [value for _, value in records_of(stream)] == ["0.0", "0.1"]
