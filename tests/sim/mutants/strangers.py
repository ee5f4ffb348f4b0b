"""Bugs of trust: a node believes anybody who reaches its port (ADR 028, ADR 029, ADR 046; docs/trust.md)."""

from __future__ import annotations

from typing import Any

from pykraft.core.epoch_budget import EpochBudget
from pykraft.core.events import RequestReceived
from pykraft.core.leader.voter_change import Update
from pykraft.core.messages import UpdateVoterRequest
from pykraft.core.on import epoch_raise, fetch_response, following
from pykraft.core.on.following import check_consistent
from pykraft.core.on.voters import update_voter, voter_changes
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import ProtocolError
from pykraft.types import Endpoint, Epoch, Instant, Listeners, NodeId, VersionRange
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch

_is_named_wrongly = vars(following)["_is_named_wrongly"]


def epochs_have_no_budget(patch: Patch) -> None:
    """A request may raise the epoch by any amount, up to the highest possible one, where no leader is heard."""
    patch.setattr(EpochBudget, "spend", lambda budget, epochs, now_ms: True)
    patch.setattr(epoch_raise, "EPOCHS_BY_REQUESTS", 2**31)


def leaders_may_say_anything(patch: Patch) -> None:
    """A follower obeys a leader that truncates committed records or contradicts what it said before."""
    patch.setattr(fetch_response, "contradiction_in", lambda *_: None)


def answers_without_news_need_no_rest(patch: Patch) -> None:
    """A follower asks a leader that answers empty at once again without a pause."""
    patch.setattr(fetch_response, "EMPTY_ANSWERS_MAX", 2**31)


def records_of_any_leader_are_appended(patch: Patch) -> None:
    """A follower appends the records of an answer, even if the answer names another node as the leader."""

    def check(replica: Replica, epoch: Epoch, leader_id: NodeId | None) -> None:
        try:
            check_consistent(replica, epoch, leader_id)
        except ProtocolError as error:
            if not str(error).endswith("as well"):
                raise

    patch.everywhere(check_consistent, check)
    patch.setattr(fetch_response, "_check_sender", lambda *_: None)


def any_text_is_a_host(patch: Patch) -> None:
    """A leader writes a voter's host name into the log without checking it."""
    patch.setattr(Endpoint, "can_be_dialed", True)


def endpoints_are_believed(patch: Patch) -> None:
    """A leader writes a voter's new endpoint into the log without asking the voter there."""
    known = update_voter.on_update_voter_request

    def on_update_voter_request(
        replica: Replica, event: RequestReceived, message: UpdateVoterRequest, now: Instant
    ) -> None:
        known(replica, event, message, now)
        change = replica.state.change if isinstance(replica.state, Leader) else None
        if isinstance(replica.state, Leader) and isinstance(change, Update) and change.offset is None:
            update_voter.update_voter(replica, replica.state, change, message.kraft_version, now)

    patch.setattr(update_voter, "ask_levels", lambda *_: None)
    patch.everywhere(known, on_update_voter_request)


def voters_are_asked_where_they_were(patch: Patch) -> None:
    """A leader asks a voter at the endpoint that the log names, and then writes the one that the voter reports."""
    known = voter_changes.ask_levels

    def ask_levels(replica: Replica, node_id: NodeId, listeners: Listeners, now: Instant) -> None:
        del listeners
        known(replica, node_id, replica.voters.listeners(node_id), now)

    patch.setattr(update_voter, "ask_levels", ask_levels)


def anybody_at_the_endpoint_is_the_voter(patch: Patch) -> None:
    """A leader writes a voter's new endpoint although the node there supports other levels than the voter reports."""
    known = update_voter.update_voter

    def update(replica: Replica, leader: Leader, change: Update, supported: VersionRange, now: Instant) -> None:
        del supported
        known(replica, leader, change, change.voter.kraft_version, now)

    patch.everywhere(known, update)


def votes_for_somebody_who_is_called_the_leader_are_lost(patch: Patch) -> None:
    """A candidate ignores an answer that names it as the leader of its epoch, and loses the vote in it."""

    def is_named_wrongly(replica: Replica, epoch: Epoch, leader_id: NodeId | None) -> bool:
        return epoch > replica.epoch and _is_named_wrongly(replica, epoch, leader_id)

    patch.setattr(following, "_is_named_wrongly", is_named_wrongly)


def _bug(plant: Any, source: str, scenario: str = "strangers") -> Mutant:
    return Mutant(plant=plant, source=source, scenario=scenario)


MUTANTS = (
    _bug(epochs_have_no_budget, "Kafka's QuorumState (any epoch is adopted); ours until ADR 029"),
    _bug(leaders_may_say_anything, "Kafka's KafkaRaftClient (throws an exception, or believes); ours until ADR 028"),
    _bug(answers_without_news_need_no_rest, "Kafka's RequestManager (backs off from failures only)", "false_leaders"),
    _bug(
        records_of_any_leader_are_appended,
        "ours until sequences were compared with Kafka's",
        "false_leaders",
    ),
    _bug(any_text_is_a_host, "Kafka's UpdateVoterHandler; ours until endpoints were checked"),
    _bug(endpoints_are_believed, "KAFKA-20661 (Kafka before 4.5); ours until ADR 066"),
    _bug(voters_are_asked_where_they_were, "KAFKA-20661"),
    _bug(anybody_at_the_endpoint_is_the_voter, "KAFKA-20661"),
    _bug(votes_for_somebody_who_is_called_the_leader_are_lost, "ours until ADR 032", "false_leaders"),
)
