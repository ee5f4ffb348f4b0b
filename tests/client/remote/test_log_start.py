"""The epoch of the record before a log's start, found without reading the log."""

from __future__ import annotations

import pytest

from pykraft.client.remote.leader_fetch import LeaderFetch
from pykraft.client.remote.log_start import FAR_OFFSET, epoch_before, probe
from pykraft.client.remote.observer import TOPICS
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.types import Epoch, Offset, OffsetAndEpoch
from tests.client.logs import PATIENT, ScriptedLog, with_log
from tests.client.scripted import Answer

START = Offset(40)


def asking(log: ScriptedLog) -> LeaderFetch:
    return LeaderFetch(log.bootstrap, topics=TOPICS, cluster_id=None, client_id="test", patience=PATIENT)


@pytest.mark.parametrize(("oldest", "newest"), [(1, 1), (1, 2), (2, 2), (3, 9), (9, 9), (700_000, 1_000_000)])
def test_it_is_the_epoch_of_the_oldest_snapshot(oldest: int, newest: int) -> None:
    async def main(log: ScriptedLog) -> None:
        log.epoch = Epoch(newest)
        log.clean(OffsetAndEpoch(START, Epoch(oldest)), b"")
        log.append(b"a")
        leader = asking(log)
        await leader.ask(probe)
        leader.accept()
        assert await epoch_before(leader, START) == oldest
        assert len(log.leader.requests(ApiKey.FETCH)) <= 2 + newest.bit_length()
        await leader.close()

    with_log(main)


def test_a_log_that_is_cleaned_meanwhile_is_not_asked_on() -> None:
    async def main(log: ScriptedLog) -> None:
        log.epoch = Epoch(9)
        log.clean(OffsetAndEpoch(START, Epoch(3)), b"")
        log.append(b"a")
        leader = asking(log)
        await leader.ask(probe)
        log.log_start_offset = 41
        assert await epoch_before(leader, START) == 9
        await leader.close()

    with_log(main)


def test_a_probe_waits_for_nothing_and_asks_for_no_records() -> None:
    request = probe(Epoch(5), Epoch(3))
    assert (request.fetch_offset, request.epoch, request.last_fetched_epoch) == (FAR_OFFSET, 5, 3)
    assert (request.wait_ms_max, request.size_bytes_max, request.replica) == (0, 0, None)
    assert probe(Epoch(5)).last_fetched_epoch == 5


def test_a_new_leader_meanwhile_is_asked_in_its_own_epoch() -> None:
    async def main(log: ScriptedLog) -> None:
        log.epoch = Epoch(9)
        log.clean(OffsetAndEpoch(START, Epoch(3)), b"")
        log.append(b"a")
        leader = asking(log)
        await leader.ask(probe)

        def change(node_id: int, body: Body) -> Answer:
            log.answer = log.serve
            log.lead(3)
            return log.serve(node_id, body)

        log.answer = change
        assert await epoch_before(leader, START) == 3
        await leader.close()

    with_log(main)
