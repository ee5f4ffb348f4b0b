"""Bugs of a voter that never leads: it blocks elections, leads too often or too long, or hands over wrongly."""

from __future__ import annotations

from dataclasses import replace

from pykraft.core import enter_state, never_leads
from pykraft.core.effects import Peer
from pykraft.core.events import Proposed
from pykraft.core.messages import FetchRequest, Request, VoteRequest
from pykraft.core.on import propose, send_requests, vote
from pykraft.core.outbox import Relies
from pykraft.core.replica import Replica
from pykraft.core.state import Leader, Resigned
from pykraft.errors import PykraftError
from pykraft.types import Instant, NodeId
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch

SOURCE = "ADR 077"


def never_leading_voter_never_campaigns(patch: Patch) -> None:
    """A voter that never leads does not campaign, even if only it and a dead voter have the newest records."""
    abstains = never_leads.abstains
    patch.everywhere(abstains, lambda replica: replica.config.never_leads)


def never_leading_voter_always_campaigns(patch: Patch) -> None:
    """A voter that never leads campaigns at each timeout, like any other."""
    patch.everywhere(never_leads.abstains, lambda replica: False)


def never_leading_voter_stays(patch: Patch) -> None:
    """A voter that never leads stays leader although another voter has its whole log."""
    patch.everywhere(never_leads.successor, lambda replica, leader: None)


def never_leading_voter_hands_over_too_early(patch: Patch) -> None:
    """A voter that never leads resigns before any other voter has its whole log."""

    def anybody(replica: Replica, leader: Leader) -> NodeId | None:
        others = [node_id for node_id in leader.progress.voters if node_id != leader.leader_id]
        return others[0] if replica.config.never_leads else None

    patch.everywhere(never_leads.successor, anybody)


def never_leading_voter_names_the_last_first(patch: Patch) -> None:
    """A voter that never leads hands over to the voter that has the least of its log."""
    to_resigned = enter_state.to_resigned

    def reversed_order(replica: Replica, now: Instant) -> None:
        to_resigned(replica, now)
        state = replica.state
        if replica.config.never_leads and isinstance(state, Resigned):
            replica.state = replace(state, successors=state.successors[::-1])

    patch.everywhere(to_resigned, reversed_order)


def never_leading_voter_does_not_vote(patch: Patch) -> None:
    """A voter that never leads denies every vote."""
    would_grant_vote = vote.would_grant_vote

    def never(replica: Replica, message: VoteRequest) -> bool:
        return not replica.config.never_leads and would_grant_vote(replica, message)

    patch.everywhere(would_grant_vote, never)


def never_leading_voter_acknowledges_what_it_wrote(patch: Patch) -> None:
    """A voter that never leads fetches above what it has flushed."""
    send = send_requests.send

    def early(replica: Replica, peer: Peer, message: Request, now: Instant, relies: Relies, **rest: bool) -> int:
        is_early = replica.config.never_leads and isinstance(message, FetchRequest)
        return send(replica, peer, message, now, Relies.ELECTION if is_early else relies, **rest)

    patch.everywhere(send, early)


def never_leading_voter_accepts_proposals(patch: Patch) -> None:
    """A voter that never leads appends what its clients propose while it leads."""
    refusal = propose._refusal

    def lenient(replica: Replica, event: Proposed) -> PykraftError | None:
        config = replica.config
        replica.config = replace(config, never_leads=False)
        try:
            return refusal(replica, event)
        finally:
            replica.config = config

    patch.everywhere(refusal, lenient)


MUTANTS = (
    Mutant(plant=never_leading_voter_never_campaigns, source=SOURCE, scenario="neverleads,few"),
    Mutant(plant=never_leading_voter_always_campaigns, source=SOURCE, scenario="neverleads"),
    Mutant(plant=never_leading_voter_stays, source=SOURCE, scenario="neverleads"),
    Mutant(plant=never_leading_voter_hands_over_too_early, source=SOURCE, scenario="neverleads,few"),
    Mutant(plant=never_leading_voter_names_the_last_first, source=SOURCE, scenario="neverleads"),
    Mutant(plant=never_leading_voter_does_not_vote, source=SOURCE, scenario="neverleads,few"),
    Mutant(plant=never_leading_voter_acknowledges_what_it_wrote, source=SOURCE, scenario="neverleads"),
    Mutant(plant=never_leading_voter_accepts_proposals, source=SOURCE, scenario="neverleads"),
)
