"""A flood of lines about connections is cut and counted, and the count is logged; other lines pass."""

from __future__ import annotations

from pykraft.server.reports import BURST_MAX, LINES_PER_S, BoundedReports

BAD = "closing connection 7 on CONTROLLER: no frames"


def test_a_few_lines_pass_and_a_flood_is_cut_and_counted() -> None:
    lines: list[str] = []
    reports = BoundedReports(lines.append, 0.0)
    for _ in range(10 * BURST_MAX):
        reports.tell(BAD, 0.0)
    assert lines == [BAD] * BURST_MAX
    reports.tell(BAD, 1 / LINES_PER_S)
    assert lines[-1] == f"{BAD} (left out before this: {9 * BURST_MAX} lines about connections)"
    reports.tell(BAD, 1 / LINES_PER_S)
    assert len(lines) == BURST_MAX + 1


def test_what_is_not_about_connections_passes() -> None:
    lines: list[str] = []
    reports = BoundedReports(lines.append, 0.0)
    for _ in range(10 * BURST_MAX):
        reports.tell("leader in epoch 7", 0.0)
    assert len(lines) == 10 * BURST_MAX


def test_a_quiet_time_makes_room_for_one_burst_and_no_more() -> None:
    lines: list[str] = []
    reports = BoundedReports(lines.append, 0.0)
    for _ in range(10 * BURST_MAX):
        reports.tell(BAD, 1_000_000.0)
    assert len(lines) == BURST_MAX
