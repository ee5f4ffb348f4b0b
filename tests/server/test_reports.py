"""Floods and repetitions are cut, a state that ends by itself waits, and alarms pass.

Source: ADR 056.
"""

from __future__ import annotations

import logging

import pytest

from pykraft.server.reports import BURST_MAX, LINES_PER_S, REMEMBERED_MAX, REPEATED_S, Reports
from pykraft.types import ReportKind

BAD = "closing connection 7 on CONTROLLER: no frames"
NEW, EMPTIED = "new directory: it waits", "UNPROVEN DIRECTORY: it waits"
UNPROVEN_S = 2.0


class Desk:
    """Reports, and what was logged of them."""

    def __init__(self) -> None:
        self.logged: list[tuple[int, str]] = []
        self.reports = Reports(lambda level, text: self.logged.append((level, text)), 0.0, unproven_s=UNPROVEN_S)

    @property
    def lines(self) -> list[str]:
        """What is logged at INFO and above."""
        return [text for level, text in self.logged if level >= logging.INFO]


def test_a_few_lines_pass_and_a_flood_is_cut_and_counted() -> None:
    desk = Desk()
    for _ in range(10 * BURST_MAX):
        desk.reports.tell(BAD, 0.0, kind=ReportKind.CONNECTION)
    assert desk.lines == [BAD] * BURST_MAX
    desk.reports.tell(BAD, 1 / LINES_PER_S, kind=ReportKind.CONNECTION)
    assert desk.lines[-1] == f"{BAD} (left out before this: {9 * BURST_MAX} lines about connections)"
    desk.reports.tell(BAD, 1 / LINES_PER_S, kind=ReportKind.CONNECTION)
    assert len(desk.lines) == BURST_MAX + 1


def test_a_quiet_time_makes_room_for_one_burst_and_no_more() -> None:
    desk = Desk()
    for _ in range(10 * BURST_MAX):
        desk.reports.tell(BAD, 1_000_000.0, kind=ReportKind.CONNECTION)
    assert len(desk.lines) == BURST_MAX


def test_a_repeated_line_is_for_debugging_until_it_was_quiet_for_a_while() -> None:
    desk = Desk()
    now_s = 0.0
    for _ in range(100):
        for text in ("prospective in epoch 2", "follower in epoch 2: node 3 leads"):
            desk.reports.tell(text, now_s)
            now_s += REPEATED_S / 4
    assert desk.lines == ["prospective in epoch 2", "follower in epoch 2: node 3 leads"]
    assert len(desk.logged) == 200
    desk.reports.tell("prospective in epoch 2", now_s + REPEATED_S)
    assert desk.lines[2:] == ["prospective in epoch 2"]


def test_alarms_are_always_logged() -> None:
    desk = Desk()
    for _ in range(3):
        desk.reports.tell("DAMAGED LOG", 0.0, is_alarm=True)
    assert desk.logged == [(logging.ERROR, "DAMAGED LOG")] * 3


def test_the_lines_that_are_remembered_are_bounded() -> None:
    desk = Desk()
    for number in [*range(REMEMBERED_MAX + 1), 0]:
        desk.reports.tell(f"candidate in epoch {number}", 0.0)
    assert len(desk.lines) == REMEMBERED_MAX + 2


def test_a_first_start_that_is_over_in_a_moment_is_not_logged() -> None:
    desk = Desk()
    desk.reports.look(0.0, is_proven=False)
    desk.reports.tell(NEW, 0.25, kind=ReportKind.UNPROVEN)
    desk.reports.look(0.3, is_proven=False)
    desk.reports.look(0.4, is_proven=True)
    desk.reports.look(9.0, is_proven=False)
    assert desk.logged == []


@pytest.mark.parametrize(("text", "is_alarm"), [(NEW, False), (EMPTIED, True)])
def test_a_directory_that_stays_unproven_is_logged_once_as_it_was_reported(text: str, *, is_alarm: bool) -> None:
    desk = Desk()
    desk.reports.tell(f"{text} for node 2, 3", 0.25, is_alarm=is_alarm, kind=ReportKind.UNPROVEN)
    desk.reports.tell(f"{text} for node 3", 1.0, is_alarm=is_alarm, kind=ReportKind.UNPROVEN)
    desk.reports.look(0.25 + UNPROVEN_S - 0.1, is_proven=False)
    assert desk.logged == []
    for now_s in (0.25 + UNPROVEN_S, 9.0):
        desk.reports.look(now_s, is_proven=False)
    level = logging.ERROR if is_alarm else logging.INFO
    assert desk.logged == [(level, f"{text} for node 3")]
    # What changes later is logged at the next look.
    desk.reports.tell(EMPTIED, 10.0, is_alarm=True, kind=ReportKind.UNPROVEN)
    desk.reports.look(10.1, is_proven=False)
    assert desk.logged[1:] == [(logging.ERROR, EMPTIED)]
