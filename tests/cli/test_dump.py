"""``pykraft dump``: the same lines as Kafka's tool for every recording, JSON, and errors for bad files."""

import json
import os
import struct
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykraft.cli.dump import dump
from pykraft.protocol.records import encode_batch, encode_control_batch
from pykraft.types import Epoch, KRaftVersion, Offset

GOLDEN = Path(__file__).parents[1] / "golden"
LOG = GOLDEN / "raft/disk/n1/data/__raft_performance_test-0/00000000000000000000.log"
BATCH = encode_batch([b"a", b"\x1b[31m\xff\n"], base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1000).data


def run(*arguments: object) -> Result:
    return CliRunner().invoke(dump, [str(argument) for argument in arguments])


def documents(*arguments: object) -> list[dict[str, Any]]:
    result = run("--json", *arguments)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def sections(text: str) -> dict[str, list[str]]:
    """Lines by the file after whose ``Dumping`` they stand; splits at newlines only, as payloads may hold anything.

    Without Kafka's closing remark that the first offset of a later segment does not follow -1.
    """
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.partition("\nNon-consecutive offsets in ")[0].split("\n"):
        if line.startswith("Dumping "):
            lines = found.setdefault(line.removeprefix("Dumping "), [])
        elif line:
            lines.append(line)
    return found


def recorded(path: Path) -> list[tuple[Path, list[str]]]:
    """The files of a recorded dump, and what Kafka said of each."""
    disk = path.parents[1] / "disk"
    found = []
    for name, lines in sections(path.read_text("utf-8")).items():
        node, rest = name.split("/", 1)
        found.append((disk / node / "data" / rest, lines))
    return found


RAW = [case for path in sorted(GOLDEN.glob("*/dump/*-raw.txt")) for case in recorded(path)]
DECODED = [case for path in sorted(GOLDEN.glob("*/dump/*-decoded.txt")) for case in recorded(path)]


def name_of(case: object) -> str:
    return str(case.relative_to(GOLDEN)) if isinstance(case, Path) else ""


def test_the_recordings_are_all_there() -> None:
    assert len(RAW) == 37
    assert len(DECODED) == 25


@pytest.mark.parametrize(("path", "lines"), RAW, ids=name_of)
def test_lines_are_those_of_kafka(path: Path, lines: list[str]) -> None:
    result = run("--deep-iteration", path)
    assert result.exit_code == 0
    assert sections(result.stdout) == {str(path): lines}


@pytest.mark.parametrize(("path", "lines"), DECODED, ids=name_of)
def test_payloads_are_where_kafka_has_them(path: Path, lines: list[str]) -> None:
    result = run("--print-data-log", path)
    assert result.exit_code == 0
    ours = sections(result.stdout)[str(path)]
    assert [line.replace("\\x00", "\x00") for line in ours] == lines


@pytest.mark.parametrize(("path", "lines"), DECODED, ids=name_of)
def test_json_has_the_records_that_kafka_decoded(path: Path, lines: list[str]) -> None:
    decoded = [json.loads(line.partition(" payload: ")[2]) for line in lines if " payload: {" in line]
    records = [record for one in documents("--print-data-log", path) for record in one.get("records", ())]
    assert [record["payload"] for record in records if "payload" in record] == decoded
    assert not [record for record in records if "payloadProblem" in record]


@pytest.mark.parametrize("flag", ["--cluster-metadata-decoder", "--print-data-log"])
def test_the_decoder_can_be_asked_for_and_be_declined(flag: str, tmp_path: Path) -> None:
    for name, is_metadata in (("__cluster_metadata-0", True), ("elsewhere", False)):
        path = tmp_path / name / "00000000000000000000.log"
        path.parent.mkdir()
        values = [bytes.fromhex("01140000"), b"hello"]
        path.write_bytes(encode_batch(values, base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1).data)
        is_decoded = is_metadata or flag == "--cluster-metadata-decoder"
        *_, known, other = run(flag, path).stdout.splitlines()
        payload = '{"type":"NO_OP_RECORD","version":0,"data":{}}' if is_decoded else "\\x01\\x14\\x00\\x00"
        assert known.endswith(f" payload: {payload}")
        problem = "not a metadata record that can be read: its frame has version 104, not 1"
        assert other.endswith(f" payload: hello ({problem})" if is_decoded else " payload: hello")
        [batch] = documents(flag, path)
        shown = [[key for key in record if key.startswith("payload")] for record in batch["records"]]
        assert shown == ([["payload"], ["payloadProblem"]] if is_decoded else [[], []])
        raw = run(flag, "--no-cluster-metadata-decoder", "--print-data-log", path).stdout
        assert raw.endswith(" payload: hello\n")


def before_payload(line: str) -> tuple[str, bool]:
    """The line without its payload, and whether it has one."""
    head, mark, _ = line.partition(" payload: ")
    return head, bool(mark)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/tools/*-dump-log.txt")), ids=name_of)
def test_the_tools_own_runs(path: Path) -> None:
    command, _, *rest = path.read_text("utf-8").split("\n")
    *options, _, name = command.split()[4:]
    files = sections("\n".join(rest).partition("--- stderr")[0])
    (lines,) = files.values()
    flags = ["--cluster-metadata-decoder"] if "--cluster-metadata-decoder" in options else []
    if "--skip-record-metadata" in options:
        flags.append("--skip-record-metadata")
    ours = sections(run(*flags, GOLDEN / name.removeprefix("GOLDEN/")).stdout)
    (found,) = ours.values()
    batches = [line for line in lines if not line.startswith("| ")]
    assert [line for line in found if not line.startswith("| ")] == batches
    without_control = [line for line in found if "LeaderChange" not in line]
    if "--skip-record-metadata" in options:  # Kafka prints an empty line for a control record.
        assert [before_payload(line) for line in without_control] == [before_payload(line) for line in lines]


def test_every_file_of_every_recording_is_read_without_a_problem() -> None:
    names = ("*.log", "*.*index", "*.checkpoint", "*.snapshot", "*.deleted")
    fixed = ("leader-epoch-checkpoint", "quorum-state", "partition.metadata", "meta.properties")
    paths = [path for pattern in names + fixed for path in sorted(GOLDEN.glob(f"*/disk/**/{pattern}"))]
    assert len(paths) == 190
    result = run("--json", *paths)
    assert (result.exit_code, result.stderr) == (0, "")
    kinds = {document["type"] for document in map(json.loads, result.stdout.splitlines())}
    assert kinds == {"batch", "entry"}


def test_json_holds_all_fields_of_a_batch() -> None:
    first, second, *_ = documents("--print-data-log", LOG)
    assert first == {
        "file": str(LOG),
        "type": "batch",
        "position": 0,
        "baseOffset": 0,
        "lastOffset": 0,
        "count": 1,
        "baseSequence": -1,
        "lastSequence": -1,
        "producerId": -1,
        "producerEpoch": -1,
        "partitionLeaderEpoch": 1,
        "isTransactional": False,
        "isControl": True,
        "deleteHorizonMs": None,
        "timestampType": "CreateTime",
        "baseTimestamp": 1795228030532,
        "maxTimestamp": 1795228030532,
        "size": 106,
        "magic": 2,
        "compresscodec": "none",
        "crc": 473111952,
        "isvalid": True,
        "records": [
            {
                "offset": 0,
                "timestamp": 1795228030532,
                "keySize": 4,
                "valueSize": 34,
                "sequence": -1,
                "headerKeys": [],
                "control": {
                    "LeaderChange": {
                        "version": 0,
                        "leaderId": 1,
                        "voters": [{"voterId": 1}, {"voterId": 2}, {"voterId": 3}],
                        "grantingVoters": [{"voterId": 2}, {"voterId": 1}],
                    }
                },
            }
        ],
    }
    assert second["records"][0]["keyBase64"] is None
    assert b64decode(second["records"][0]["valueBase64"]) == bytes(64)


def test_json_has_records_and_data_only_when_asked() -> None:
    assert "records" not in documents(LOG)[1]
    record = documents("--deep-iteration", LOG)[1]["records"][0]
    assert set(record) == {"offset", "timestamp", "keySize", "valueSize", "sequence", "headerKeys"}


def test_a_terminal_is_not_spoken_to(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(BATCH)
    *_, plain, wild = run("--print-data-log", "--skip-record-metadata", path).stdout.splitlines()
    assert plain == "| payload: a"
    assert wild == r"| payload: \x1b[31m\xff\n"


def test_control_records_stay_when_metadata_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(
        encode_control_batch([KRaftVersion(1)], base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1000).data
    )
    assert run("--skip-record-metadata", path).stdout.splitlines()[-1] == (
        '| KRaftVersion {"version":0,"kRaftVersion":1}'
    )


def test_a_damaged_batch_is_shown_and_the_next_one_too(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    damaged = bytearray(BATCH)
    damaged[-2] ^= 1
    crc = int.from_bytes(damaged[17:21], "big")
    path.write_bytes(damaged + BATCH[:8] + BATCH[8:])
    result = run(path)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[2].endswith(f"crc: {crc} isvalid: false")
    assert lines[3].startswith(f"problem at position 0: expected CRC {crc:08x} of {len(BATCH)} bytes, found CRC ")
    assert lines[4].endswith("isvalid: true")
    assert lines[5] == f"problem at position {len(BATCH)}: expected offset 2, found offset 0"
    assert result.stderr == f"pykraft: {path}: 2 problems found\n"


def test_a_cut_tail_is_told_with_position_expected_and_found(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(BATCH + struct.pack(">q", 2) + BATCH[8:-10])
    result = run(path)
    size = len(BATCH)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-2:] == [
        f"problem at position {size}: expected a batch of {size} bytes, found {size - 10} bytes",
        f"Found {size - 10} invalid bytes at the end of 00000000000000000000.log",
    ]
    assert result.stderr == f"pykraft: {path}: 1 problem found\n"
    *_, problem, tail = map(json.loads, run("--json", path).stdout.splitlines())
    assert problem == {
        "file": str(path),
        "type": "problem",
        "position": size,
        "expected": f"a batch of {size} bytes",
        "found": f"{size - 10} bytes",
    }
    assert tail == {"file": str(path), "type": "tail", "position": size, "invalidBytes": size - 10}


def test_a_file_that_is_missing_is_refused_before_anything_is_printed(tmp_path: Path) -> None:
    missing = tmp_path / "00000000000000000000.log"
    for wrong, told in (
        (missing, "No such file or directory: name files of a partition directory, such as *.log"),
        (tmp_path, "Is a directory: name files of a partition directory, such as *.log"),
    ):
        result = run(LOG, wrong)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.splitlines()[-1] == f"Error: {wrong}: {told}"


def test_files_of_an_unknown_kind_are_told_and_the_others_still_printed(tmp_path: Path) -> None:
    unknown = tmp_path / "notes.txt"
    unknown.write_text("hello")
    result = run(unknown, LOG)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"pykraft: {unknown}: dump does not know this kind of file; it knows .log,")
    assert result.stdout.splitlines()[-1].endswith("isvalid: true")


@pytest.mark.parametrize("options", [["--json"], []])
def test_a_name_that_is_not_text_does_no_harm(tmp_path: Path, options: list[str]) -> None:
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    path = folder / "00000000000000000000.log"
    path.write_bytes(BATCH)
    result = run(*options, path)
    assert result.exit_code == 0
    assert "isvalid" in result.stdout


def test_delete_horizon_and_producers_look_as_in_kafka(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    batch = bytearray(BATCH)
    struct.pack_into(">h", batch, 21, 0x48 | 0x10)
    struct.pack_into(">qhi", batch, 43, 7, 1, 2**31 - 1)
    path.write_bytes(batch)
    line = run(path).stdout.splitlines()[2]
    assert "baseSequence: 2147483647 lastSequence: 0 producerId: 7 producerEpoch: 1" in line
    assert "isTransactional: true isControl: false deleteHorizonMs: OptionalLong[1000] " in line
    assert " LogAppendTime: 1000 " in line
