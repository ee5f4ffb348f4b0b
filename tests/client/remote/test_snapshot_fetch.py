"""An observer fetches a snapshot: what can go wrong, and that no file is left."""

from pathlib import Path
from tempfile import gettempdir

import pytest

from pykraft.client.remote.leader_search import LeaderFetch, Patience
from pykraft.client.remote.observer import TOPICS, SnapshotFetch, probe
from pykraft.errors import QuorumUnavailableError
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.types import Epoch
from tests.client.logs import HASTY, PATIENT, ScriptedLog, served_log
from tests.client.scripted import HANG_UP, SILENCE, Answer
from tests.snapshot.snapshots import ID, id_of, small_batches

SLICE = 5_000


class Fetching:
    """One observer's fetches, and the leader that it knows."""

    def __init__(self, log: ScriptedLog, patience: Patience = PATIENT) -> None:
        self.leader = LeaderFetch(log.bootstrap, topics=TOPICS, cluster_id=None, client_id="test", patience=patience)
        self.snapshots = SnapshotFetch(self.leader, patience, size_bytes_max=SLICE)

    async def find_leader(self) -> None:
        await self.leader.ask(probe)
        self.leader.accept()

    async def fetch(self) -> Path | None:
        await self.find_leader()
        return await self.snapshots.fetch(ID)

    async def fetch_for_ever(self) -> None:
        """Until it is an error."""
        while True:
            assert await self.fetch() is None

    async def close(self) -> None:
        self.snapshots.close()
        await self.leader.close()


def positions(log: ScriptedLog) -> list[int]:
    """What was asked of the leader, in order."""
    bodies = log.leader.requests(ApiKey.FETCH_SNAPSHOT)
    return [body["topics"][0]["partitions"][0]["position"] for body in bodies]


def with_snapshot(log: ScriptedLog) -> None:
    log.epoch = Epoch(5)
    log.clean(ID, small_batches())


async def test_it_comes_in_slices_and_is_gone_in_the_end() -> None:
    async with served_log() as log:
        with_snapshot(log)
        fetching = Fetching(log)
        path = await fetching.fetch()
        assert path is not None
        assert path.read_bytes() == log.snapshot
        assert path.name == "00000000000000000157-0000000003.checkpoint"
        assert path.parent.parent == Path(gettempdir())
        assert positions(log) == list(range(0, len(log.snapshot), SLICE))
        [asked] = log.leader.requests(ApiKey.FETCH_SNAPSHOT)[0]["topics"]
        assert (asked["name"], asked["partitions"][0]["current_leader_epoch"]) == ("__raft_performance_test", 5)
        assert log.leader.requests(ApiKey.FETCH_SNAPSHOT)[0]["max_bytes"] == SLICE
        await fetching.close()
        assert not path.parent.exists()


async def test_it_goes_on_where_the_connection_broke() -> None:
    async with served_log() as log:
        with_snapshot(log)

        def once(node_id: int, body: Body) -> Answer:
            if len(positions(log)) == 3:
                return HANG_UP
            return log.serve_slice(node_id, body)

        log.answer_slice = once
        fetching = Fetching(log)
        assert await fetching.fetch() is None
        path = await fetching.fetch()
        assert path is not None
        assert path.read_bytes() == log.snapshot
        assert positions(log)[:5] == [0, 5_000, 10_000, positions(log)[3], positions(log)[3] + SLICE]
        assert 5_000 < positions(log)[3] <= 10_000, "it goes on after the last whole batch"
        await fetching.close()


async def test_a_slice_of_another_epoch_is_not_taken_whoever_learned_of_it() -> None:
    """The answer is right for its request, and the epoch that the fetch began in is over."""
    async with served_log() as log:
        with_snapshot(log)
        fetching = Fetching(log)

        def serve(node_id: int, body: Body) -> Answer:
            if len(positions(log)) == 2:
                fetching.leader._search.epoch = Epoch(log.epoch + 1)
            return log.serve_slice(node_id, body)

        log.answer_slice = serve
        assert await fetching.fetch() is None
        assert positions(log) == [0, SLICE]
        await fetching.close()


@pytest.mark.parametrize("slices", [1, 2, 3])
async def test_another_leader_serves_another_file_of_the_same_id_and_size(slices: int) -> None:
    """Two nodes cut one state into batches at different places: slices of both make no snapshot."""
    async with served_log() as log:
        with_snapshot(log)
        others = small_batches(salt=100)
        assert len(others) == len(log.snapshot)

        def once(node_id: int, body: Body) -> Answer:
            if len(positions(log)) == slices + 1:
                log.answer_slice = log.serve_slice
                log.lead(3)
                log.snapshot = others
            return log.serve_slice(node_id, body)

        log.answer_slice = once
        fetching = Fetching(log)
        assert await fetching.fetch() is None
        asked = len(positions(log))
        path = await fetching.fetch()
        assert path is not None
        assert path.read_bytes() == others
        assert positions(log)[asked] == 0, "nothing of the former leader's file is gone on with"
        await fetching.close()


def changed_slice(log: ScriptedLog, kind: str) -> Answer:
    """Slices that bring nothing."""
    match kind:
        case "silence":
            return SILENCE
        case "empty":
            return log.slice(0, 0)
        case "elsewhere":
            return log.slice(7, SLICE)
        case "damaged":
            return log.slice(0, SLICE) | {"topics": [_damaged(log.slice(0, SLICE)["topics"][0])]}
        case "another":
            log.snapshot_id = id_of(200, 3)
            return log.slice(0, SLICE)
    return log.slice(0, SLICE, error=98)


def _damaged(topic: Body) -> Body:
    [partition] = topic["partitions"]
    data = bytearray(partition["unaligned_records"])
    data[70] ^= 1
    return {**topic, "partitions": [{**partition, "unaligned_records": bytes(data)}]}


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("silence", "did not answer FetchSnapshot within 0.5 s"),
        ("empty", "it sends 0 bytes at 0 of a snapshot of"),
        ("elsewhere", "from 0 on, it sends 00000000000000000157-0000000003 from position 7 on"),
        ("damaged", "that the leader sends is damaged at position 0"),
        ("another", "it sends 00000000000000000200-0000000003 from position 0 on"),
        ("gone", "it answers FetchSnapshot with SNAPSHOT_NOT_FOUND"),
    ],
)
async def test_what_brings_nothing_is_tried_for_so_long_and_then_told(kind: str, words: str) -> None:
    stem = "00000000000000000157-0000000003"
    async with served_log() as log:
        with_snapshot(log)
        log.answer_slice = lambda *_: changed_slice(log, kind)
        fetching = Fetching(log, HASTY)
        with pytest.raises(QuorumUnavailableError, match=f"^the snapshot {stem} could not be .*{words}"):
            await fetching.fetch_for_ever()
        log.snapshot_id, log.answer_slice = ID, log.serve_slice
        assert await fetching.fetch() is not None, "it may be tried again"
        await fetching.close()
