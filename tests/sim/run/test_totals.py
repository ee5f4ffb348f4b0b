"""Rows add up, and failures are kept."""

from __future__ import annotations

from pykraft.sim.run.totals import Totals


def test_rows_add_up() -> None:
    totals = Totals()
    totals.add({"seed": 1, "failed": False, "virtual_ms": 5, "committed": 3, "acknowledged": 2, "faults": {"kill": 2}})
    states = {"kill": {"leader": 1, "follower": 2}}
    totals.add({"seed": 2, "failed": True, "at_us": 3_900, "faults": {"kill": 1, "split": 4}, "states": states})
    totals.add({"seed": 3, "failed": True, "at_us": 0, "faults": {}, "states": states})
    assert totals.seeds == 3
    assert [row["seed"] for row in totals.failures] == [2, 3]
    assert totals.sums == {"virtual_ms": 8, "committed": 3, "acknowledged": 2}
    assert totals.faults == {"kill": 3, "split": 4}
    assert totals.worlds_with == {"kill": 2, "split": 1}
    assert totals.states == {"kill": {"leader": 2, "follower": 4}}
