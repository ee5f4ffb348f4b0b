"""Bugs of trust: a node believes anybody who reaches its port (ADR 028, ADR 029, ADR 046; docs/trust.md)."""

from __future__ import annotations

from typing import Any

from pykraft.core.epoch_budget import EpochBudget
from pykraft.core.on import fetch_response, following
from pykraft.core.on.following import check_consistent
from pykraft.core.replica import Replica
from pykraft.errors import ProtocolError
from pykraft.types import Endpoint, Epoch, NodeId
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch

_is_named_wrongly = vars(following)["_is_named_wrongly"]


def epochs_have_no_budget(patch: Patch) -> None:
    """A request may raise the epoch by any amount, up to the highest possible one."""
    patch.setattr(EpochBudget, "spend", lambda budget, epochs, now_ms: True)


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


def votes_for_somebody_who_is_called_the_leader_are_lost(patch: Patch) -> None:
    """A candidate ignores an answer that names it as the leader of its epoch, and loses the vote in it."""

    def is_named_wrongly(replica: Replica, epoch: Epoch, leader_id: NodeId | None) -> bool:
        return epoch > replica.epoch and _is_named_wrongly(replica, epoch, leader_id)

    patch.setattr(following, "_is_named_wrongly", is_named_wrongly)


def misled_voter_is_locked_out(patch: Patch) -> None:
    """A leader closes the connection of a voter that was told that it leads a later epoch."""

    def is_named_wrongly(replica: Replica, epoch: Epoch, leader_id: NodeId | None) -> bool:
        return epoch == replica.epoch and _is_named_wrongly(replica, epoch, leader_id)

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
    _bug(votes_for_somebody_who_is_called_the_leader_are_lost, "ours until ADR 032", "false_leaders"),
    _bug(misled_voter_is_locked_out, "ours until ADR 046", "misled"),
)
