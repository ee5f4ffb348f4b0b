"""Appends of values, each once: numbered under a producer id of the appender's own, and in order."""

from __future__ import annotations

import pytest

from pykraft.client.remote.numbered_appender import BATCH_SIZE_BYTES_MAX, Appender
from pykraft.errors import ErrorCode, OutcomeUnknownError, UsageError
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.records import decode_values, read_header
from tests.client.logs import HASTY, PATIENT
from tests.client.remote.test_numbered_appender import in_turn, node, produced, sent
from tests.client.scripted import SILENCE, ScriptedNode, run

ID = {"error_code": 0, "producer_id": 77, "producer_epoch": 0}


def serving(*answers: object) -> ScriptedNode:
    return node(in_turn(*answers), init_producer_id=lambda _: ID)  # type: ignore[arg-type]  # answers of any kind


def test_batches_are_numbered_in_turn_and_what_is_sent_again_keeps_its_number() -> None:
    async def main() -> None:
        lost = produced(ErrorCode.REQUEST_TIMED_OUT)
        async with serving(produced(), lost, produced(base_offset=9), produced(base_offset=10)) as one:
            async with Appender([one.endpoint], patience=PATIENT) as appender:
                offsets = [await appender.append_values(values) for values in ([b"a", b"b"], [b"c"], [b"d"])]
            assert offsets == [7, 9, 10]
            batches = sent(one)
            assert [decode_values(batch) for batch in batches] == [[b"a", b"b"], [b"c"], [b"c"], [b"d"]]
            headers = [read_header(batch) for batch in batches]
            assert [header.base_sequence for header in headers] == [0, 2, 2, 3]
            assert {(header.producer_id, header.producer_epoch) for header in headers} == {(77, 0)}
            assert all(header.base_timestamp > 0 for header in headers)
            assert len(one.requests(ApiKey.INIT_PRODUCER_ID)) == 1

    run(main)


def test_an_unknown_outcome_names_the_number_of_records() -> None:
    async def main() -> None:
        async with serving(SILENCE) as one, Appender([one.endpoint], patience=HASTY) as appender:
            with pytest.raises(OutcomeUnknownError, match="the records may be in the log, or not") as raised:
                await appender.append_values([b"a", b"b"])
            assert raised.value.count == 2

    run(main)


@pytest.mark.parametrize("values", [[], [b""], [b"a", b""], [bytes(BATCH_SIZE_BYTES_MAX)]])
def test_what_cannot_be_a_batch_is_refused_before_it_is_sent(values: list[bytes]) -> None:
    async def main() -> None:
        async with serving(produced()) as one, Appender([one.endpoint], patience=PATIENT) as appender:
            with pytest.raises(UsageError, match="an append has at least one record"):
                await appender.append_values(values)
            assert one.asked == []

    run(main)
