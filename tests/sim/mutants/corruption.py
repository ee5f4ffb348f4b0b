"""Bugs of damaged logs: what a node that lost part of its log must not do, and must not believe."""

from __future__ import annotations

from typing import Any

from pykraft.core.messages import VoteRequest
from pykraft.core.on import corruption, vote
from pykraft.core.replica import Replica
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch


def damaged_nodes_vote(patch: Patch) -> None:
    """A node that lost part of its log grants votes by what is left of it."""
    for name in ("would_grant_vote", "would_grant_pre_vote"):
        rule = vars(vote)[name]

        def blind(replica: Replica, message: VoteRequest, rule: Any = rule) -> bool:
            known, replica.log.quarantine = replica.log.quarantine, None
            granted: bool = rule(replica, message)
            replica.log.quarantine = known
            return granted

        patch.setattr(vote, name, blind)


def damaged_leader_leads_on(patch: Patch) -> None:
    """A leader that finds damage in its log goes on leading."""
    patch.setattr(corruption, "_stand_down", lambda replica, now: None)


MUTANTS = (
    Mutant(
        plant=damaged_nodes_vote,
        source="Protocol-Aware Recovery (FAST 2018): a voter that deletes its log",
        scenario="silent",
    ),
    Mutant(plant=damaged_leader_leads_on, source="Protocol-Aware Recovery (FAST 2018)", scenario="silent"),
)
