"""Bugs of who is believed about epochs, while a stranger sends frames in voters' names at a rate (ADR 129)."""

from __future__ import annotations

from typing import Any

from pykraft.core.epoch_budget import EpochBudget
from pykraft.core.messages import FetchRequest
from pykraft.core.on import epoch_raise, send_requests
from pykraft.core.replica import Replica
from pykraft.core.state import Candidate
from pykraft.host import peers
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch


def a_heard_leader_is_left_for_any_epoch(patch: Patch) -> None:
    """A replica that hears its leader yields to a request of a higher epoch, as often as somebody sends one."""
    patch.setattr(epoch_raise, "_hears_leader", lambda replica: False)
    patch.setattr(EpochBudget, "must_wait", lambda budget, sender, now_ms: False)


def voters_are_asked_about_each_forged_request(patch: Patch) -> None:
    """A stranger that sends requests in a voter's name makes other voters ask it as often, without a pause."""
    patch.setattr(EpochBudget, "may_ask", lambda budget, voter, now_ms, pause_ms: True)


def one_answer_is_enough_for_any_epoch(patch: Patch) -> None:
    """Any answer raises the epoch by any amount, and a voter that fetches may be moved: each covers for the other."""
    patch.everywhere(epoch_raise.may_answer_raise, lambda *_: True)
    patch.setattr(Replica, "would_move", lambda replica, voter: False)


def a_voter_is_asked_for_its_vote_at_its_newest_endpoint_only(patch: Patch) -> None:
    """A voter that was moved while it was down is asked where it is not; it has no leader to tell where it is."""
    patch.setattr(send_requests, "QUESTIONS_BEFORE_TURNS", 10**9)


def a_vote_goes_to_the_newest_endpoint(patch: Patch) -> None:
    """A voter that was found elsewhere grants its pre-vote there, and its vote is asked where it is not."""
    patch.setattr(
        send_requests,
        "_peer_for_vote",
        lambda replica, node_id, count, real=send_requests._peer_for_vote: (
            replica.voter_peer(node_id) if isinstance(replica.state, Candidate) else real(replica, node_id, count)
        ),
    )


def a_question_to_a_voter_ends_for_the_next_fetch(patch: Patch) -> None:
    """A voter that was to be asked counts as silent, as the question was a Fetch that waited for its connection."""
    patch.setattr(peers, "_acknowledges", lambda effect: isinstance(effect.message, FetchRequest))


def _bug(plant: Any, source: str, scenario: str = "forged") -> Mutant:
    return Mutant(plant=plant, source=source, scenario=scenario)


MUTANTS = (
    _bug(a_heard_leader_is_left_for_any_epoch, "Raft dissertation §4.2.3; ours until ADR 129"),
    _bug(voters_are_asked_about_each_forged_request, "ours, almost: a forged name would cost a question each"),
    _bug(one_answer_is_enough_for_any_epoch, "ours until ADR 129: three frames ended a dynamic quorum for good"),
    _bug(a_voter_is_asked_for_its_vote_at_its_newest_endpoint_only, "ours until ADR 145", "all,forged"),
    _bug(a_vote_goes_to_the_newest_endpoint, "ours in ADR 145", "all"),
    _bug(a_question_to_a_voter_ends_for_the_next_fetch, "ours: a question was never sent, and its voter was silent"),
)
