"""Bugs of two processes with the id of one static voter (ADR 130)."""

from __future__ import annotations

from typing import Any

from pykraft.core.leader.progress import ReplicaProgress
from pykraft.core.on import fetch_request
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch


def any_directory_is_the_voter(patch: Patch) -> None:
    """Whoever fetches with a static voter's id acknowledges for it, from whatever directory."""
    patch.setattr(ReplicaProgress, "may_be", lambda progress, key: progress.key.matches(key))


def twins_are_served_in_silence(patch: Patch) -> None:
    """A second process with a voter's id counts for nothing, and nobody says that there is one."""
    patch.setattr(fetch_request, "_watch_identity", lambda replica, key: None)


def _bug(plant: Any, source: str) -> Mutant:
    return Mutant(plant=plant, source=source, scenario="twins")


MUTANTS = (
    _bug(any_directory_is_the_voter, "ours until ADR 130: 10,000 acknowledged records were lost"),
    _bug(twins_are_served_in_silence, "ours until ADR 130; Kafka at kraft.version 0"),
)
