"""Lines of a journal become events, and nothing else does."""

import json

import pytest

from pykraft.errors import ProtocolError
from pykraft.local import journal
from pykraft.types import Epoch, NodeId, Offset

RUN = "00112233445566aa"
ACK: dict[str, object] = {
    "event": "ack",
    "node": 1,
    "run": RUN,
    "epoch": 3,
    "first_sequence": 10,
    "count": 5,
    "base_offset": 100,
    "wall_ms": 1_700_000_000_000,
    "latency_ms": 2.5,
}


def test_each_kind_of_line_becomes_its_event() -> None:
    run, node, epoch = bytes.fromhex(RUN), NodeId(1), Epoch(3)
    assert journal.parse_event(
        json.dumps({"event": "started", "node": 1, "run": RUN, "pid": 77, "port": 20_000})
    ) == journal.Started(node=node, run=run, pid=77, port=20_000)
    assert journal.parse_event(json.dumps({"event": "leader", "node": 1, "run": RUN, "epoch": 3})) == journal.Led(
        node=node, run=run, epoch=epoch
    )
    assert journal.parse_event('{"event":"resigned","node":1,"epoch":3}') == journal.LeadershipEnded(
        node=node, epoch=epoch
    )
    assert journal.parse_event(b'{"event":"stopped","node":1}\n') == journal.Stopped(node=node)
    acknowledged = journal.parse_event(json.dumps(ACK))
    assert acknowledged == journal.Acknowledged(
        node=node,
        run=run,
        epoch=epoch,
        first_sequence=10,
        count=5,
        base_offset=Offset(100),
        wall_ms=1_700_000_000_000,
        latency_ms=2.5,
    )
    assert acknowledged.claim == journal.Claim(run, epoch)
    assert (acknowledged.end_sequence, acknowledged.end_offset, acknowledged.shift) == (15, 105, 90)


def test_a_field_of_a_later_version_is_passed_over() -> None:
    assert journal.parse_event(json.dumps(ACK | {"color": "blue"})) == journal.parse_event(json.dumps(ACK))


@pytest.mark.parametrize(
    "fault",
    [
        {"event": "cheered"},
        {"run": "00"},
        {"run": "not hexadecimal!"},
        {"run": 7},
        {"epoch": -1},
        {"epoch": 1.5},
        {"epoch": True},
        {"epoch": "3"},
        {"count": 0},
        {"base_offset": None},
        {"latency_ms": float("nan")},
        {"latency_ms": -1},
    ],
)
def test_a_wrong_field_is_refused(fault: dict[str, object]) -> None:
    with pytest.raises(ProtocolError, match="not a line of a journal"):
        journal.parse_event(json.dumps(ACK | fault))


@pytest.mark.parametrize("line", ["", "{", "[]", "7", '{"event":[]}', b"\xff", json.dumps(ACK)[:40], "[" * 100_000])
def test_what_is_no_line_of_a_journal_is_refused(line: str | bytes) -> None:
    with pytest.raises(ProtocolError, match="not a line of a journal"):
        journal.parse_event(line)


def test_a_line_without_a_field_is_refused() -> None:
    with pytest.raises(ProtocolError, match="latency_ms"):
        journal.parse_event(json.dumps({key: value for key, value in ACK.items() if key != "latency_ms"}))
