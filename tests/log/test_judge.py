"""One directory, one verdict: recovery, verify and Spark get the same damaged directories."""

import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pykraft.errors import CorruptionError, ProtocolError, StorageError
from pykraft.log.judge import Evidence, Verdict
from pykraft.log.os_fs import OsFs
from pykraft.log.recovery import recover
from pykraft.log.small_files.quorum_state import ElectionStore
from pykraft.protocol.batch import check_crc
from pykraft.spark.data_source.file_plan import find_replicas, plan_batch
from pykraft.spark.data_source.options import parse_options
from pykraft.spark.data_source.splits import ScannedHeaders, Split, SplitChunk, judged, read_chunks
from pykraft.types import EPOCH_MAX
from tests.log.damaged_directories import (
    DAMAGED,
    IMPOSSIBLE,
    KAFKAS,
    LAST,
    NEXT,
    NO_POINT,
    SOUND,
    TABLE,
    TORN,
    UNPROVEN,
    Row,
    append,
    flip_in,
)
from tests.log.data_directory import CONFIG, verified

ROWS = [*TABLE, *KAFKAS]
pytestmark = pytest.mark.no_cover  # it would take twice as long, and other tests reach the same

Found = tuple[Verdict | str, int]


# What the three say.


def by_recovery(node: Path) -> Found:
    """What a start finds; it repairs, so it comes last."""
    with closing(ElectionStore(OsFs(), node)) as store:
        stored = store.read()
    try:
        recovered = recover(OsFs(), node, CONFIG, epoch_max=stored.election.epoch if stored else EPOCH_MAX)
    except CorruptionError:
        raise
    except StorageError:
        return IMPOSSIBLE, 0
    report = recovered.report
    # Removing what may have been synced calls for action; a torn tail is what every crash leaves.
    assert any("RECORDS MAY BE LOST" in alarm for alarm in report.alarms) == (report.verdict is UNPROVEN)
    assert any(note.startswith("removed a torn tail") for note in report.notes) == (report.verdict is TORN)
    return report.verdict, recovered.segments[-1].end_offset


def by_verify(node: Path) -> Found:
    """What the command finds in the log; other files have findings of their own."""
    report = verified(node)
    if any(each.path == node or each.path.suffix == ".swap" for each in report.findings.damage):
        return IMPOSSIBLE, 0
    (partition,) = report.partitions
    is_log_damaged = any(
        each.path.suffix == ".log" or each.expected.startswith("a log that reaches to offset")
        for each in report.findings.damage
    )
    assert is_log_damaged == (partition.log.verdict in (UNPROVEN, DAMAGED))
    return partition.log.verdict, partition.log.sound_end_offset


def by_spark(node: Path, monkeypatch: pytest.MonkeyPatch) -> Found:
    """What a query finds, planned on the driver and read by its tasks; no session is needed for either."""
    try:
        verdict = judged_by_a_query(node, monkeypatch)
    except CorruptionError:
        raise
    except StorageError:
        return IMPOSSIBLE, 0
    return verdict, first_offset_without_a_row(node)


def judged_by_a_query(node: Path, monkeypatch: pytest.MonkeyPatch) -> Verdict:
    verdicts: list[Verdict] = []
    ask = Evidence.verdict_on

    def listen(self: Evidence, *given: Any, **named: Any) -> Verdict:
        verdicts.append(ask(self, *given, **named))
        return verdicts[-1]

    with monkeypatch.context() as patch:
        patch.setattr(Evidence, "verdict_on", listen)
        try:
            for split in plan_of(node):
                for chunk in read_chunks(split):
                    check_all(chunk)
        except CorruptionError as error:
            assert verdicts[-1] in (UNPROVEN, DAMAGED)
            assert ("without a recovery-point file" in str(error)) == (verdicts[-1] is UNPROVEN)
            return verdicts[-1]
    return verdicts[-1] if verdicts else SOUND


def first_offset_without_a_row(node: Path) -> int:
    """Where damage is marked, or the log ends."""
    offset = 0
    try:
        for split in plan_of(node, corrupt="mark"):
            if split.damage is not None:
                return split.start_offset
            for chunk in read_chunks(split, size_bytes=1):
                check_all(chunk)
                offset = chunk.headers.pair(-1)[1].end_offset
    except CorruptionError:
        pass
    return offset


def plan_of(node: Path, **options: str) -> Sequence[Split]:
    parsed = parse_options({"path": str(node)} | options)
    (replica,) = find_replicas(parsed.patterns)
    return plan_batch(replica, parsed).splits


def check_all(chunk: SplitChunk[ScannedHeaders]) -> None:
    """The CRC of every batch, as rows are made only of sound ones."""
    for at, header in chunk.headers.pairs():
        try:
            check_crc(chunk.data, at, header)
        except ProtocolError as error:
            position = chunk.split.position + at
            problem = CorruptionError(chunk.split.path, position=position, expected="a sound batch", found=str(error))
            raise judged(chunk.split, problem) from error


@pytest.mark.parametrize("case", ROWS, ids=[each.name for each in ROWS])
def test_one_directory_has_one_verdict(case: Row, node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for do in case.cases:
        do(node)
    expected = (case.verdict, case.offset)
    assert by_verify(node) == expected
    assert by_spark(node, monkeypatch) == expected
    assert by_recovery(node) == expected


def test_recovery_repairs_what_is_torn_and_keeps_what_is_damaged(node: Path) -> None:
    """The verdict decides what a start does: the other two then find nothing, or the same again."""
    cases = {TORN: append(NEXT[:-1]), UNPROVEN: flip_in(LAST, 90), DAMAGED: flip_in(40, 90)}
    for verdict, case in cases.items():
        copy = node.parent / f"{verdict.value}-0"
        shutil.copytree(node, copy)
        case(copy)
        if verdict is UNPROVEN:
            NO_POINT(copy)
        recover(OsFs(), copy, CONFIG)
        assert by_verify(copy)[0] is (DAMAGED if verdict is DAMAGED else SOUND)
