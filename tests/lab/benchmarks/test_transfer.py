"""Leadership is transferred around a real quorum; the figures, and the limit that they meet or not."""

from dataclasses import replace
from pathlib import Path

import pytest

from lab.benchmarks.transfer import Transferred, failures, longest_pause_ms, transfer
from pykraft.local.child import Children
from pykraft.local.journal import Acknowledged
from pykraft.types import Epoch, NodeId, Offset

GOOD = Transferred(took_ms=(50.0, 199.0, 300.0), pause_ms=(80.0, 210.0, 330.0), missed=1, acknowledged=1_000)


def acknowledged(wall_ms: int) -> Acknowledged:
    return Acknowledged(
        node=NodeId(1),
        run=b"run",
        epoch=Epoch(1),
        first_sequence=0,
        count=1,
        base_offset=Offset(1),
        wall_ms=wall_ms,
        latency_ms=1.0,
    )


@pytest.mark.processes
def test_leadership_goes_round(tmp_path: Path) -> None:
    with Children() as children:
        transferred = transfer(children, tmp_path, nodes=3, runs=2)
    assert len(transferred.took_ms) == len(transferred.pause_ms) == 2 - transferred.missed
    assert transferred.acknowledged > 500


def test_the_median_is_what_counts() -> None:
    assert failures(GOOD) == []
    late = replace(GOOD, took_ms=(50.0, 200.0, 300.0))
    assert failures(late) == ["the median of the transfers took 200 ms, 200 ms or more"]
    assert failures(replace(GOOD, took_ms=())) == ["the median of the transfers took inf ms, 200 ms or more"]


def test_a_pause_begins_before_what_came_late() -> None:
    known = [acknowledged(wall_ms) for wall_ms in (0, 500, 510, 700, 720)]
    assert longest_pause_ms(known, known[3:]) == 190
    assert longest_pause_ms(known, known) == 500
    assert longest_pause_ms(known[:1], known[:1]) == 0
