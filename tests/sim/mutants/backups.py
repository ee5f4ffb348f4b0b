"""Bugs of older copies of directories that are put back without a word (ADR 128)."""

from __future__ import annotations

from typing import Any

from pykraft.core.effects import Report
from pykraft.core.on import fetch_request, fetch_response
from pykraft.core.replica import Replica
from pykraft.types import Offset
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch


def forgotten_acknowledgements_are_served_in_silence(patch: Patch) -> None:
    """A leader sends a voter once more what it had acknowledged, and says nothing."""
    patch.setattr(fetch_request, "_watch_voter", lambda replica, leader, voter, fetch_offset: None)


def logs_are_cut_in_silence(patch: Patch) -> None:
    """A follower truncates its log where the leader says, and tells nobody."""
    truncate = fetch_response._truncate

    def in_silence(replica: Replica, point: Offset) -> None:
        truncate(replica, point)
        effects = replica.outbox._effects
        effects[:] = [each for each in effects if not isinstance(each, Report)]

    patch.setattr(fetch_response, "_truncate", in_silence)


def _bug(plant: Any, source: str, scenario: str) -> Mutant:
    return Mutant(plant=plant, source=source, scenario=scenario)


MUTANTS = (
    _bug(forgotten_acknowledgements_are_served_in_silence, "ours until ADR 128: 3,219 records, no line", "backups"),
    _bug(logs_are_cut_in_silence, "ours until ADR 128", "default"),
)
