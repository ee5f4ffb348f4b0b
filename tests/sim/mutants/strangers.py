"""Bugs of who is believed: forged frames in voters' names (ADR 129), flipped bits, and nodes of another quorum."""

from typing import Any

from pykraft.core import enter_state
from pykraft.core.election import Tally
from pykraft.core.epoch_budget import EpochBudget
from pykraft.core.events import RequestReceived
from pykraft.core.leader.pending import Update
from pykraft.core.leader.progress import Progress
from pykraft.core.messages import FetchRequest, UpdateVoterRequest
from pykraft.core.on import epoch_raise, fetch_response, following, send_requests
from pykraft.core.on.following import check_consistent
from pykraft.core.on.voters import update_voter, voter_changes
from pykraft.core.replica import Replica
from pykraft.core.state import Candidate, Leader, Prospective
from pykraft.errors import ProtocolError
from pykraft.host import peers
from pykraft.protocol import batch
from pykraft.rpc import fetched
from pykraft.types import Endpoint, Epoch, Instant, Listeners, NodeId, VersionRange
from tests.sim.mutants.patch import Patch, bug

_is_named_wrongly = vars(following)["_is_named_wrongly"]


@bug("Kafka's QuorumState (any epoch is adopted); ours until ADR 029", "strangers")
def epochs_have_no_budget(patch: Patch) -> None:
    """A request may raise the epoch by any amount, up to the highest possible one, where no leader is heard."""
    patch.setattr(EpochBudget, "spend", lambda budget, epochs, now_ms: True)
    patch.setattr(epoch_raise, "EPOCHS_BY_REQUESTS", 2**31)


@bug("Kafka's KafkaRaftClient (throws an exception, or believes); ours until ADR 028", "strangers")
def leaders_may_say_anything(patch: Patch) -> None:
    """A follower obeys a leader that truncates committed records or contradicts what it said before."""
    patch.setattr(fetch_response, "contradiction_in", lambda *_: None)


@bug("Kafka's RequestManager (backs off from failures only)", "false_leaders")
def answers_without_news_need_no_rest(patch: Patch) -> None:
    """A follower asks a leader that answers empty at once again without a pause."""
    patch.setattr(fetch_response, "EMPTY_ANSWERS_MAX", 2**31)


@bug("ours until sequences were compared with Kafka's", "false_leaders")
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


@bug("Kafka's UpdateVoterHandler; ours until endpoints were checked", "strangers")
def any_text_is_a_host(patch: Patch) -> None:
    """A leader writes a voter's host name into the log without checking it."""
    patch.setattr(Endpoint, "can_be_dialed", True)


@bug("KAFKA-20661 (Kafka before 4.5); ours until ADR 066", "strangers")
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


@bug("KAFKA-20661", "strangers")
def voters_are_asked_where_they_were(patch: Patch) -> None:
    """A leader asks a voter at the endpoint that the log names, and then writes the one that the voter reports."""
    known = voter_changes.ask_levels

    def ask_levels(replica: Replica, node_id: NodeId, listeners: Listeners, now: Instant) -> None:
        del listeners
        known(replica, node_id, replica.voters.listeners(node_id), now)

    patch.setattr(update_voter, "ask_levels", ask_levels)


@bug("KAFKA-20661", "strangers")
def anybody_at_the_endpoint_is_the_voter(patch: Patch) -> None:
    """A leader writes a voter's new endpoint although the node there supports other levels than the voter reports."""
    known = update_voter.update_voter

    def update(replica: Replica, leader: Leader, change: Update, supported: VersionRange, now: Instant) -> None:
        del supported
        known(replica, leader, change, change.voter.kraft_version, now)

    patch.everywhere(known, update)


@bug("ours until ADR 032", "false_leaders")
def votes_for_somebody_who_is_called_the_leader_are_lost(patch: Patch) -> None:
    """A candidate ignores an answer that names it as the leader of its epoch, and loses the vote in it."""

    def is_named_wrongly(replica: Replica, epoch: Epoch, leader_id: NodeId | None) -> bool:
        return epoch > replica.epoch and _is_named_wrongly(replica, epoch, leader_id)

    patch.setattr(following, "_is_named_wrongly", is_named_wrongly)


@bug("Raft dissertation §4.2.3; ours until ADR 129", "forged")
def a_heard_leader_is_left_for_any_epoch(patch: Patch) -> None:
    """A replica that hears its leader yields to a request of a higher epoch, as often as somebody sends one."""
    patch.setattr(epoch_raise, "_hears_leader", lambda replica: False)
    patch.setattr(EpochBudget, "must_wait", lambda budget, sender, now_ms: False)


@bug("ours, almost: a forged name would cost a question each", "forged")
def voters_are_asked_about_each_forged_request(patch: Patch) -> None:
    """A stranger that sends requests in a voter's name makes other voters ask it as often, without a pause."""
    patch.setattr(EpochBudget, "may_ask", lambda budget, voter, now_ms, pause_ms: True)


@bug("ours until ADR 129: three frames ended a dynamic quorum for good", "forged")
def one_answer_is_enough_for_any_epoch(patch: Patch) -> None:
    """Any answer raises the epoch by any amount, and a voter that fetches may be moved: each covers for the other."""
    patch.everywhere(epoch_raise.may_answer_raise, lambda *_: True)
    patch.setattr(Replica, "would_move", lambda replica, voter: False)


@bug("ours until ADR 145", "all,forged")
def a_voter_is_asked_for_its_vote_at_its_newest_endpoint_only(patch: Patch) -> None:
    """A voter that was moved while it was down is asked where it is not; it has no leader to which it could report."""
    patch.setattr(send_requests, "QUESTIONS_BEFORE_TURNS", 10**9)


@bug("ours in ADR 145", "all")
def a_vote_goes_to_the_newest_endpoint(patch: Patch) -> None:
    """A voter that was found elsewhere grants its pre-vote there, but is asked for its vote where it is not."""
    patch.setattr(
        send_requests,
        "_peer_for_vote",
        lambda replica, node_id, count, real=send_requests._peer_for_vote: (
            replica.voter_peer(node_id) if isinstance(replica.state, Candidate) else real(replica, node_id, count)
        ),
    )


@bug("ours: a question was never sent, and its voter was silent", "forged")
def a_question_to_a_voter_ends_for_the_next_fetch(patch: Patch) -> None:
    """A Fetch that asks a voter for its epoch is dropped while it waits to be sent, so the voter seems silent."""
    patch.setattr(peers, "_acknowledges", lambda effect: isinstance(effect.message, FetchRequest))


@bug("ours until ADR 148; Kafka", "flipped")
def one_contradiction_gives_the_leader_up(patch: Patch) -> None:
    """A follower gives its leader up because of a single Fetch answer."""
    patch.setattr(fetch_response, "is_once", lambda *_, **__: False)


@bug("ours until ADR 148; Kafka's QuorumState throws an exception", "flipped")
def the_first_name_of_a_leader_stays(patch: Patch) -> None:
    """A node that was told of a wrong leader refuses the real one for the whole epoch."""
    patch.setattr(following, "_correct_leader", lambda *_: False)


@bug("ours in ADR 148", "all")
def a_campaign_ends_for_hearsay(patch: Patch) -> None:
    """A node that asks for pre-votes follows any leader that a peer has heard of."""

    def correct(replica: Any, peer_id: int, epoch: Any, leader_id: Any, told: Any, now: Any) -> bool:
        is_news = leader_id not in (None, replica.leader_id, replica.local.id) and epoch == replica.epoch
        if not isinstance(replica.state, Prospective) or not is_news or peer_id not in (replica.leader_id, leader_id):
            return bool(real(replica, peer_id, epoch, leader_id, told, now))
        enter_state.to_follower(replica, epoch, leader_id, replica.listeners_of(leader_id, told), now)
        return True

    real = following._correct_leader
    patch.setattr(following, "_correct_leader", correct)


@bug("Kafka; ours until ADR 129", "flipped")
def a_flipped_epoch_is_believed(patch: Patch) -> None:
    """The epoch of one answer is believed, however high it is."""
    patch.everywhere(epoch_raise.may_answer_raise, lambda *_: True)


@bug("KAFKA-18723", "flipped")
def fetched_records_are_not_checked(patch: Patch) -> None:
    """A follower appends what it fetched without a look at the checksums."""
    patch.setattr(fetched, "scan", lambda records: batch.scan(records, verify_crc=False))


@bug("ours; Kafka writes what it was told", "all")
def a_report_names_the_directory_for_good(patch: Patch) -> None:
    """An upgrade writes a directory id reported in a voter's name; that voter, with another one, votes for itself."""
    patch.setattr(Progress, "twin_of", lambda progress, key: None)
    begin = Tally.begin

    def by_id(_: Any, voters: Any, local: Any) -> Tally:
        return begin(voters, next((voter.key for voter in voters.voters if voter.key.id == local.id), local))

    patch.setattr(Tally, "begin", classmethod(by_id))
