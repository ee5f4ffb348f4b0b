"""A truncation without a report of both offsets is noticed; one of a damaged log is not judged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.core.effects import TruncateTo
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.log.cuts_told import CutsAreTold
from pykraft.types import Io, Offset, ReportKind
from tests.sim.invariants.fakes import node, report, world

CUT = TruncateTo(io=Io(1), end_offset=Offset(4))


def made() -> CutsAreTold:
    facts: Any = world()
    facts.ledger = lambda node: SimpleNamespace(end_offset=9)
    return CutsAreTold(facts)


def test_a_cut_in_silence_is_noticed() -> None:
    oracle = made()
    oracle.submitted(node(), SimpleNamespace())  # type: ignore[arg-type]
    oracle.reported(node(), report(ReportKind.TRUNCATION, 9, 5))
    with pytest.raises(ViolationError, match="node 1 cuts its log from 9 to 4; it last said: some words"):
        oracle.submitted(node(), CUT)


def test_a_cut_that_is_told_or_of_a_damaged_log_passes() -> None:
    oracle = made()
    oracle.submitted(node(is_damaged=True), CUT)
    oracle.reported(node(), report(ReportKind.TRUNCATION, 9, 4))
    oracle.submitted(node(), CUT)
