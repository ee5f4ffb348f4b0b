"""The output of Kafka's dump tool is parsed completely: recorded output, and output with problems in it."""

from pathlib import Path

from lab.kafka.java import Finished
from pykraft.protocol.records import scan
from tests.kafka.dump import parse_dump

RECORDED = Path(__file__).resolve().parents[1] / "golden" / "raft"
NAME = "__raft_performance_test-0/00000000000000000000"


def test_recorded_output_has_every_batch_of_the_log_and_every_entry_of_its_index() -> None:
    text = (RECORDED / "dump" / "n1-raw.txt").read_text().partition("\n")[2]
    dump = parse_dump(Finished(status=0, stdout=text, stderr=""))
    assert dump.complaints == []
    log, index = dump.files[Path(f"n1/{NAME}.log")], dump.files[Path(f"n1/{NAME}.index")]

    batches = [(p, header) for p, header in scan((RECORDED / "disk" / "n1" / "data" / f"{NAME}.log").read_bytes())]
    found = [
        (batch.position, batch.base_offset, batch.size_bytes, batch.crc, batch.is_control) for batch in log.batches
    ]
    assert found == [(p, header.base_offset, header.size_bytes, header.crc, header.is_control) for p, header in batches]
    assert log.records_count == batches[-1][1].end_offset
    assert [batch.last_offset for batch in log.batches] == [header.last_offset for _, header in batches]
    assert [batch.epoch for batch in log.batches] == [header.epoch for _, header in batches]
    assert index.entries[:2] == [(40, 4100), (79, 8228)]
    assert len(dump.files[Path(f"n1/{NAME}.timeindex")].entries) == len(index.entries) + 1


def test_bad_news_of_every_kind_is_a_complaint() -> None:
    invalid = (
        "baseOffset: 3 lastOffset: 4 count: 2 partitionLeaderEpoch: 1 isControl: false position: 313 "
        "CreateTime: 17 size: 207 magic: 2 compresscodec: none crc: 5 isvalid: false"
    )
    stdout = f"Dumping a.log\nLog starting offset: 0\n{invalid}\nFound 30 invalid bytes at the end of a.log\n"
    stderr = "Mismatches in :a.index\n  Index offset: 40, log offset: 2\n"
    dump = parse_dump(Finished(status=1, stdout=stdout, stderr=stderr))
    assert dump.complaints == [
        "exit status 1",
        "Mismatches in :a.index",
        "  Index offset: 40, log offset: 2",
        invalid,
        "Found 30 invalid bytes at the end of a.log",
    ]
    assert not dump.files[Path("a.log")].batches[0].is_valid


def test_an_index_that_passes_the_sanity_check_says_so() -> None:
    dump = parse_dump(Finished(status=0, stdout="Dumping a.index\na.index passed sanity check.\n", stderr=""))
    assert dump.files[Path("a.index")].is_sane
    assert dump.complaints == []


def test_the_start_of_a_segment_is_no_gap_but_any_other_step_is() -> None:
    start = "Non-consecutive offsets in n/00000000000000000093.log\n  -1 is followed by 93\n"
    gap = "Non-consecutive offsets in n/00000000000000000126.log\n  -1 is followed by 126\n  130 is followed by 132\n"
    hole = "Non-consecutive offsets in n/00000000000000000200.log\n  -1 is followed by 201\n"
    dump = parse_dump(Finished(status=0, stdout="", stderr=start + gap + hole))
    assert dump.complaints == [line for line in (gap + hole).splitlines() if "-1 is followed by 126" not in line]
    assert parse_dump(Finished(status=0, stdout="", stderr=start)).complaints == []
    own = (RECORDED.parent / "dynamic" / "dump" / "n1-raw.txt").read_text()
    assert parse_dump(Finished(status=0, stdout="", stderr=own[own.index("Non-consecutive") :])).complaints == []
