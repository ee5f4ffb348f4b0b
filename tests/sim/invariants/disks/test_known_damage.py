"""A node that forgets where its log is damaged is found."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.core.quarantine import DAMAGES_MAX, Quarantine
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.disks.known_damage import DamageStaysKnown
from pykraft.types import Damage, Epoch, Offset, ReportKind
from tests.sim.invariants.fakes import node, report, world


def damaged(*offsets: int) -> Any:
    damages = tuple(
        Damage(path="log", position=0, start_offset=Offset(offset), expected="a", found="b") for offset in offsets
    )
    return node(1, quarantine=Quarantine(epoch=Epoch(1), until_offset=None, damages=damages, is_cut=True))


def test_more_damage_is_accepted_and_none_when_it_is_over() -> None:
    made = DamageStaysKnown(world())
    made.persisted(node(1))
    made.persisted(damaged(5))
    made.persisted(damaged(5, 9))
    made.persisted(node(1, quarantine=None))
    made.persisted(damaged(7))
    made.reported(damaged(7), report())
    made.persisted(damaged(7))
    made.reported(node(1), report(ReportKind.QUARANTINE_OVER, 9))
    made.persisted(damaged(3))
    made.wiped(node(1))
    made.persisted(damaged(8))


def test_a_list_that_is_full_may_lack_some() -> None:
    made = DamageStaysKnown(world())
    made.persisted(damaged(0))
    made.persisted(damaged(*range(1, DAMAGES_MAX + 1)))


def test_a_place_that_is_forgotten_is_found() -> None:
    made = DamageStaysKnown(world())
    made.persisted(damaged(5))
    with pytest.raises(ViolationError, match=r"knows of damage at \(\('log', 9\),\), and not at \[\('log', 5\)\]"):
        made.persisted(damaged(9))
