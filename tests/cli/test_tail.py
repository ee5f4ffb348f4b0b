"""`pykraft tail`: lines and JSON, where it starts and ends, and one line for each kind of wrong input."""

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

import pytest
from click.testing import CliRunner, Result

from pykraft.cli.tail import in_utc, parse_start, tail
from pykraft.client.remote.observer import Start
from pykraft.config import METADATA_TOPIC_ID
from pykraft.errors import ProtocolError, QuorumUnavailableError, UsageError
from pykraft.local.voters import HOST, free_ports
from pykraft.protocol.batch import seal_batch
from pykraft.types import Epoch, Offset
from tests.client.logs import ScriptedLog
from tests.snapshot.snapshots import ID, small_batches


@contextmanager
def served(log: ScriptedLog) -> Iterator[str]:
    """A log that is served from a thread and loop of its own; its bootstrap list."""
    started = threading.Event()
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def main() -> None:
        async with AsyncExitStack() as stack:
            for node in log.nodes.values():
                await stack.enter_async_context(node)
            started.set()
            await ended.wait()

    def serve() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(main())

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert started.wait(10)
        yield ",".join(map(str, log.bootstrap))
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()


def call(*arguments: str) -> Result:
    return CliRunner().invoke(tail, arguments)


def small_log() -> ScriptedLog:
    log = ScriptedLog()
    log.append_leader_change()
    log.append(b"one", b"tw\x1b[2Jo")
    log.append(b"three")
    return log


def test_a_line_is_offset_epoch_time_and_printable_value() -> None:
    with served(small_log()) as bootstrap:
        result = call("--bootstrap-controller", bootstrap)
    assert result.exit_code == 0, result.exception
    assert result.output == (
        "1\t1\t1970-01-01T00:00:01.000Z\tone\n"
        "2\t1\t1970-01-01T00:00:01.000Z\ttw\\x1b[2Jo\n"
        "3\t1\t1970-01-01T00:00:01.000Z\tthree\n"
    )


def test_control_records_are_printed_on_request() -> None:
    with served(small_log()) as bootstrap:
        text = call("--bootstrap-controller", bootstrap, "--print-control", "--max-records", "1").output
        line = call("--bootstrap-controller", bootstrap, "--print-control", "--max-records", "1", "--json").output
    body = {"version": 0, "leaderId": 2, "voters": [{"voterId": 1}, {"voterId": 2}], "grantingVoters": [{"voterId": 2}]}
    head, _, shown = text.partition(" ")
    assert head == "0\t1\t1970-01-01T00:00:00.900Z\tLeaderChange"
    assert json.loads(shown) == body
    assert json.loads(line) == {"offset": 0, "epoch": 1, "timestamp": 900, "control": {"LeaderChange": body}}


def test_json_holds_the_bytes() -> None:
    with served(small_log()) as bootstrap:
        lines = call("--bootstrap-controller", bootstrap, "--json", "--from", "2").output.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"offset": 2, "epoch": 1, "timestamp": 1_000, "valueBase64": base64.b64encode(b"tw\x1b[2Jo").decode()},
        {"offset": 3, "epoch": 1, "timestamp": 1_000, "valueBase64": base64.b64encode(b"three").decode()},
    ]


def test_what_other_programs_wrote_is_printed_too() -> None:
    log = ScriptedLog()
    body = bytes.fromhex("0e 000000 02 6b 01 00")  # length, attributes, two deltas, a key, no value, no headers
    log.batches.append(seal_batch(body, count=1, base_offset=Offset(0), epoch=log.epoch, timestamp_ms=1_000).data)
    log.high_watermark = 1
    with served(log) as bootstrap:
        assert call("--bootstrap-controller", bootstrap).output.endswith("\tnull\n")
        line = json.loads(call("--bootstrap-controller", bootstrap, "--json").output)
    assert (line["keyBase64"], line["valueBase64"]) == (base64.b64encode(b"k").decode(), None)


def metadata_log() -> ScriptedLog:
    log = ScriptedLog(topic_id=METADATA_TOPIC_ID)
    log.append(bytes.fromhex("010c00") + b"\x11metadata.version\x00\x1e\x00", b"no such\x1b thing")
    return log


def test_values_of_kafkas_controllers_are_decoded() -> None:
    with served(metadata_log()) as bootstrap:
        text = call("--bootstrap-controller", bootstrap).output
        lines = call("--bootstrap-controller", bootstrap, "--json").output.splitlines()
        raw = call("--bootstrap-controller", bootstrap, "--no-cluster-metadata-decoder").output
    problem = "not a metadata record that can be read: its frame has version 110, not 1"
    assert [line.split("\t")[3] for line in text.splitlines()] == [
        "FEATURE_LEVEL_RECORD name=metadata.version featureLevel=30",
        f"no such\\x1b thing ({problem})",
    ]
    known, other = map(json.loads, lines)
    data = {"name": "metadata.version", "featureLevel": 30}
    assert known["payload"] == {"type": "FEATURE_LEVEL_RECORD", "version": 0, "data": data}
    assert base64.b64decode(known["valueBase64"])[:3] == bytes.fromhex("010c00")
    assert other["payloadProblem"] == problem
    assert raw.splitlines()[1].endswith("\tno such\\x1b thing")


def test_no_ops_are_left_out_and_types_are_chosen() -> None:
    log = metadata_log()
    log.append(bytes.fromhex("01140000"))
    expected = {
        (): ["FEATURE_LEVEL_RECORD", "no"],
        ("--type", "no_op_record"): ["no", "NO_OP_RECORD"],
        ("--exclude", "feature_level_record"): ["no", "NO_OP_RECORD"],
        ("--exclude", ""): ["FEATURE_LEVEL_RECORD", "no", "NO_OP_RECORD"],
    }
    with served(log) as bootstrap:
        words = ("--bootstrap-controller", bootstrap)
        shown = {options: call(*words, *options).output.splitlines() for options in expected}
        every = [json.loads(line) for line in call(*words, "--json").output.splitlines()]
    assert {options: [line.split("\t")[3].split()[0] for line in lines] for options, lines in shown.items()} == expected
    assert [each.get("payload", {}).get("type") for each in every] == ["FEATURE_LEVEL_RECORD", None, "NO_OP_RECORD"]


def test_a_type_is_one_of_kafkas_and_of_a_decoded_log() -> None:
    with served(small_log()) as bootstrap:
        words = ("--bootstrap-controller", bootstrap, "--type")
        other = call(*words, "TOPIC_RECORD").exception
        unknown = call(*words, "topic_recrod").exception
    assert "--type is for Kafka's metadata records, and those of " in str(other)
    assert str(unknown) == "--type TOPIC_RECROD: Kafka has no such type; did you mean TOPIC_RECORD?"


@pytest.mark.parametrize(
    ("since", "offsets"),
    [
        ("1970-01-01T00:00:00.899Z", ["0", "1", "2", "3"]),
        ("1970-01-01T00:00:00.900Z", ["1", "2", "3"]),
        ("1970-01-01T01:00:00.900+01:00", ["1", "2", "3"]),
        ("1970-01-01T00:00:01", []),
        ("2", ["2", "3"]),
    ],
)
def test_records_since_a_time_or_an_offset(since: str, offsets: list[str]) -> None:
    with served(small_log()) as bootstrap:
        result = call("--bootstrap-controller", bootstrap, "--print-control", "--since", since)
    assert [line.split("\t")[0] for line in result.output.splitlines()] == offsets


def test_a_snapshot_is_left_out_that_is_older_and_another_word_is_refused() -> None:
    with served(cleaned_log()) as bootstrap:
        words = ("--bootstrap-controller", bootstrap, "--load-snapshot", "--since")
        later = call(*words, "1970-01-01T00:00:00.005Z").output
        as_old = call(*words, "1970-01-01T00:00:00.004Z").output
        wrong = call(*words, "yesterday").exception
    assert later == "157\t4\t1970-01-01T00:00:01.000Z\tafter\n"
    assert len(as_old.splitlines()) == 41
    assert isinstance(wrong, UsageError)
    assert str(wrong).startswith("--since yesterday: give an offset, or a time such as")


def test_other_values_are_decoded_on_request_also_those_of_a_snapshot() -> None:
    with served(cleaned_log()) as bootstrap:
        words = ("--bootstrap-controller", bootstrap, "--load-snapshot", "--cluster-metadata-decoder")
        first = call(*words).output.splitlines()[0]
        line = json.loads(call(*words, "--json", "--max-records", "1").output)
    assert first.startswith("<157\t3\t1970-01-01T00:00:00.005Z\t\\x01\\x01")
    assert "(not a metadata record that can be read: " in first
    assert line["payloadProblem"].startswith("not a metadata record that can be read: ")


def test_records_that_cannot_be_read_are_told_with_their_offset() -> None:
    log = ScriptedLog()
    log.append(b"a")
    body = b"\xff" * 10
    log.batches.append(seal_batch(body, count=1, base_offset=Offset(1), epoch=log.epoch, timestamp_ms=1_000).data)
    log.high_watermark = 2
    with served(log) as bootstrap:
        result = call("--bootstrap-controller", bootstrap)
    assert isinstance(result.exception, ProtocolError)
    assert str(result.exception).startswith("the batch at offset 1: ")
    assert result.output.startswith("0\t")


def test_it_ends_where_the_log_ended_when_it_began() -> None:
    log = small_log()
    serve = log.answer

    def grow(node_id: int, body: dict[str, object]) -> object:
        log.append(b"more")
        return serve(node_id, body)

    with served(log) as bootstrap:
        log.answer = grow  # type: ignore[assignment]
        result = call("--bootstrap-controller", bootstrap)
    first_after_start = [line.split("\t")[3] for line in result.output.splitlines()]
    assert first_after_start[:3] == ["one", "tw\\x1b[2Jo", "three"]
    assert len(first_after_start) < 8


@pytest.mark.parametrize("start", ["latest", "4"])
def test_nothing_to_print_is_a_good_end(start: str) -> None:
    with served(small_log()) as bootstrap:
        result = call("--bootstrap-controller", bootstrap, "--from", start)
    assert (result.exit_code, result.output) == (0, "")


def test_follow_goes_on_until_there_were_enough() -> None:
    log = small_log()
    serve = log.answer

    def grow(node_id: int, body: dict[str, object]) -> object:
        if node_id == log.leader_id and log.end_offset < 8:
            log.append(b"more")
        return serve(node_id, body)

    with served(log) as bootstrap:
        log.answer = grow  # type: ignore[assignment]
        result = call("--bootstrap-controller", bootstrap, "--follow", "--from", "2", "--max-records", "6")
    assert [line.split("\t")[0] for line in result.output.splitlines()] == ["2", "3", "4", "5", "6", "7"]


def cleaned_log() -> ScriptedLog:
    """Begins behind the snapshot 157-3 of forty records."""
    log = ScriptedLog()
    log.epoch = Epoch(4)
    log.clean(ID, small_batches())
    log.append(b"after")
    return log


def test_what_only_a_snapshot_holds_is_left_out() -> None:
    with served(cleaned_log()) as bootstrap:
        result = call("--bootstrap-controller", bootstrap)
        below = call("--bootstrap-controller", bootstrap, "--from", "3")
    assert result.output == "157\t4\t1970-01-01T00:00:01.000Z\tafter\n"
    assert isinstance(below.exception, UsageError)
    assert str(below.exception).startswith("offset 3 is not there: committed are the offsets from 157 to 158")


def test_what_only_a_snapshot_holds_is_printed_on_request() -> None:
    with served(cleaned_log()) as bootstrap:
        words = ("--bootstrap-controller", bootstrap, "--load-snapshot")
        text = call(*words, "--print-control").output.splitlines()
        first = call(*words, "--json", "--max-records", "1").output
    assert len(text) == 41
    assert text[0] == "<157\t3\t1970-01-01T00:00:00.005Z\t" + "\\x01" * 38
    assert text[-1] == "157\t4\t1970-01-01T00:00:01.000Z\tafter"
    assert json.loads(first) == {
        "snapshot": "00000000000000000157-0000000003",
        "epoch": 3,
        "timestamp": 5,
        "valueBase64": base64.b64encode(b"\1" * 38).decode(),
    }


def test_a_snapshot_of_everything_is_a_good_end() -> None:
    log = cleaned_log()
    log.batches.clear()
    log.high_watermark = ID.offset
    with served(log) as bootstrap:
        text = call("--bootstrap-controller", bootstrap, "--load-snapshot").output
        nothing = call("--bootstrap-controller", bootstrap)
    assert len(text.splitlines()) == 40
    assert (nothing.exit_code, nothing.output) == (0, "")


def test_an_offset_beyond_the_end_is_the_callers_mistake() -> None:
    with served(small_log()) as bootstrap:
        result = call("--bootstrap-controller", bootstrap, "--from", "99")
    assert isinstance(result.exception, UsageError)
    assert "offset 99 is not there: committed are the offsets from 0 to 4" in str(result.exception)


def test_nobody_there_is_one_line() -> None:
    [port] = free_ports(1)
    result = call("--bootstrap-controller", f"{HOST}:{port}")
    assert isinstance(result.exception, QuorumUnavailableError)
    assert str(result.exception) == f"no node answers: {HOST}:{port}: connection refused"


def test_starts() -> None:
    assert parse_start("earliest") is Start.EARLIEST
    assert parse_start("latest") is Start.LATEST
    assert parse_start("007") == Offset(7)


def test_a_time_of_no_calendar_stays_a_number() -> None:
    assert in_utc(1_795_250_845_065) == "2026-11-21T08:47:25.065Z"
    assert in_utc(2**62) == str(2**62)
    assert in_utc(-1) == "1969-12-31T23:59:59.999Z"
